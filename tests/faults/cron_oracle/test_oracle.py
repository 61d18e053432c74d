"""Ticks compared, one by one, with those of the rule written a second time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from mutirao.model.schedules.cron import next_tick
from tests.faults.cron_oracle import compare
from tests.faults.cron_oracle.__main__ import main
from tests.faults.cron_oracle.compare import Plan

FEW = ["--lines", "40", "--dates", "4", "--since", "2005", "--until", "2012", "--margin", "2"]


def test_every_tick_is_where_the_rule_puts_it() -> None:
    """Around every odd change of the clock of every zone, and around as many others.

    `make cron-oracle` compares more.
    """
    report = compare.compare(Plan())
    assert report.differences == []
    assert (report.odd > 500, report.changes - report.odd > 500) == (True, True)
    assert (len(report.zones) > 200, report.ticks > 10_000) == (True, True)


def test_a_wrong_tick_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail, in both functions."""

    def late(*asked: Any) -> datetime | None:
        found = next_tick(*asked)
        return found and found + timedelta(minutes=1)

    plan = Plan(lines=10, dates=0, since=2005, until=2012)
    monkeypatch.setattr(compare, "next_tick", late)
    assert "the next tick is" in str(compare.compare(plan).differences)
    monkeypatch.undo()
    monkeypatch.setattr(compare, "ticks_until", lambda *_: [])
    assert "and not []" in str(compare.compare(plan).differences)


def test_a_seed_can_be_given_again(capsys: pytest.CaptureFixture[str]) -> None:
    """It is the first line that is printed; what follows is the same but for the time."""
    assert main(FEW) == 0
    seed, figures, end = capsys.readouterr().out.splitlines()
    assert main([*seed.split(), *FEW]) == 0
    again = capsys.readouterr().out.splitlines()
    assert again[0] == seed
    assert again[1].split(" differences")[0] == figures.split(" differences")[0]
    assert "44 lines with" in figures
    assert end == again[2] == "everything as promised"
