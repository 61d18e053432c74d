"""Benchmarks over drivers that are not both synchronous and asynchronous."""

from __future__ import annotations

import json

import pytest

from tests.integration.benchmarks.conftest import Bench


@pytest.fixture(params=["asyncpg", "psycopg2"])
def driver(request: pytest.FixtureRequest) -> str:
    """A driver with only one of the two forms."""
    return str(request.param)


@pytest.fixture
def driven(postgresql_bench: Bench, driver: str) -> tuple[str, str]:
    """The option that names the database by that driver."""
    return "--database", postgresql_bench.url.replace("psycopg", driver)


@pytest.mark.repeats(decided="tests/integration/benchmarks/test_drain.py")
@pytest.mark.parametrize(
    ("work", "jobs"),
    [
        (("drain", "--jobs", 50, "--alone"), 50),
        (("pinned", "--rounds", 2, "--jobs", 20), 60),
        (("latency", "--jobs", 1, "--pause", 0), 21),
    ],
    ids=["drain", "pinned", "latency"],
)
def test_it_works(
    postgresql_bench: Bench, driven: tuple[str, str], driver: str, work: tuple[object], jobs: int
) -> None:
    """And says which driver it was."""
    printed = json.loads(postgresql_bench.ok(*work, *driven, "--json"))
    assert printed["machine"]["driver"].startswith(driver)
    postgresql_bench.check_history(jobs)


@pytest.mark.parametrize("driver", ["psycopg2"])
def test_what_needs_an_asynchronous_one(
    postgresql_bench: Bench, driven: tuple[str, str], driver: str
) -> None:
    """Is refused at once."""
    assert "no asynchronous form" in postgresql_bench.refused(2, "fanout", *driven)


@pytest.mark.parametrize("driver", ["asyncpg"])
def test_what_needs_a_synchronous_one(
    postgresql_bench: Bench, driven: tuple[str, str], driver: str
) -> None:
    """Likewise."""
    plain = ("latency", "--producer", "plain", *driven)
    assert "no synchronous form" in postgresql_bench.refused(2, *plain)
