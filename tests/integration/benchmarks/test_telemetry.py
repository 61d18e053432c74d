"""`telemetry`: the same jobs are done by workers that are watched and by one that is not."""

from __future__ import annotations

import pytest

from tests.integration.benchmarks.conftest import Bench


@pytest.mark.repeats(decided="tests/integration/telemetry")
def test_in_turns(sqlite_bench: Bench) -> None:
    """Each way once in a round, with a rate and processor time."""
    found = sqlite_bench.one("telemetry", "--jobs", 200, "--rounds", 1, "--ways", "all")
    assert set(found["rates"]) == set(found["cpu"]) == {"nothing", "all"}
    assert all(rate > 0 for rates in found["rates"].values() for rate in rates)


def test_a_way_that_is_none(sqlite_bench: Bench) -> None:
    """It is said which there are."""
    assert "'spans' is none; there are nothing, metrics" in sqlite_bench.refused(
        2, "telemetry", "--ways", "spans"
    )
