"""What Django's own tests of backends, and those of django-tasks-db, ask in place of their own.

`DummyBackend` is ours with what those tests use besides. One thing is different of each result: the
moment of enqueueing is this machine's until it is read, so here it is read at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection

from mutirao.integrations.django import MutiraoBackend, app
from mutirao.integrations.django.compat import TaskResultStatus, default_task_backend
from mutirao.testing import drain

STATES = {"ready": "READY", "successful": "SUCCESSFUL", "failed": "FAILED"}


class DummyBackend(MutiraoBackend):
    """Ours, with `results` and `clear()`."""

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Any) -> Any:
        """Enqueue, and read the moment."""
        result = super().enqueue(task, args, kwargs)
        object.__setattr__(result, "enqueued_at", self.get_result(result.id).enqueued_at)
        return result

    @property
    def results(self) -> list[Any]:
        """All results."""
        return [self.get_result(str(id)) for id in ids()]

    def clear(self) -> None:
        """Delete all jobs."""
        with connection.cursor() as cursor:
            for table in ("result", "attempt", "live", "job"):
                cursor.execute(f"DELETE FROM mutirao_{table}")  # noqa: S608 (our own names)


DatabaseBackend = DummyBackend  # in place of django-tasks-db's


def ids() -> list[int]:
    """Return the ids of all jobs."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM mutirao_jobs ORDER BY id")
        return [id for (id,) in cursor.fetchall()]


class Found:
    """In place of django-tasks-db's querysets: the jobs of a status, or all."""

    def __init__(self, status: str | None = None) -> None:
        self._status = status

    def count(self) -> int:
        """Return how many there are."""
        results = [default_task_backend.get_result(str(id)) for id in ids()]
        due = [each for each in results if not (self._status == "READY" and each.task.run_after)]
        return sum(self._status in (None, str(TaskResultStatus(each.status))) for each in due)

    def get(self, id: str) -> Any:
        """Return what has a task."""
        return default_task_backend.get_result(id)

    def __getattr__(self, name: str) -> Any:
        return lambda: Found(STATES[name])


class DBTaskResult:
    """In place of django-tasks-db's model."""

    objects = Found()


def run_worker(**options: Any) -> None:
    """Do what its worker does in a batch."""
    queues = options.get("queue_name", "default")
    served = None if queues == "*" else queues.split(",")
    left_out = options.get("exclude_queues", "").split(",")
    if served is None:
        served = [each for each in ("default", "queue-1") if each not in left_out]
    drain(app, queues=served)
