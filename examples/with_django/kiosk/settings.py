"""The settings of a project with one application."""

import os

FILE = os.path.abspath(os.environ.get("KIOSK_FILE", "kiosk.db"))
SECRET_KEY = os.environ.get("KIOSK_SECRET", "for development")
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "kiosk.urls"
INSTALLED_APPS = ["kiosk"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Beside a worker: SQLite has one writer, and whoever reads first may not become it.
BESIDE = {"timeout": 30, "transaction_mode": "IMMEDIATE"}
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FILE, "OPTIONS": BESIDE}}
