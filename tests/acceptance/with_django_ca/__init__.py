"""django-ca, whose tasks are Celery's, moved to `mutirao.integrations.celery`: by hand."""
