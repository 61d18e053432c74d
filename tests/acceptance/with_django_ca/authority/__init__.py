"""The project that has django-ca as an app; copied to where it is run."""
