"""Mutirão inside applications of web frameworks: lifespans, sessions, plugins."""
