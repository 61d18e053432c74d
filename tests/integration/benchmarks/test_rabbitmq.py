"""`bench rabbitmq`: some messages."""

from __future__ import annotations

from tests.integration.benchmarks.conftest import Bench
from tests.support.rabbitmq import RabbitServer


def test_both_ways(sqlite_bench: Bench, rabbit: RabbitServer) -> None:
    """All of them are published and drained, by us and by a bare client."""
    found = sqlite_bench.one("rabbitmq", "--broker", rabbit.url(), "--jobs", 30)
    for who in ("own", "bare"):
        assert min(found[who].values()) > 0
