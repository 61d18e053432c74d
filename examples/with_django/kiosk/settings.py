"""The settings of a project with one app, on SQLite, or on the PostgreSQL of PGHOST, PGUSER, …"""

import os

SECRET_KEY = os.environ.get("KIOSK_SECRET", "for development")
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "kiosk.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["mutirao.integrations.django", "kiosk"]
NAME = os.environ.get("PGDATABASE") or os.path.abspath(os.environ.get("KIOSK_FILE", "kiosk.db"))
POSTGRESQL = {"ENGINE": "django.db.backends.postgresql", "NAME": NAME}
BESIDE = {"timeout": 30, "transaction_mode": "IMMEDIATE"}  # a worker writes to the file, too
SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": NAME, "OPTIONS": BESIDE}
DATABASES = {"default": POSTGRESQL if "PGDATABASE" in os.environ else SQLITE}
