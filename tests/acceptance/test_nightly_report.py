"""The example of a nightly report keeps its promise, and would say if it did not."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.support.examples import demo_module, run_demo


@pytest.mark.repeats(decided="conformance/src/mutirao_conformance/ticks.py")
def test_every_night_has_its_report(database_url: str) -> None:
    """Though the worker at the clock is killed, and all of them for some nights."""
    said = run_demo("nightly_report", database_url, timeout=250)
    assert "is killed with SIGKILL" in said
    assert "All workers are killed" in said
    assert "nights has exactly one report" in said


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        ([0, 1, 2], []),
        ([0, 1, 1, 2], ["1 nights with more than one report, the first is 2026-11-21 00:00:01"]),
        ([0, 1, 4], ["2 nights without a report"]),
        ([], ["1 nights without a report"]),
    ],
)
def test_a_broken_promise_is_told(nights: list[int], expected: list[str]) -> None:
    """The verdict sees a second report and a missing one."""
    first = datetime(2026, 11, 21)  # noqa: DTZ001
    assert (
        list(demo_module("nightly_report").flaws([first + timedelta(seconds=n) for n in nights]))
        == expected
    )
