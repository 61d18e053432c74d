"""Django's own tests of `django.tasks`, and those of django-tasks-db, with our backend.

They are fetched, and in no commit. What must differ stands here, with the reason; what else does
not pass is a fault. Django 5.2 has no such tests.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import django
import pytest

from tests.support.sdists import source_of

pytestmark = pytest.mark.repeats(decided="tests/integration/integrations/test_django_backend.py")

IN_A_COROUTINE = "it makes synchronous calls in a coroutine, which Django refuses for databases"
OF_DJANGO = {
    "test_enqueue_task_async": IN_A_COROUTINE,
    "test_get_missing_result": IN_A_COROUTINE,
    "test_refresh_result": f"{IN_A_COROUTINE}; or it changes the dummy's list of results",
    "test_refresh_result_async": "it changes the dummy's list of results",
}
ITS_MODEL = "it makes or changes rows of its own model"
ITS_COMMAND = "it is about the options of its own command"
IDS = "an id is that of the job, and nobody chooses it"
OF_TASKS_DB = {
    "test_index_scan_for_ready": ITS_MODEL,
    "test_invalid_task_path": ITS_MODEL,
    "test_missing_task_path": ITS_MODEL,
    "test_priority_range_check": ITS_MODEL,
    "test_refresh_result": ITS_MODEL,
    "test_refresh_result_async": ITS_MODEL,
    "test_run_after": ITS_MODEL,
    "test_run_after_null_0016_migration": ITS_MODEL,
    "test_run_after_priority": ITS_MODEL,
    "test_task_import_string": ITS_MODEL,
    "test_task_name": ITS_MODEL,
    "test_empty_worker_id": ITS_COMMAND,
    "test_exclude_queues_requires_processing_all_queues": ITS_COMMAND,
    "test_fractional_interval": ITS_COMMAND,
    "test_incorrect_backend": ITS_COMMAND,
    "test_infinite_interval": ITS_COMMAND,
    "test_max_tasks": ITS_COMMAND,
    "test_negative_interval": ITS_COMMAND,
    "test_negative_max_tasks": ITS_COMMAND,
    "test_too_long_worker_id": ITS_COMMAND,
    "test_unknown_backend": ITS_COMMAND,
    "test_verbose_logging": ITS_COMMAND,
    "test_zero_interval": ITS_COMMAND,
    "test_zero_max_tasks": ITS_COMMAND,
    "test_custom_id_function": IDS,
    "test_unknown_id_function": IDS,
    "test_database_backend_app_missing": "the check of the app is not the backend's",
    "test_complex_return_value": "it has failed, in the words of Django's normalize_json",
    "test_doesnt_process_different_backend": "a worker serves queues, of whatever backend",
}
# Of those that are left out on SQLite.
ON_POSTGRESQL = {
    "test_doesnt_wait_until_transaction_commit": ITS_MODEL,
    "test_worker_with_locked_rows": ITS_MODEL,
    "test_postgres_db_id_function": IDS,
}
DJANGO = ("test_tasks", "test_custom_backend", "test_immediate_backend", "test_dummy_backend")
CLASSES = ("DatabaseBackendTestCase", "DatabaseBackendWorkerTestCase")
TASKS_DB = "0.13.0"


def failed(url: str, place: Path, *names: str) -> tuple[int, set[str]]:
    """Run tests of a directory; return how many ran, and which did not pass."""
    run = subprocess.run(
        [sys.executable, "-m", f"{__package__}.django_suite", url, str(place), *names],
        stdout=subprocess.PIPE,
        text=True,
        timeout=280,
        check=True,
    )
    ran, *names_of_failed = run.stdout.splitlines()[-1].split()
    return int(ran), {*names_of_failed}


def test_django_s(migrated_sqlite_url: str, tmp_path: Path) -> None:
    """Those of the Django that is installed."""
    source = source_of("django", django.get_version())
    shutil.copytree(source / "tests" / "tasks", tmp_path / "tasks")
    names = [f"tasks.{name}" for name in DJANGO]
    ran, which = failed(migrated_sqlite_url, tmp_path, *names)
    assert ran >= 70  # Django 6.0 has 76, 6.1 has 85
    assert which == {*OF_DJANGO}


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_django_tasks_db_s(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> None:
    """Those of its backend and of its worker; the others are about its model and its commands."""
    url = request.getfixturevalue(f"migrated_{database}_url")
    shutil.copytree(
        source_of("django", django.get_version()) / "tests" / "tasks", tmp_path / "tasks"
    )
    theirs = source_of("django-tasks-db", TASKS_DB) / "tests" / "tests.py"
    shutil.copy(theirs, tmp_path / "tests_db.py")
    ran, which = failed(url, tmp_path, *(f"tests_db.{name}" for name in CLASSES))
    assert ran >= 50  # with Django 6.0 58, with 6.1 61
    more = ON_POSTGRESQL if database == "postgresql" else {}
    assert which == {*OF_TASKS_DB, *more}
