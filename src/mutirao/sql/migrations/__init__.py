"""The schema's versions and how a database gets from one to the next."""
