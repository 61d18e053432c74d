"""`bench databases`: one worker of many databases."""

from __future__ import annotations

import pytest
from sqlalchemy import make_url

from tests.integration.benchmarks.conftest import Bench

# Ten polls fit, so one at least is seen by a worker that a busy machine keeps waiting.
WATCHED = ("--seconds", 1.0, "--settling", 0, "--poll", 0.1)


@pytest.mark.repeats(decided="tests/integration/databases")
def test_many_databases(bench: Bench) -> None:
    """A job runs in each, twice, and what they cost is told."""
    servers = 0 if make_url(bench.url).get_backend_name() == "sqlite" else 2
    found = bench.one("databases", "--files", 2, "--servers", servers, *WATCHED)
    assert (found["files"], found["servers"]) == (2, servers)
    assert found["statements"] > 0
    assert found["connections"] >= 2 * servers
    kinds = {"sqlite", "postgresql"} if servers else {"sqlite"}
    assert {*found["waited"]} == kinds
    assert all(0 < middle <= most < 60_000 for middle, most in found["waited"].values())


def test_no_server(sqlite_bench: Bench) -> None:
    """There are none to be made at a file."""
    assert "give --servers 0" in sqlite_bench.refused(2, "databases", "--servers", 1)
