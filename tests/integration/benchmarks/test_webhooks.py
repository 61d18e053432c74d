"""`bench webhooks`: each is delivered, and nothing of it stays."""

from __future__ import annotations

from benchmarks import webhooks
from tests.integration.benchmarks.conftest import Bench


def test_three_times(sqlite_bench: Bench) -> None:
    """By the bare client, by a worker, and beside a peer that is silent and gets few attempts."""
    found = sqlite_bench.one("webhooks", "--jobs", 60)
    assert min(found["bare"], found["delivered"], found["beside"]) > 0
    assert found["asked"] <= webhooks.AT_ONCE
    assert sqlite_bench.ask("SELECT count(*) FROM mutirao_endpoint") == 0
    assert sqlite_bench.ask("SELECT count(*) FROM mutirao_job") == 0
