"""What a benchmark refuses to touch."""

from __future__ import annotations

import pytest

from benchmarks.ground import ground
from mutirao import Mutirao
from mutirao.errors import ConfigurationError
from mutirao.model.jobs.job import NewWorker
from mutirao.sql.store.jobs import SqlStore
from tests.integration.benchmarks.conftest import Bench

DRAIN = ("drain", "--jobs", 10)


def enqueue_theirs(url: str) -> int:
    """Enqueue somebody's job; return its id."""
    app = Mutirao(url)

    @app.task
    def theirs() -> None: ...

    id = theirs.enqueue().id
    app.close()
    return id


@pytest.mark.repeats("sqlite_url", decided="tests/integration/benchmarks/test_ground.py")
def test_jobs_of_others_are_not_touched(bench: Bench) -> None:
    """Not even if there is one among a benchmark's."""
    bench.ok(*DRAIN)
    id = enqueue_theirs(bench.url)
    said = bench.refused(2, *DRAIN)
    assert f"jobs of others, such as job {id} (theirs)" in said
    assert "empty database" in said
    assert bench.ask("SELECT count(*) FROM mutirao_job") == 11
    assert bench.ask("SELECT count(*) FROM mutirao_live") == 1


async def test_a_live_worker_is_no_part_of_it(migrated_url: str) -> None:
    """It would take the jobs."""

    store = SqlStore(migrated_url)
    worker = NewWorker(name="busy", host="", pid=1, queues=None, concurrency=1, version="")
    await store.register(worker, expiry=60)
    with pytest.raises(ConfigurationError, match="worker busy runs on this database"):
        async with ground(migrated_url):
            raise AssertionError("it was lent")
    await store.close()


@pytest.mark.repeats(decided="tests/integration/benchmarks/test_drain.py")
def test_what_a_benchmark_left_is_removed(bench: Bench) -> None:
    """So that every run begins alike."""
    bench.ok(*DRAIN)
    bench.ok(*DRAIN)
    bench.check_history(10)


def test_what_is_called_wrongly(sqlite_bench: Bench) -> None:
    """One line, and status 2."""
    no_database = sqlite_bench.run(*DRAIN, env={"MUTIRAO_DATABASE": ""})
    assert no_database.exit_code == 2
    assert "--database" in no_database.stderr
    assert "x>=1" in sqlite_bench.refused(2, "drain", "--jobs", 0)
    assert "no database URL" in sqlite_bench.refused(2, *DRAIN, "--database", "nonsense")
    assert "known are" in sqlite_bench.refused(2, *DRAIN, "--database", "oracle://x")
    assert "No such command" in sqlite_bench.refused(2, "dance")
