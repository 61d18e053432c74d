"""What is added to the settings that `wagtail start` writes; copied there as `local.py`."""

# ruff: noqa: F403, F405
from mutirao import Retry

from .base import *

ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = [*INSTALLED_APPS, "mutirao.integrations.django"]
# As with its other backends: what is about a row that is gone fails, once.
OPTIONS = {"retry": Retry.never()}
TASKS = {"default": {"BACKEND": "mutirao.integrations.django.MutiraoBackend", "OPTIONS": OPTIONS}}
DATABASES["default"]["OPTIONS"] = {"timeout": 30, "transaction_mode": "IMMEDIATE"}
