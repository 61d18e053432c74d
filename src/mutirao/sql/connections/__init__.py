"""Engines, pools and time limits: how statements reach a database."""
