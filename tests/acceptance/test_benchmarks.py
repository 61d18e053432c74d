"""The benchmarks work in what `make bench` installs, and what they find is of the right order.

Counts are held closely: they do not depend on the machine. Of waits only this is held, that they
are none of the engine's own pauses: 100 ms to learn of a job, 2 s to look for one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from tests.integration.plans.wire import Wire
from tests.support.clones import Clones
from tests.support.postgresql import PostgresServer

# What they run is decided there; what they need is installed anew, which takes longer than they do.
pytestmark = pytest.mark.repeats(decided="tests/integration/benchmarks")

LIMIT = 280.0  # seconds, with the installation, on a busy machine
SOON = 50.0  # ms: a busy machine needs 5 of them
JOBS = 300


def measure(clones: Clones, url: str, args: str) -> Any:
    """Measure once; return what was found."""
    said = clones.run(f'make measure ARGS="{args} --json"', LIMIT, MUTIRAO_DATABASE=url)
    (found,) = json.loads(said[said.index("{") :])["runs"]
    return found


@contextmanager
def heard(url: str) -> Iterator[list[str]]:
    """Put every notification of the block into the list that is returned."""
    found: list[str] = []
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as listener:
        listener.execute("LISTEN mutirao")
        yield found
        found += [each.payload for each in listener.notifies(timeout=0)]


def test_one_job_after_another(
    clones: Clones, postgres: PostgresServer, migrated_postgresql_url: str
) -> None:
    """A job costs three statements: it is written, claimed, settled; and its worker hears of it.

    Seen from outside, with what starts and ends the program. A worker that did not listen would
    get no notifications.
    """
    url = migrated_postgresql_url
    with Wire(postgres.port) as wire, heard(url) as notifications:
        relayed = make_url(url).set(port=wire.port, query={"sslmode": "disable"})
        there = relayed.render_as_string(hide_password=False)
        found = measure(clones, there, f"latency --jobs {JOBS} --pause 0.001")
    assert found["from_commit"]["p50"] < SOON
    assert 0.8 * JOBS < len(notifications) < 1.2 * JOBS
    assert 3 * JOBS < wire.statements < 4.5 * JOBS
    assert 3 * JOBS < wire.cost.round_trips < 4.5 * JOBS
    assert 3 * JOBS < wire.cost.commits < 4.5 * JOBS


def test_a_job_among_idle_workers(clones: Clones, postgresql_url: str) -> None:
    """One or two of four workers claim a job that comes alone."""
    args = "fleet --workers 1,4 --jobs 50 --pause 0.01 --seconds 1 --settling 1"
    one, four = measure(clones, postgresql_url, args)["crowds"]
    assert 0.9 < one["claims"] < 1.2
    assert 0.9 < four["claims"] < 3
    assert one["waited"]["p50"] < SOON
    assert four["waited"]["p50"] < SOON


@pytest.mark.parametrize("database", ["postgresql", "sqlite"])
def test_many_at_once(clones: Clones, database: str, request: pytest.FixtureRequest) -> None:
    """A claim and a settlement have hundreds of jobs, and so has a commit."""
    url = request.getfixturevalue(f"{database}_url")
    cost = measure(clones, url, "drain --jobs 2000")["cost"]
    assert 0 < cost["statements"] < (0.05 if database == "postgresql" else 0.2)
    assert (cost["commits"] is None) == (database == "sqlite")
    assert (cost["commits"] or 0.01) < 0.05


def test_beside_plain_sql(clones: Clones) -> None:
    """The comparison has figures of both, and a wait that is none of the engine's own pauses."""
    args = "--only raw,mutirao --works latency --runs 1 --quick --out found"
    tables = clones.run(f'make bench ARGS="{args}" && cat found/*.json', LIMIT)
    found = json.loads(tables[tables.index('{\n "machine"') :])
    waits = {each["peer"]: each["figures"]["p50"] for each in found["records"]}
    assert waits.keys() == {"raw", "mutirao"}
    assert waits["mutirao"] < SOON
    again = clones.run(
        "make measure && .venv/bin/python -m benchmarks.peers.report found/*.json", LIMIT
    )
    assert "latency, idle worker" in again
