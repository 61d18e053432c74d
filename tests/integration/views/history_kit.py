"""What the views have to say of the whole history, counted one by one from the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Connection, select

from mutirao.sql.schema import tables, views

FINAL = ("succeeded", "dead", "cancelled")
FAILED = ("retried", "dead", "lost")


class Ended(NamedTuple):
    """An attempt that has ended, with what is known of its job."""

    job: int
    run: int
    queue: str
    task: str
    outcome: str
    finished_at: datetime
    seconds: float
    error_type: str | None
    message: str | None


@dataclass
class Ledger:
    """All attempts there are, and those that were added up before they were deleted."""

    gone: dict[tuple[int, int], Ended] = field(default_factory=dict)

    def note(self, conn: Connection) -> None:
        """Remember what is added up now, as some of it will be deleted."""
        attempt, until = tables.attempt.c, conn.scalar(select(tables.rolled.c.until))
        if until is not None:
            counted = (attempt.finished_at < until) & attempt.came_late.is_(None)
            self.gone |= {(each.job, each.run): each for each in _ended(conn, counted)}

    def check(self, conn: Connection, *, deleted: bool) -> None:
        """Compare each view with what there is. Where some were deleted, errors count no jobs."""
        present = {(each.job, each.run): each for each in _ended(conn, True)}
        ever = (self.gone | present).values()
        assert finished(conn) == _by(
            FINAL, present.values(), lambda each: (each.queue, each.outcome)
        )
        assert _throughput(conn) == _hours(ever)
        assert _errors(conn, jobs=not deleted) == _failures(ever, jobs=not deleted)
        assert live(conn) == _live(conn)


def finished(conn: Connection) -> dict[tuple[str, str], int]:
    """Return what the view says of finished jobs, by queue and state."""
    return {key: number for key, number in _queues(conn).items() if key[1] in FINAL}


def live(conn: Connection) -> dict[tuple[str, str], int]:
    """Return what the view says of live jobs, by queue and state."""
    return {key: number for key, number in _queues(conn).items() if key[1] not in FINAL}


def _queues(conn: Connection) -> dict[tuple[str, str], int]:
    view = views.queues.c
    return {
        (row[0], row[1]): row[2] for row in conn.execute(select(view.queue, view.state, view.jobs))
    }


def _live(conn: Connection) -> dict[tuple[str, str], int]:
    """Return the same, job by job, as the view of jobs has it."""
    view = views.jobs.c
    rows = conn.execute(select(view.queue, view.state).where(view.state.not_in(FINAL)))
    return _count((row[0], row[1]) for row in rows)


def _ended(conn: Connection, where: Any) -> list[Ended]:
    job, attempt = tables.job.c, tables.attempt.c
    rows = conn.execute(
        select(tables.attempt, job.queue, job.task)
        .join(tables.job, job.id == attempt.job)
        .where(where)
    )
    return [
        Ended(
            *(row.job, row.run, row.queue, row.task, row.outcome, row.finished_at),
            max((row.finished_at - row.started_at).total_seconds(), 0.0),
            row.error_type,
            None if row.error is None else row.error.split("\n")[0],
        )
        for row in rows
    ]


def _throughput(conn: Connection) -> dict[Any, Any]:
    return {
        (row.hour, row.queue, row.task, row.outcome): (
            *(row.attempts, pytest.approx(row.mean_duration, abs=1e-6)),
            *(row.p50_duration, row.p95_duration, row.p99_duration),
        )
        for row in conn.execute(select(views.throughput))
    }


def _hours(ever: Iterable[Ended]) -> dict[Any, Any]:
    groups: dict[Any, list[float]] = defaultdict(list)
    for each in ever:
        hour = each.finished_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        groups[hour, each.queue, each.task, each.outcome].append(each.seconds)
    return {
        key: (len(all), sum(all) / len(all), *(_percentile(all, share) for share in (50, 95, 99)))
        for key, all in groups.items()
    }


def _percentile(all: list[float], share: int) -> float:
    """Return it as the view tells it, to two digits."""
    return float(f"{sorted(all)[ceil(len(all) * share / 100) - 1]:.1e}")


def _errors(conn: Connection, *, jobs: bool) -> dict[Any, Any]:
    return {
        (row.task, row.error_type, row.message): (
            *(row.attempts, row.first_at, row.last_at),
            row.jobs if jobs else None,
        )
        for row in conn.execute(select(views.errors))
    }


def _failures(ever: Iterable[Ended], *, jobs: bool) -> dict[Any, Any]:
    groups: dict[Any, list[Ended]] = defaultdict(list)
    for each in ever:
        if each.outcome in FAILED:
            groups[each.task, each.error_type, each.message].append(each)
    return {
        key: (
            *(len(all), min(e.finished_at for e in all), max(e.finished_at for e in all)),
            len({e.job for e in all}) if jobs else None,
        )
        for key, all in groups.items()
    }


def _by(outcomes: Iterable[str], all: Iterable[Ended], key: Any) -> dict[Any, int]:
    return _count(key(each) for each in all if each.outcome in outcomes)


def _count(keys: Iterable[Any]) -> dict[Any, int]:
    counted: dict[Any, int] = defaultdict(int)
    for key in keys:
        counted[key] += 1
    return dict(counted)
