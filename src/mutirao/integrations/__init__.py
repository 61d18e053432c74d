"""Mutirão beside other packages, one file for each: what they need to know of it."""
