"""A Django project on a migrated database, for programs that a test runs: `shop`, with its orders.

Not collected by pytest, since Django is set up once for a process.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import django
from django.conf import settings
from sqlalchemy import make_url

ENGINES = {"postgresql": "postgresql", "sqlite": "sqlite3", "mysql": "mysql", "mariadb": "mysql"}
BACKEND = "mutirao.integrations.django.MutiraoBackend"
AS_APP = [] if django.VERSION >= (6,) else ["django_tasks"]


def database(url: str) -> dict[str, Any]:
    """Return what DATABASES has of a URL."""
    parts = make_url(url)
    found: dict[str, Any] = {
        "ENGINE": f"django.db.backends.{ENGINES[parts.get_backend_name()]}",
        "NAME": parts.database,
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": parts.host or "",
        "PORT": parts.port or "",
        "OPTIONS": {},
    }
    if found["ENGINE"].endswith("sqlite3"):
        found["OPTIONS"] = {"transaction_mode": "IMMEDIATE", "timeout": 20}
    elif parts.query.get("unix_socket"):
        found["HOST"] = parts.query["unix_socket"]
    return found


def set_up(url: str, **more: Any) -> None:
    """Set Django up on a database; `more` are settings."""
    os.environ |= {"SHOP_URL": url, "DJANGO_SETTINGS_MODULE": f"{__package__}.django_settings"}
    prepare(url)
    settings.configure(**(of_project(url) | more))
    django.setup(set_prefix=False)


def prepare(url: str) -> None:
    """Make Django use the driver of a URL."""
    if "psycopg2" in url:
        sys.modules["psycopg"] = None  # type: ignore[assignment]  # Django prefers it
    if "+pymysql" in url:
        import pymysql

        pymysql.install_as_MySQLdb()
        pymysql.version_info = (2, 2, 7, "final", 0)  # Django asks for it


def of_project(url: str) -> dict[str, Any]:
    """Return the settings of the project."""
    return {
        "DATABASES": {"default": database(url), "other": database(url)},
        "INSTALLED_APPS": ["mutirao.integrations.django", *AS_APP],
        "TASKS": {"default": {"BACKEND": BACKEND}},
        "USE_TZ": True,
        "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
    }
