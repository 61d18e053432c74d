"""The URLs of the project: the admin, and the dashboard beside it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[Any | URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("jobs/", include("mutirao.integrations.django.urls")),
]
