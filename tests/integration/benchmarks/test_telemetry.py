"""`telemetry`: the same jobs are done by workers that are watched and by one that is not."""

from __future__ import annotations

from benchmarks.telemetry import WAYS
from tests.integration.benchmarks.conftest import Bench


def test_in_turns(sqlite_bench: Bench) -> None:
    """Each way once in a round, with a rate and processor time."""
    found = sqlite_bench.one("telemetry", "--jobs", 200, "--rounds", 1)
    assert set(found["rates"]) == set(found["cpu"]) == set(WAYS)
    assert all(rate > 0 for rates in found["rates"].values() for rate in rates)
