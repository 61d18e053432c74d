"""`bench fleet`: one job at a time for several idle workers."""

from __future__ import annotations

import pytest

from benchmarks.latency import UNCOUNTED
from tests.integration.benchmarks.conftest import Bench

JOBS = 10


@pytest.mark.repeats(decided="tests/integration/worker/test_idle_fleet.py")
def test_what_idle_workers_do(sqlite_bench: Bench) -> None:
    """Each job is claimed at least once, by somebody, and its handler is timed."""
    words = ("--workers", "1,5", "--jobs", JOBS, "--pause", 0.001)
    found = sqlite_bench.one("fleet", *words, "--seconds", 0.2, "--settling", 0)
    assert [crowd["workers"] for crowd in found["crowds"]] == [1, 5]
    for crowd in found["crowds"]:
        assert crowd["claims"] >= 1
        waited = crowd["waited"]
        assert waited["p50"] <= waited["max"] < 60_000
    sqlite_bench.check_history(JOBS + UNCOUNTED)
