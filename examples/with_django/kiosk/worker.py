"""What `mutirao worker kiosk.worker:app` takes: the application, after Django is set up."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kiosk.settings")
django.setup()

from kiosk.jobs import app as app  # noqa: E402
