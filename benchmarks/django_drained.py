"""The settings and the task of `benchmarks.django_drain`, for its workers."""

from __future__ import annotations

import os

from tests.integration.integrations.django_project import database

OURS, PEER = "mutirao.integrations.django.MutiraoBackend", "django_tasks_db.DatabaseBackend"
USE_TZ = True
SECRET_KEY = "of a benchmark"  # noqa: S105
DATABASES = {"default": {**database(os.environ["BENCH_URL"]), "CONN_MAX_AGE": 60}}
INSTALLED_APPS = ["mutirao.integrations.django", "django_tasks_db", "benchmarks"]
TASKS = {"default": {"BACKEND": OURS}, "peer": {"BACKEND": PEER}}
MUTIRAO = {"MODULES": ["django_sent"]}
# Django's own level for its loggers is INFO: two lines for each job.
LOGGING = {"version": 1, "loggers": {"django": {"level": "ERROR"}}}
