"""A short ordeal on each database and with each driver: a few troubles, and nothing is found."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.ordeal.plan import Plan
from tests.faults.ordeal.run import run, troubles_of

POSTGRESQL = ("kill", "crash", "terminate")
MYSQL = ("crash", "defaults")
SQLITE = ("kill", "kill-all", "lock-file")


@pytest.mark.repeats(decided="tests/integration/troubles")
@pytest.mark.parametrize(
    ("backend", "troubles"),
    [
        ({"driver": "psycopg"}, POSTGRESQL),
        ({"driver": "asyncpg"}, POSTGRESQL),
        ({"database": "mysql"}, MYSQL),
        ({"database": "real-mysql"}, MYSQL),
        ({"database": "sqlite"}, SQLITE),
    ],
    ids=["psycopg", "asyncpg", "mariadb", "mysql", "sqlite"],
)
def test_workers_come_through(backend: dict[str, Any], troubles: tuple[str, ...]) -> None:
    """Every promise holds all the time, and after each trouble every worker serves again."""
    plan = Plan(
        **backend,
        troubles=troubles,
        rounds=1,
        rate=5.0,  # all tasks are met, and a busy machine is not kept from the rest
        heartbeat=3.0,
        expiry=12.0,
        shortest=2.0,
        longest=3.0,
        margin=45.0,  # the machine may be busy with other tests
        calm=1.0,
        late=60.0,
    )
    report = run(plan, print)
    assert report.findings == []
    assert {each.name for each in report.passed} == set(troubles)
    assert all(each.recovery.all is not None for each in report.passed)
    assert report.looks > 0
    assert report.effects > 0


def test_unknown_troubles_are_refused() -> None:
    """The message names those there are."""
    with pytest.raises(ValueError, match=r"no such troubles here: \{'flood'\}; there are: cancel"):
        run(Plan(troubles=("flood",)), print)


@pytest.mark.parametrize("database", ["postgresql", "mysql", "real-mysql", "sqlite"])
def test_each_trouble_says_what_it_is(database: Any) -> None:
    """Every trouble of a database has a name of its own, and a function that is explained."""
    found = troubles_of(Plan(database=database))
    assert all(name == trouble.name and trouble.act.__doc__ for name, trouble in found.items())
    more = troubles_of(Plan(database=database, carried=True)).keys() - found.keys()
    assert more == {"broker-crash", "broker-cut", "broker-delete"}
