"""The settings of the project for programs that have them by DJANGO_SETTINGS_MODULE."""

from __future__ import annotations

import os

from tests.integration.integrations.django_project import of_project, prepare

prepare(os.environ["SHOP_URL"])
globals().update(of_project(os.environ["SHOP_URL"]))
if "SHOP_MODULES" in os.environ:
    globals()["INSTALLED_APPS"].append(__package__)
    MUTIRAO = {"MODULES": os.environ["SHOP_MODULES"].split(",")}
