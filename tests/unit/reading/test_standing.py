"""Why a job does not run, from what the tables say of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mutirao.errors import InvalidFilter
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import WorkerRecord
from mutirao.model.reading.figures import checked_size, cursor_of, read_cursor
from mutirao.model.reading.standing import MOST_AHEAD, Full, Reason, Standing, explain

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
FULL = Full(limit="one", key="7", most=2, per=None, running=2)


def job(state: JobState = JobState.READY, **said: Any) -> Standing:
    """Return how a job stands."""
    usual: dict[str, Any] = {
        "id": 7, "task": "send", "queue": "mail", "priority": 0, "run_at": NOW, "attempt": 0,
    }  # fmt: skip
    return Standing(state=state, **{**usual, **said})


def worker(**said: Any) -> WorkerRecord:
    """Return a worker of all queues and tasks, unless it says otherwise."""
    usual: dict[str, Any] = {
        "id": 1, "name": "w", "host": "h", "pid": 1, "queues": None, "exclude_queues": (),
        "tasks": None, "concurrency": 1, "version": "0", "app_version": None, "started_at": NOW,
        "beat_at": NOW, "expires_at": LATER, "alive": True, "listening": True, "stuck": 0,
        "late": 0.0, "running": 0,
    }  # fmt: skip
    return WorkerRecord(**{**usual, **said})


def why(standing: Standing, *workers: WorkerRecord) -> list[Reason]:
    """Return the reasons."""
    return list(explain(standing, workers or (worker(),), NOW))


@pytest.mark.parametrize(
    ("standing", "kinds", "words"),
    [
        (job(), ["soon"], "next worker with a free slot"),
        (job(ahead=3), ["ahead"], "3 jobs of queue 'mail'"),
        (job(ahead=MOST_AHEAD), ["ahead"], "at least 1000 jobs"),
        (job(carried=True), ["carried"], "broker"),
        (job(JobState.RUNNING, worker=3), ["running"], "at worker 3"),
        (job(JobState.SCHEDULED, run_at=LATER), ["time"], "due at 2026-11-27T13:00:00"),
        (job(JobState.SCHEDULED, run_at=LATER, attempt=2), ["retry"], "attempt 2 has ended"),
        (job(JobState.BLOCKED, paused=("stop",)), ["paused"], "'stop' is paused"),
        (job(JobState.BLOCKED, full=FULL), ["limit"], "'one' for '7' is full: 2 of 2 run"),
        (job(JobState.BLOCKED, held_by=5), ["key"], "job 5 has the same key"),
        (job(JobState.BLOCKED, after=(5, 6)), ["after"], "after jobs 5, 6"),
        (job(JobState.BLOCKED), ["blocked"], "nothing says"),
        (job(JobState.BLOCKED, held_by=5, paused=("stop",)), ["paused", "key"], "resumed"),
    ],
)
def test_each_reason(standing: Standing, kinds: list[str], words: str) -> None:
    """In the order in which they decide, with what they name."""
    found = why(standing)
    assert [each.kind for each in found] == kinds
    assert words in found[0].text


@pytest.mark.parametrize(
    ("workers", "kind"),
    [
        ([worker(alive=False)], "no_worker"),
        ([worker(concurrency=0)], "no_worker"),
        ([worker(queues=("video",))], "no_queue"),
        ([worker(exclude_queues=("mail",))], "no_queue"),
        ([worker(tasks=("resize",))], "no_task"),
        ([worker(queues=("video",)), worker(queues=("mail",))], "soon"),
    ],
)
def test_who_could_take_it(workers: list[WorkerRecord], kind: str) -> None:
    """A worker that lives, takes its queue, and knows its task."""
    assert [each.kind for each in why(job(), *workers)] == [kind]


def test_of_rates_and_limits_that_are_gone() -> None:
    """What is said of them is not that they are full."""
    rate = Full(limit="r", key="", most=5, per=60.0, running=0)
    gone = Full(limit="g", key="", most=None, per=None, running=0)
    assert "lets 5 start in 60 s" in why(job(JobState.BLOCKED, full=rate))[0].text
    assert "is gone" in why(job(JobState.BLOCKED, full=gone))[0].text


def test_cursors() -> None:
    """They are read back; whatever else somebody sends is refused."""
    for id in (1, 7, 2**63 - 1):
        assert read_cursor(cursor_of(id)) == id
    assert read_cursor("jffffffffffffffff") == 2**63 - 1
    for wrong in ("", "7", "j", "jx", "j" + "f" * 17, "J7", "j7 ", "j7\n", 7, None, "j\u0663"):
        with pytest.raises(InvalidFilter, match="no cursor"):
            read_cursor(wrong)
    for size in (0, -1, 1_001, True, "7"):
        with pytest.raises(InvalidFilter, match="size"):
            checked_size(size)
