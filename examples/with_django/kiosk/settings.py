"""The settings of a project with one application."""

import os
from pathlib import Path

FILE = Path(os.environ.get("KIOSK_FILE", "kiosk.db")).absolute()
SECRET_KEY = os.environ.get("KIOSK_SECRET", "for development")
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "kiosk.urls"
INSTALLED_APPS = ["kiosk"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": FILE,
        # Beside a worker: SQLite has one writer, and whoever reads first may not become it.
        "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE"},
    }
}
