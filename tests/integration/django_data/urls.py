"""The URLs of the project: the admin, and the dashboard beside it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.urls import URLPattern, URLResolver, path

urlpatterns: list[Any | URLPattern | URLResolver] = [path("admin/", admin.site.urls)]
