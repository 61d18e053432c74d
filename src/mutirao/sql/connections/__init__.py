"""Engines, pools and time limits: the way of statements to a database."""
