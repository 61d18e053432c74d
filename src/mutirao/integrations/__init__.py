"""Support for other packages, one file for each package."""
