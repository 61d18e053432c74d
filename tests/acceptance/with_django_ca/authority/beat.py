"""The schedules that django-ca's documents advise, every three seconds, so that they are seen."""

from datetime import timedelta

import django_ca.tasks  # noqa: F401 (whose tasks the entries name)
from authority.moved import celery

NAMES = (
    *("generate_crls", "generate_ocsp_keys", "generate_ocsp_responses", "notify_watchers"),
    "acme_cleanup",
)
OFTEN = {"schedule": timedelta(seconds=3), "options": {"expires": 60}}
celery.add_beat_schedule(
    {name: {"task": f"django_ca.tasks.{name}", **OFTEN} for name in NAMES}, timezone="Europe/Vienna"
)
