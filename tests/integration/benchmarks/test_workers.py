"""`bench sustained`, `fanout`, `idle` and `memory`: what workers do for a while."""

from __future__ import annotations

import pytest

from benchmarks.crew import Crew
from benchmarks.member import Share
from benchmarks.memory import STEPS
from tests.integration.benchmarks.conftest import Bench

pytestmark = pytest.mark.repeats(decided="tests/integration/benchmarks/test_drain.py")


def test_sustained(sqlite_bench: Bench) -> None:
    """Every job that was enqueued is done in the end; the backlog is what was ahead of that."""
    found = sqlite_bench.one("sustained", "--seconds", 0.5, "--batch", 10)
    jobs = found["cost"]["jobs"]
    sqlite_bench.check_cost(found["cost"], jobs)
    sqlite_bench.check_history(jobs)
    assert jobs % 10 == 0
    assert found["seconds"] >= 0.5
    assert found["enqueued"] == pytest.approx(jobs / found["seconds"])
    assert 0 <= found["last"] <= found["largest"] <= jobs
    assert found["rate"] == pytest.approx((jobs - found["last"]) / found["seconds"])


def test_fanout(sqlite_bench: Bench) -> None:
    """Parents and children are all done."""
    found = sqlite_bench.one("fanout", "--parents", 3, "--children", 20)
    sqlite_bench.check_cost(found["cost"], 63)
    sqlite_bench.check_history(63)
    assert (
        sqlite_bench.ask("SELECT count(*) FROM mutirao_job WHERE task = 'mutirao.bench.branch'")
        == 3
    )


def test_idle(sqlite_bench: Bench) -> None:
    """By the minute, whatever the time; long enough for a look for vanished workers."""
    found = sqlite_bench.one("idle", "--seconds", 3, "--settling", 0.1)
    assert found["seconds"] >= 3
    assert found["statements"] > 0
    assert found["client_cpu"] > 0
    assert (found["wal_bytes"] is None) == sqlite_bench.url.startswith("sqlite")
    sqlite_bench.check_history(0)


def test_memory(sqlite_bench: Bench) -> None:
    """A sample for each twentieth of the jobs, the last one after all of them."""
    found = sqlite_bench.one("memory", "--jobs", 110)
    sqlite_bench.check_history(110)
    done = [sample["done"] for sample in found["samples"]]
    assert len(done) == STEPS
    assert done == sorted(done)
    assert done[-1] == 110
    assert found["first"] == found["samples"][1]["memory"] > 1 << 20
    assert found["growth"] == pytest.approx(found["last"] / found["first"] - 1)


def test_memory_that_nobody_tells(sqlite_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, rather than a zero shown."""

    async def silent(crew: Crew) -> Share:
        return Share()

    monkeypatch.setattr(Crew, "so_far", silent)
    assert "on Linux" in sqlite_bench.refused(2, "memory", "--jobs", 10)


def test_a_worker_process_that_dies(sqlite_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark ends, too, and says with which status."""
    start = Crew.start

    async def kill(crew: Crew) -> Share:
        share = await start(crew)
        for process in crew.processes:
            process.kill()
        return share

    monkeypatch.setattr(Crew, "start", kill)
    said = sqlite_bench.refused(1, "drain", "--jobs", 20_000)
    assert "ended with status -9" in said
