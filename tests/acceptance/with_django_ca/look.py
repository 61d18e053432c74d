"""Prints what is there: jobs by task and state, schedules, what the tasks have made."""

# ruff: noqa: E402

import json
import os
from collections import Counter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authority.settings")
import django

django.setup()

from django_ca.models import Certificate, CertificateRevocationList

from mutirao.integrations.django.models import Job, Schedule

jobs = Counter(
    f"{each.task.removeprefix('django_ca.tasks.')} {each.state}" for each in Job.objects.all()
)
found = {
    "jobs": dict(sorted(jobs.items())),
    "schedules": {each.name: each.last_state for each in Schedule.objects.all()},
    "revocation lists": CertificateRevocationList.objects.count(),
    "certificates of responders": Certificate.objects.count(),
}
print(json.dumps(found))
