"""The settings of the shop, as one has them that serves people: `check --deploy` is content."""

from __future__ import annotations

import os

from tests.integration.integrations.django_project import of_project, prepare

URL = os.environ["SHOP_URL"]
prepare(URL)
found = of_project(URL)
# Each handler would open a connection otherwise, as each request.
found["DATABASES"]["default"] |= {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
found["INSTALLED_APPS"].append(__package__)
found |= {
    "ALLOWED_HOSTS": ["shop.example"],
    "DEBUG": False,
    "MIDDLEWARE": [
        "django.middleware.security.SecurityMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    "SECRET_KEY": "".join(map(chr, range(48, 127))),  # of no use to anybody
    "SECURE_HSTS_SECONDS": 31_536_000,
    "SECURE_HSTS_INCLUDE_SUBDOMAINS": True,
    "SECURE_HSTS_PRELOAD": True,
    "SECURE_SSL_REDIRECT": True,
    "SESSION_COOKIE_SECURE": True,
    "CSRF_COOKIE_SECURE": True,
}
globals().update(found)
