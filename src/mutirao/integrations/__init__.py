"""Support for using Mutirão beside other packages, one file for each package."""
