"""`bench latency`: one job at a time for an idle worker."""

from __future__ import annotations

import pytest

from benchmarks.latency import UNCOUNTED
from tests.integration.benchmarks.conftest import Bench

JOBS = 10


@pytest.mark.repeats("plain", decided="tests/integration/benchmarks/test_latency.py")
@pytest.mark.parametrize("producer", ["asyncio", "plain"])
def test_every_job_is_timed(sqlite_bench: Bench, producer: str) -> None:
    """From the call, and from its return, which is later; a few first ones are not counted."""
    found = sqlite_bench.one("latency", "--jobs", JOBS, "--pause", 0.001, "--producer", producer)
    sqlite_bench.check_cost(found["cost"], JOBS + UNCOUNTED)
    sqlite_bench.check_history(JOBS + UNCOUNTED)
    for quantiles in (found["from_call"], found["from_commit"]):
        assert quantiles["p50"] <= quantiles["p90"] <= quantiles["p99"] <= quantiles["max"]
        assert quantiles["max"] < 60_000
    assert found["from_call"]["p50"] > 0
    assert found["from_call"]["p50"] > found["from_commit"]["p50"]


def test_an_unknown_producer(sqlite_bench: Bench) -> None:
    """The choice is named."""
    assert "'asyncio', 'plain'" in sqlite_bench.refused(2, "latency", "--producer", "cron")
