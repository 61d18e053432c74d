"""Finds the new jobs of an SQLite file, and chooses the idle workers that look for them.

A notification of a write has no content, so each listening worker reads this, and all come to the
same result: the workers are listed in the file, and a job's id gives the place in the list where
they begin. ADR 48 says why few of them look at once.
"""

import sqlite3
import time
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mutirao.model.jobs.job import Wake
from mutirao.model.limits.fairness import queue_of
from mutirao.model.row_json import UnreadableRow, read_list

LATER = 3  # workers that look one after another, in case the first ones do not
MANY = 50  # jobs for which all are woken
EVERYBODY = -1  # who is not named is newer than this worker, and looks with the last
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = "SELECT coalesce(max(id), 0) FROM mutirao_job"
_NEW = """
SELECT j.id, j.task, l.queue, l.priority, l.run_at
FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
WHERE l.id > ? AND l.worker IS NULL ORDER BY l.id LIMIT ?
"""
_IDLE = """
SELECT id, queues, exclude_queues, tasks FROM mutirao_worker
WHERE listening AND expires_at > ? ORDER BY id
"""


class _Job(NamedTuple):
    id: int
    task: str
    queue: str
    priority: int
    run_at: int


class NewJobs:
    """The jobs that were enqueued since the last look, through a connection that never waits."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._last: int | None = None  # the newest job of the last look, if it is known
        self.look()

    def look(self) -> Wake:
        """Return the wake for what is new; without names if nothing is, or if it cannot be known.

        The file may be locked, or have no tables yet.
        """
        try:
            if self._last is None:
                return self._begin()
            new = self._connection.execute(_NEW, (self._last, MANY))
            jobs = [_Job(*row) for row in new]
            if len(jobs) == MANY:
                return self._begin()
            if not jobs:
                return Wake()
            self._last = jobs[-1].id
            return self._named(jobs)
        except sqlite3.OperationalError:
            return Wake()

    def _begin(self) -> Wake:
        [(self._last,)] = self._connection.execute(_LAST)
        return Wake()

    def _named(self, jobs: list[_Job]) -> Wake:
        idle = self._connection.execute(_IDLE, (time.time_ns() // 1_000,)).fetchall()
        lanes = {(job.queue, job.priority) for job in jobs}
        first: dict[int, None] = {}
        then: dict[int, None] = {}
        for job in jobs:
            able = [id for id, *serves in idle if _serves(job, *serves)]
            if not able:
                return Wake()
            named = _chosen(able, job.id)
            first[named[0]] = None
            then |= dict.fromkeys(named[1:])
        later = tuple(id for id in then if id not in first)[:LATER]
        if len(lanes) > 1:
            return Wake(first=tuple(first), then=later, newest=EVERYBODY)
        [(queue, priority)] = lanes
        due = _EPOCH + timedelta(microseconds=min(job.run_at for job in jobs))
        return Wake(queue, priority, due, tuple(first), later, EVERYBODY)


def _chosen(able: list[int], job: int) -> list[int]:
    """Return the workers that look for a job, first one first, spread over the list.

    By the golden ratio, in 65536ths: jobs that come one after another are for different workers.
    """
    named = min(len(able), 1 + LATER)
    start = ((job & 65535) * 40503 & 65535) * len(able) >> 16
    return [able[(start + n * len(able) // named) % len(able)] for n in range(named)]


def _serves(job: _Job, queues: str | None, exclude: str | None, tasks: str | None) -> bool:
    queue = queue_of(job.queue)
    return (
        (queues is None or queue in _names(queues))
        and (exclude is None or queue not in _names(exclude))
        and (tasks is None or job.task in _names(tasks))
    )


def _names(text: str) -> list[Any]:
    """Return the names in a worker's row; none, if another program has written something else."""
    try:
        return read_list(text)
    except UnreadableRow:
        return []
