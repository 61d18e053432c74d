"""`bench drain`: every job is done once, and what it took is told."""

from __future__ import annotations

import pytest

from tests.integration.benchmarks.conftest import Bench

JOBS = 300


def test_every_job_is_done(every_bench: Bench) -> None:
    """The tables are made, the jobs are all in history, and the figures are of them."""
    found = every_bench.one("drain", "--jobs", JOBS, "--alone")
    every_bench.check_cost(found["cost"], JOBS)
    assert found["alone"] > 0
    assert (found["by_hand"] is not None) == every_bench.url.startswith("mysql")
    every_bench.check_history(JOBS)


@pytest.mark.repeats("postgresql_url", decided="tests/integration/benchmarks/test_drain.py")
def test_processes_threads_and_payloads(bench: Bench) -> None:
    """Two workers with plain handlers; arguments of just the size that was asked for."""
    found = bench.one("drain", "--jobs", JOBS, "--processes", 2, "--threads", "--payload", 1_000)
    bench.check_cost(found["cost"], JOBS)
    bench.check_history(JOBS)
    smallest = "SELECT min(length(CAST(args AS text))) FROM mutirao_job"
    assert bench.ask(smallest) == bench.ask(smallest.replace("min", "max")) == 1_000
    assert bench.ask("SELECT count(DISTINCT task) FROM mutirao_job WHERE task LIKE '%plain'") == 1


def test_what_the_server_wrote(postgresql_bench: Bench) -> None:
    """Per job: the claim's and the settlement's row, both gone again; few commits for many jobs."""
    cost = postgresql_bench.one("drain", "--jobs", 2_000)["cost"]
    assert cost["dead_tuples"] == pytest.approx(2, rel=0.1)
    assert 100 < cost["wal_bytes"] < 5_000
    assert cost["commits"] < 0.2


def test_for_people(sqlite_bench: Bench) -> None:
    """A column for each run and one for the median; then the machine."""
    figures, machine = sqlite_bench.ok("drain", "--jobs", 50, "--runs", 2).split("\n\n")
    header, *lines = figures.splitlines()
    assert header.split() == ["FIGURE", "RUN", "1", "RUN", "2", "MEDIAN"]
    assert lines[0].startswith("jobs/s")
    assert "SQLite 3." in machine
    assert "synchronous=full" in machine
