"""What enqueueing takes in a Django project: django.tasks on ours, on django-tasks-db, natively.

    pip install django-tasks-db
    python -m benchmarks.django_enqueue postgresql+psycopg://…

The database is an empty one with Mutirão's tables. In turns, so that a busy machine is one for all;
the client's processor time beside it. Not part of `make bench`: it is a question of a few percent.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import django
from django.conf import settings

ROUNDS, CALLS = 7, 300
OURS, PEER = "mutirao.integrations.django.MutiraoBackend", "django_tasks_db.DatabaseBackend"


def ways(url: str) -> dict[str, Callable[[], object]]:
    """Return what enqueues a job, by name."""
    from django.core.management import call_command
    from django.tasks import task

    from mutirao import Mutirao
    from mutirao.integrations.django import app

    call_command("migrate", "django_tasks_database", verbosity=0)
    native, alone = app.task(name="native")(send), Mutirao(url).task(name="alone")(send)
    ours: Any = task(send)
    globals()["send"] = ours  # where the peer looks for it
    peer = ours.using(backend="peer")
    return {
        "MutiraoBackend": lambda: ours.enqueue(order=1),
        "django-tasks-db": lambda: peer.enqueue(order=1),
        "@app.task in Django": lambda: native.enqueue(order=1),
        "@app.task of Mutirao(url)": lambda: alone.enqueue(order=1),
    }


def send(order: int) -> None:
    """Be enqueued."""


def measured(call: Callable[[], object], block: Any) -> tuple[float, float]:
    """Return the microseconds of a call, and those of this process's processor time."""
    with block:
        wall, busy = time.perf_counter(), time.process_time()
        for _ in range(CALLS):
            call()
        passed = time.perf_counter() - wall, time.process_time() - busy
    return passed[0] / CALLS * 1e6, passed[1] / CALLS * 1e6


def main(url: str) -> None:
    """Print the medians, alone and within `atomic`."""
    from tests.integration.integrations.django_project import database

    settings.configure(
        DATABASES={"default": database(url)},
        INSTALLED_APPS=["mutirao.integrations.django", "django_tasks_db"],
        TASKS={"default": {"BACKEND": OURS}, "peer": {"BACKEND": PEER}},
    )
    django.setup()
    from django.db import transaction

    all_ways = ways(url)
    for name, block in (("alone", nullcontext), ("in atomic", transaction.atomic)):
        found: dict[str, list[tuple[float, float]]] = {each: [] for each in all_ways}
        for _ in range(ROUNDS):
            for each, call in all_ways.items():
                found[each].append(measured(call, block()))
        for each, figures in found.items():
            wall, busy = (statistics.median(side) for side in zip(*figures, strict=True))
            print(f"{name:10} {each:26} {wall:6.0f} µs, {busy:6.0f} µs of the client")


if __name__ == "__main__":
    main(sys.argv[1])
