"""`python -m tests.acceptance.with_django_ca`: tasks of Celery, with beat and worker, by ours.

django-ca is installed from PyPI into an environment of its own, `.matrix/django-ca`, and one of its
lines is changed there: `from celery import Task, shared_task`. Nothing of it is committed. An
authority is made, whose tasks are enqueued by that, and schedules go on. Exits with 1 if a task has
failed, or has not run.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.acceptance.fetched import environment, run, working

BESIDE = Path(__file__).parent
OF_CELERY = "from celery import Task, shared_task"
MOVED = "from authority.moved import Task, shared_task"
TASKS = (
    *("generate_crl", "generate_crls", "generate_ocsp_key", "generate_ocsp_keys", "acme_cleanup"),
    *("generate_ocsp_responses", "notify_watchers"),
)


def main() -> int:
    """Move it, make an authority, work, compare."""
    made = environment("django-ca", "django-ca", "celery>=5.6")
    [its] = made.glob("lib/python*/site-packages/django_ca/celery/base.py")
    its.write_text(its.read_text().replace(OF_CELERY, MOVED))
    python = made / "bin" / "python"
    with tempfile.TemporaryDirectory(prefix="mutirao-django-ca-") as name:
        place = Path(name) / "site"
        shutil.copytree(BESIDE, place)
        run(place, python, "manage.py", "migrate", "--verbosity", "0")
        run(place, python, "manage.py", "init_ca", "Root", "CN=root.example")
        with working(place, python) as until:
            until(lambda: {*_found(place, python)["jobs"]} >= {f"{t} succeeded" for t in TASKS})
        found = _found(place, python)
    print(json.dumps(found, indent=1))
    ended = {each.split()[-1] for each in found["jobs"]}
    return int("dead" in ended or not found["revocation lists"])


def _found(place: Path, python: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(place, python, "look.py").splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
