"""`bench enqueue`: one by one and many at once."""

from __future__ import annotations

import pytest

from tests.integration.benchmarks.conftest import Bench

ONE_BY_ONE = [(1, False), (3, False), (1, True), (3, True)]


@pytest.mark.repeats("postgresql_url", decided="tests/integration/benchmarks/test_enqueue.py")
@pytest.mark.parametrize("producer", ["asyncio", "plain"])
def test_every_way(bench: Bench, producer: str) -> None:
    """Each number of producers, with and without a busy worker; then many at once."""
    found = bench.one(
        *("enqueue", "--jobs", 20, "--many", 300, "--producers", "1,3", "--producer", producer)
    )
    *one_by_one, many = found["ways"]
    assert [(way["producers"], way["busy"]) for way in one_by_one] == ONE_BY_ONE
    for way in one_by_one:
        assert way["many"] is False
        bench.check_cost(way["cost"], 20)
    assert many["many"] is True
    bench.check_cost(many["cost"], 300)
    # The last way's jobs, and the one that opened its connection.
    assert bench.ask("SELECT count(*) FROM mutirao_live") == 301


def test_commits(postgresql_bench: Bench) -> None:
    """One for each job that is enqueued alone, hardly any for many."""
    found = postgresql_bench.one("enqueue", "--jobs", 100, "--many", 1_000, "--producers", 1)
    alone, _, many = found["ways"]
    assert alone["cost"]["commits"] == pytest.approx(1, abs=0.5)
    assert alone["cost"]["statements"] == 1
    assert many["cost"]["commits"] < 0.1


@pytest.mark.repeats("postgresql_url", decided="tests/integration/benchmarks/test_enqueue.py")
def test_the_payload(bench: Bench) -> None:
    """Has the size that was asked for."""
    bench.ok("enqueue", "--jobs", 2, "--many", 10, "--producers", 1, "--payload", 500)
    assert bench.ask("SELECT max(length(CAST(args AS text))) FROM mutirao_job") == 500
