"""Wagtail, fetched and never committed, whose tasks run on our backend: a command by hand."""
