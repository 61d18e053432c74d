"""Sums by the hour: percentiles to two digits, and jobs that failed the same way before."""

from __future__ import annotations

import pytest

from mutirao.model.jobs.hours import (
    MICROS_PER_HOUR,
    Ended,
    FailureGroup,
    Hour,
    by_failure,
    by_hour,
    finished_jobs,
)


def ended(job: int = 1, run: int = 1, outcome: str = "succeeded", **facts: object) -> Ended:
    """An attempt of a second at the beginning of the third hour."""
    took = Ended(
        "mail",
        "send",
        job,
        run,
        outcome,
        2 * MICROS_PER_HOUR - 1_000_000,
        2 * MICROS_PER_HOUR,
        None,
        None,
    )
    return took._replace(**facts)  # type: ignore[arg-type]


def test_percentiles() -> None:
    hour = Hour()
    for n in range(1, 101):
        hour.add(n)
    assert [hour.percentile(share) for share in (0.5, 0.95, 0.99)] == [50.0, 95.0, 99.0]
    assert hour.attempts == 100
    assert hour.seconds == 5050


@pytest.mark.parametrize("started_at", [2 * MICROS_PER_HOUR + 5, "soon", None])
def test_no_duration(started_at: object) -> None:
    """A clock that was set back, or somebody's own value, counts as no time."""
    [sums] = by_hour([ended(started_at=started_at)]).values()
    assert sums.durations == {"0.0e+00": 1}


def test_hours_and_finished_jobs() -> None:
    all_ = [ended(1), ended(2, finished_at=3 * MICROS_PER_HOUR - 1), ended(3, outcome="retried")]
    assert {key: sums.attempts for key, sums in by_hour(all_).items()} == {
        (2 * MICROS_PER_HOUR, "mail", "send", "succeeded"): 2,
        (2 * MICROS_PER_HOUR, "mail", "send", "retried"): 1,
    }
    assert finished_jobs(all_) == {("mail", "succeeded", 2 * MICROS_PER_HOUR): 2}


def test_a_job_is_counted_once_for_each_failure() -> None:
    """Whether it failed that way before tells what is there, and not what is added up now."""
    failed = [
        ended(1, 3, "retried", error_type="E", error="why\nand where"),
        ended(1, 4, "dead", error_type="E", error="why\nand there"),
        ended(2, 1, "dead", error_type="E", error="why"),
    ]
    before = [
        (1, 2, "E", "why"),
        (1, 3, "E", "why\nand where"),
        (1, 4, "E", "why"),
        (2, 1, "E", "why"),
    ]
    [(failure, sums)] = by_failure(failed, before).items()
    assert failure == FailureGroup("send", "E", "why")
    assert (sums.jobs, sums.attempts) == (1, 3)
