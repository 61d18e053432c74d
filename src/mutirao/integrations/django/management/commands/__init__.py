"""`manage.py mutirao`."""
