"""Statements that are written once for all databases."""
