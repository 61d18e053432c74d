"""The command line of the benchmarks, on a database of each kind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import create_engine, make_url, text

from benchmarks.cli import bench as benchmarks

# click 8.1 mixes the two streams unless it is told not to; later it cannot be told.
APART: dict[str, Any] = (
    {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
)
COUNTERS = ("server_cpu", "wal_bytes", "commits", "dead_tuples")


@dataclass
class Bench:
    """Runs benchmarks on one database."""

    url: str

    def run(self, *args: object, env: Mapping[str, str] | None = None) -> Result:
        """Run `python -m benchmarks` on the database; any exception but an exit fails the test."""
        runner = CliRunner(
            env={"COLUMNS": "200", "MUTIRAO_DATABASE": self.url, **(env or {})}, **APART
        )
        return runner.invoke(benchmarks, [str(arg) for arg in args], catch_exceptions=False)

    def ok(self, *args: object) -> str:
        """Run one that succeeds; return what it printed."""
        result = self.run(*args)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    def one(self, *args: object) -> dict[str, Any]:
        """Run one once, with --json; return what its only run found."""
        (found,) = json.loads(self.ok(*args, "--json"))["runs"]
        assert isinstance(found, dict)
        return found

    def refused(self, status: int, *args: object) -> str:
        """Run one that fails with `status`; return what it said, without a traceback."""
        result = self.run(*args)
        assert result.exit_code == status, result.output
        assert "Traceback" not in result.output
        return " ".join(result.stderr.split())

    def ask(self, statement: str) -> int:
        """Return the number that a statement finds."""
        engine = create_engine(self.url)
        with engine.begin() as conn:
            found = int(conn.execute(text(statement)).scalar_one())
        engine.dispose()
        return found

    def check_history(self, jobs: int) -> None:
        """Assert that so many jobs succeeded, each at once, and that none is left."""
        assert self.ask("SELECT count(*) FROM mutirao_job") == jobs
        assert self.ask("SELECT count(*) FROM mutirao_live") == 0
        succeeded = "SELECT count(DISTINCT job) FROM mutirao_attempt WHERE outcome = 'succeeded'"
        assert self.ask(succeeded) == jobs
        assert self.ask("SELECT count(*) FROM mutirao_attempt") == jobs

    def check_cost(self, cost: dict[str, Any], jobs: int) -> None:
        """Assert what is true of any cost: the database's counters are there if it has any."""
        assert cost["jobs"] == jobs
        assert cost["rate"] == pytest.approx(jobs / cost["seconds"])
        assert cost["client_cpu"] > 0
        assert cost["statements"] is None or cost["statements"] > 0
        for counter in COUNTERS:
            assert (cost[counter] is None) == (counter in self.unknown), counter

    @property
    def unknown(self) -> Sequence[str]:
        """The counters that the database does not have."""
        unknown = {"sqlite": COUNTERS, "mysql": ("commits", "dead_tuples")}
        return unknown.get(make_url(self.url).get_backend_name(), ())


@pytest.fixture(params=["sqlite_url", "postgresql_url"])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Benchmarks on an empty database, on two kinds."""
    return Bench(str(request.getfixturevalue(request.param)))


@pytest.fixture
def every_bench(database_url: str) -> Bench:
    """The same on every kind, for what is asked of the database itself."""
    return Bench(database_url)


@pytest.fixture
def sqlite_bench(sqlite_url: str) -> Bench:
    """Benchmarks on an empty SQLite file, for what has nothing to do with the database."""
    return Bench(sqlite_url)


@pytest.fixture
def postgresql_bench(postgresql_url: str) -> Bench:
    """Benchmarks on an empty PostgreSQL database."""
    return Bench(postgresql_url)
