"""How fast workers empty a queue of django.tasks: ours, and that of django-tasks-db.

    pip install django-tasks-db
    python -m benchmarks.django_drain postgresql+psycopg://… [JOBS [ROUNDS]]

The database is an empty one with Mutirão's tables. In turns, with one worker process and with two;
jobs do nothing, so that it is the worker that is measured. A figure is jobs in a second, from the
first start to the last end, as each system has written them down.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import django
from django.db import connection, transaction

JOBS, ROUNDS = 5_000, 3
SERVE = {
    "MutiraoBackend": ("mutirao", "worker", "--log-level", "error"),
    "django-tasks-db": ("db_worker", "--backend", "peer", "--interval", "0.1"),
}
LEFT = {
    "MutiraoBackend": "SELECT count(*) FROM mutirao_live",
    "django-tasks-db": "SELECT count(*) FROM django_tasks_database_dbtaskresult"
    " WHERE finished_at IS NULL",
}
SPAN = {
    "MutiraoBackend": "SELECT min(started_at), max(finished_at) FROM mutirao_attempts",
    "django-tasks-db": "SELECT min(started_at), max(finished_at)"
    " FROM django_tasks_database_dbtaskresult",
}
TABLES = ("mutirao_result", "mutirao_attempt", "mutirao_job", "django_tasks_database_dbtaskresult")


def asked(sql: str) -> Any:
    """Return the row that a statement selects."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()


def drained(system: str, enqueue: Callable[[], object], jobs: int, workers: int) -> float:
    """Return the jobs in a second."""
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"DELETE FROM {table}")  # noqa: S608 (our own names)
    with transaction.atomic():
        for _ in range(jobs):
            enqueue()
    command = (sys.executable, "-m", "django", *SERVE[system])
    processes = [subprocess.Popen(command) for _ in range(workers)]
    try:
        while asked(LEFT[system])[0]:
            time.sleep(0.2)
    finally:
        for each in processes:
            each.terminate()
        for each in processes:
            each.wait()
    first, last = asked(SPAN[system])
    return jobs / float((last - first).total_seconds())


def main(url: str, jobs: int = JOBS, rounds: int = ROUNDS) -> None:
    """Print the medians."""
    os.environ |= {"BENCH_URL": url, "DJANGO_SETTINGS_MODULE": "benchmarks.django_drained"}
    django.setup()
    from django.core.management import call_command

    from benchmarks.django_sent import send

    call_command("migrate", "django_tasks_database", verbosity=0)
    peer: Any = send.using(backend="peer")
    calls = {
        "MutiraoBackend": lambda: send.enqueue(order=1),
        "django-tasks-db": lambda: peer.enqueue(order=1),
    }
    for workers in (1, 2):
        found: dict[str, list[float]] = {each: [] for each in calls}
        for _ in range(rounds):
            for system, call in calls.items():
                found[system].append(drained(system, call, jobs, workers))
        for system, figures in found.items():
            per_second = statistics.median(figures)
            print(f"{workers} workers {system:16} {per_second:8,.0f} jobs/s, of {rounds} rounds")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
