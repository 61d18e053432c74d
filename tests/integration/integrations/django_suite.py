"""Runs tests of other packages against our backend, as a program: where they are, and which.

The files are changed as they are loaded: what names a backend, or a model of that backend, names
ours. Prints a line of each test that did not pass.
"""

from __future__ import annotations

import sys
import unittest
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from tests.integration.integrations.django_project import set_up

if __name__ != "__main__":
    raise ImportError("run this as a program")

HERE = "tests.integration.integrations.django_suite_backend"
DUMMY = "django.tasks.backends.dummy"
CHANGES = {
    f"from {DUMMY} import": f"from {HERE} import",
    f"{DUMMY}.DummyBackend": f"{HERE}.DummyBackend",
    "import SimpleTestCase": "import TransactionTestCase as SimpleTestCase",
    "django_tasks_db.DatabaseBackend": f"{HERE}.DatabaseBackend",
    "from tests import tasks": "from tasks import tasks",
    "ValueError: This task failed due": "ValueError: This Task failed due",  # tasks of Django
    # An id is a number here.
    "uuid.UUID(result.id).version, 4": "result.id.isdigit(), True",
    "str(uuid.uuid4())": "'123456789'",
    'call_command,\n            "db_worker",': "compat.run_worker,",
}
# What the tests that are run do not use of django-tasks-db.
ABSENT = ("admin", "management.commands.prune_db_task_results", "utils")
url, place, *names = sys.argv[1:]
for path in Path(place).rglob("*.py"):
    text = path.read_text()
    for theirs, ours in CHANGES.items():
        text = text.replace(theirs, ours)
    path.write_text(text)

sys.path.insert(0, place)
set_up(url, MUTIRAO={"RETRY": __import__("mutirao").Retry.never()}, TASKS={
    "default": {"BACKEND": f"{HERE}.DummyBackend", "QUEUES": ["default", "queue_1"]},
    "immediate": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend", "QUEUES": []},
    "missing": {"BACKEND": "does.not.exist"},
})  # fmt: skip

from django.db import connections  # noqa: E402
from django.test import TransactionTestCase  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402

from mutirao.integrations.django import app  # noqa: E402
from tests.integration.integrations import django_suite_backend as ours_in_place  # noqa: E402

DatabaseBackend = ours_in_place.DatabaseBackend


theirs_in_place: Any = MagicMock(DatabaseBackend=DatabaseBackend, compat=ours_in_place)
sys.modules |= {
    "django_tasks_db": theirs_in_place,
    "django_tasks_db.models": MagicMock(DBTaskResult=ours_in_place.DBTaskResult),
    **{f"django_tasks_db.{name}": MagicMock() for name in ABSENT},
}


def _clean(self: Any) -> None:
    DatabaseBackend("default", {}).clear()


case: Any = TransactionTestCase
case._fixture_setup = classmethod(_clean) if isinstance(
    vars(case)["_fixture_setup"], classmethod
) else _clean  # fmt: skip
case.assertNumQueries = lambda *_, **__: nullcontext()  # those of its own SQL
case.databases = {"default"}
setup_test_environment()
suite = unittest.defaultTestLoader.loadTestsFromNames(names)
result = unittest.TextTestRunner(verbosity=0).run(suite)
failed = {str(each[0]).split()[0] for each in (*result.failures, *result.errors)}
print(result.testsRun, *sorted(failed))  # noqa: T201
app.close()
connections.close_all()
