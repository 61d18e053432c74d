"""A Django project for the programs of this directory, set up once for each of them."""

from __future__ import annotations

import sys
from typing import Any

import django
from django.conf import settings
from sqlalchemy import URL, make_url

_ENGINES = {"postgresql": "postgresql", "sqlite": "sqlite3", "mysql": "mysql"}
APPS = [
    *(f"django.contrib.{each}" for each in ("contenttypes", "auth", "sessions", "messages")),
    "django.contrib.admin",
    "mutirao.integrations.django",
]
TEMPLATES = {
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "APP_DIRS": True,
    "OPTIONS": {
        "context_processors": [
            "django.template.context_processors.request",
            "django.contrib.auth.context_processors.auth",
            "django.contrib.messages.context_processors.messages",
        ]
    },
}
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]


def database(url: str | URL) -> dict[str, Any]:
    """Return what DATABASES has of a database."""
    found = make_url(url)
    said: dict[str, Any] = {
        "ENGINE": f"django.db.backends.{_ENGINES[found.get_backend_name()]}",
        "NAME": found.database,
        "USER": found.username or "",
        "PASSWORD": found.password or "",
        "HOST": found.host or "",
        "PORT": str(found.port or ""),
    }
    if found.get_backend_name() == "sqlite":
        said["OPTIONS"] = {"transaction_mode": "IMMEDIATE", "timeout": 20}
    return said


def set_up(*urls: str, **more: Any) -> None:
    """Set Django up with databases: `default`, and `db1`, `db2` … for the others."""
    if "psycopg2" in urls[0]:
        sys.modules["psycopg"] = None  # type: ignore[assignment]  # Django prefers it
    names = ["default", *(f"db{n}" for n in range(1, len(urls)))]
    given: dict[str, Any] = {
        "DATABASES": dict(zip(names, map(database, urls), strict=True)),
        "INSTALLED_APPS": APPS,
        "MIDDLEWARE": MIDDLEWARE,
        "TEMPLATES": [TEMPLATES],
        "ROOT_URLCONF": "tests.integration.django_data.urls",
        "SECRET_KEY": "of a test",
        "USE_TZ": True,
        "TIME_ZONE": "UTC",
        "ALLOWED_HOSTS": ["*"],
        "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
        "STATIC_URL": "/static/",
        **more,
    }
    settings.configure(**given)
    django.setup(set_prefix=False)
