"""The example of feeds that are pulled periodically keeps its promise, and would say if not."""

from __future__ import annotations

import os
import sys
from itertools import chain
from typing import Any

import pytest

from tests.faults.chaos import loops
from tests.support.examples import demo_module
from tests.support.rabbitmq import RabbitServer

PERIODS = {"feed-00": 1.0, "feed-03": 1.0, "feed-07": 1.0}
Line = dict[str, Any]


@pytest.mark.repeats(decided="tests/integration/carrying")
def test_each_feed_has_one_loop(
    rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though workers and the broker are killed, queues are purged, and another version comes."""
    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert loops.run(rabbit, seconds=12.0, cut_for=1.5) == []
    said = capsys.readouterr().out
    assert said.count("a worker of version") >= 3
    assert said.count("nobody reaches the broker") >= 2
    assert said.count("the broker is killed with SIGKILL") >= 1
    assert said.count("all queues are purged") == 2
    assert "version 2 is deployed, beside version 1" in said


def pull(feed: str, at: int, what: str = "ended", version: int = 1, pid: int = 1) -> list[Line]:
    """Return the lines of a pull of 0.3 s for the tick of that second."""
    tick = f"2026-01-01T00:00:{at:02}+00:00"
    about = {"feed": feed, "tick": tick, "id": f"{feed} {at}", "attempt": 1, "pid": pid}
    about |= {"version": version}
    return [about | {"what": "began", "at": float(at)}, about | {"what": what, "at": at + 0.3}]


def all_well() -> list[Line]:
    """Return the log of ten seconds of three feeds."""
    good = [pull("feed-00", at, version=1 + at % 2) for at in range(10)]
    broken = [pull("feed-07", 0, "ValueError"), pull("feed-07", 6, version=2)]
    returned = {"what": "returned", "feed": "feed-07", "pid": 0, "at": 5.0}
    return [*chain(*good, *broken, pull("feed-03", 0, "Cancel")), returned]


def shifted(lines: list[Line], **changed: object) -> list[Line]:
    """Return lines with something changed in each; `later` is added to their moments."""
    later = float(str(changed.pop("later", 0.0)))
    return [line | changed | {"at": line["at"] + later} for line in lines]


def without(feed: str, *seconds: int) -> list[Line]:
    """Return the log without these pulls."""
    gone = {f"{feed} {at}" for at in seconds}
    return [line for line in all_well() if line.get("id") not in gone]


def away(since: float, until: float) -> Line:
    """Return the line of a broker that nobody reached for a while."""
    return {"what": "away", "feed": "", "pid": 0, "since": since, "at": until}


def killed(at: float) -> Line:
    """Return the line of the first worker's death."""
    return {"what": "killed", "feed": "", "pid": 1, "at": at}


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (all_well(), None),
        ([*all_well(), *pull("feed-03", 5)], "feed-03 has closed, and was pulled 2 times"),
        ([*all_well(), *pull("feed-07", 2)], "feed-07 was pulled for 2 ticks before"),
        (without("feed-07", 6), "feed-07 was returned, and does not go on"),
        (without("feed-00", *range(10)), "feed-00 was never pulled"),
        ([*all_well(), *pull("feed-00", 40)], "feed-00 was not pulled for 31.0 s"),
        (
            [*all_well(), *shifted(pull("feed-00", 5, pid=2), later=0.1)],
            "feed-00 began at 5.1 while the pull before went on",
        ),
        (
            [*all_well(), *shifted(pull("feed-00", 5, pid=2), later=0.4)],
            "feed-00 was pulled 2 times for the tick 2026-01-01T00:00:05+00:00",
        ),
        ([*all_well(), *pull("feed-00", 40), away(12, 32)], None),
        ([*all_well(), *pull("feed-00", 40), away(12, 22)], "feed-00 was not pulled for 21.0 s"),
        ([*all_well(), *shifted(pull("feed-00", 5, pid=2), later=0.4), away(5.32, 5.38)], None),
        ([*all_well(), *shifted(pull("feed-00", 5, pid=2), later=0.4), killed(5.35)], None),
        (
            [*all_well(), *shifted(pull("feed-00", 5, pid=2), later=0.4), away(5.5, 5.6)],
            "feed-00 was pulled 2 times for the tick 2026-01-01T00:00:05+00:00",
        ),
        (
            [*all_well(), *shifted(pull("feed-00", 5, pid=2), later=1.4), away(5.32, 6.35)],
            "feed-00 was pulled 2 times for the tick 2026-01-01T00:00:05+00:00",
        ),
        (
            [*all_well(), *shifted(pull("feed-00", 5, pid=2), later=0.1), away(5.5, 5.6)],
            "feed-00 began at 5.1 while the pull before went on",
        ),
        (shifted(all_well(), version=1), "the versions did not run side by side"),
    ],
)
def test_a_broken_promise_is_told(lines: list[Line], told: str | None) -> None:
    """The verdict sees loops that were lost, doubled, overlap, or go on where they are to stop."""
    broken = demo_module("periodic_feeds").flaws(lines, PERIODS, 0)
    if told is None:
        assert broken == []
    else:
        assert any(flaw.startswith(told) for flaw in broken), broken
