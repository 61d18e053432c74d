"""`init`: write the start of an application into a directory; its files are in `templates`."""
