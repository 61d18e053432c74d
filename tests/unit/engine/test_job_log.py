"""Lines in the log for attempts: how many, of which, and what becomes of the others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic

import pytest

from mutirao.engine.dispatch import attempt_log
from mutirao.engine.dispatch.attempt_log import MAX_SUCCESS_LINES_PER_SECOND, JobLog
from mutirao.model.jobs.job import Claim, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome
from tests.support.waiting import until

DEAD = Outcome(OutcomeKind.DEAD, error_type="ValueError", error="no such order")
NOON = datetime(2031, 5, 17, 12, tzinfo=UTC)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the log says, at INFO and above."""
    caplog.set_level(logging.INFO, "mutirao")
    return lambda: [record.getMessage() for record in caplog.records]


def claim(id: int, task: str = "send") -> Claim:
    """Return a claimed job."""
    return Claim(
        id, 1, 1, task, "{}", "default", 0, NOON, NOON,
        *(None,) * 8,
    )  # fmt: skip


async def test_few_have_a_line_each(said: Callable[[], list[str]]) -> None:
    """As many as a person reads in a second; nothing is added up."""
    log = JobLog("auto")
    for n in range(MAX_SUCCESS_LINES_PER_SECOND):
        log.ended(claim(n), SUCCEEDED, monotonic())
    log.flush()
    assert [line.partition(" in ")[0] for line in said()] == [
        f"job {n} (send) succeeded" for n in range(MAX_SUCCESS_LINES_PER_SECOND)
    ]


async def test_many_are_added_up(
    said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says how many by task, by itself; failures among them have theirs."""
    monkeypatch.setattr(attempt_log, "SUMMARY_PERIOD", 0.01)
    log = JobLog("auto")
    log._until = monotonic() + 100
    log._left = 1
    for n in range(4):
        log.ended(claim(n), SUCCEEDED, monotonic())
    log.ended(claim(4, "resize"), SUCCEEDED, monotonic())
    log.ended(claim(5), DEAD, monotonic())
    assert [line.partition(" in ")[0] for line in said()] == [
        "job 0 (send) succeeded", "job 5 (send) dead",
    ]  # fmt: skip
    await until(lambda: len(said()) == 3)
    assert said()[-1] == "4 more jobs succeeded within 0.01 s: send 3 (0.000 s), resize 1 (0.000 s)"
    log.flush()
    assert len(said()) == 3


async def test_many_tasks(said: Callable[[], list[str]]) -> None:
    """Those with most jobs are named."""
    log = JobLog("auto")
    log._until, log._left = monotonic() + 100, 0
    for n in range(8):
        log.ended(claim(n, f"task{n}"), SUCCEEDED, monotonic())
    log.flush()
    assert said()[-1].endswith("task4 1 (0.000 s), others 3")


async def test_all_and_failures(said: Callable[[], list[str]]) -> None:
    """By choice, each has its line, or no success has."""
    every, failures = JobLog("all"), JobLog("failures")
    for n in range(MAX_SUCCESS_LINES_PER_SECOND + 5):
        every.ended(claim(n), SUCCEEDED, monotonic())
        failures.ended(claim(n), SUCCEEDED, monotonic())
    failures.ended(claim(7), DEAD, monotonic())
    failures.flush()
    assert len(said()) == MAX_SUCCESS_LINES_PER_SECOND + 5 + 1
    assert said()[-1].endswith("ValueError: no such order")


async def test_a_silent_log_costs_nothing() -> None:
    """Nothing is added up that nobody would be told."""
    logging.getLogger("mutirao").setLevel(logging.WARNING)
    try:
        log = JobLog("auto")
        log._until, log._left = monotonic() + 100, 0
        log.ended(claim(1), SUCCEEDED, monotonic())
        assert log._summary == {}
    finally:
        logging.getLogger("mutirao").setLevel(logging.NOTSET)
