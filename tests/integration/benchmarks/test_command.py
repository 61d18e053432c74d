"""`bench command`: the real `mutirao worker` does the jobs, in each of the ways."""

from __future__ import annotations

from tests.integration.benchmarks.conftest import Bench

JOBS = 200
WAYS = {"defaults", "--log-jobs all", "--log-level warning"}


def test_each_way(sqlite_bench: Bench) -> None:
    """Every job is done; a line for each where that was asked for, and none where nothing is."""
    found = sqlite_bench.one("command", "--jobs", JOBS)
    assert found["embedded"] > 0
    assert set(found["rates"]) == WAYS
    assert all(rate > 0 for rate in found["rates"].values())
    assert found["lines"]["--log-jobs all"] >= JOBS
    assert found["lines"]["--log-level warning"] == 0
    sqlite_bench.check_history(JOBS)
