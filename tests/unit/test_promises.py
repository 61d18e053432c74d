"""The README's table of promises: each is a contract that the tests of a database pass."""

from __future__ import annotations

from pathlib import Path

from mutirao_conformance import NotifierContract, StoreContract
from tests.conformance.test_mariadb import TestMariadb as OnMariadb
from tests.conformance.test_notifiers import (
    TestPostgresqlNotifier as PostgresqlHears,
    TestSqliteNotifier as SqliteHears,
)
from tests.conformance.test_sql_store import TestPsycopg as OnPostgresql, TestSqlite as OnSqlite

README = Path(__file__).parents[2] / "README.md"
SHOWN_BY = {"SQLite": OnSqlite, "PostgreSQL": OnPostgresql, "MySQL, MariaDB": OnMariadb}
HEARS = {"SQLite": SqliteHears, "PostgreSQL": PostgresqlHears}
CONTRACTS = {
    "a job is there when your transaction commits, and only then": ["Enqueueing", "Concurrency"],
    "it runs at least once, after any crash": ["Claiming", "Settling", "Rescue", "Losing"],
    "once, with your writes, in `job.transaction()`": ["Transaction", "Staleness"],
    "a live worker keeps its jobs": ["Workers", "Release"],
    "one job for a key": ["Uniqueness", "Versions", "Supersede", "Repeated"],
    "exact limits, and tenants (customers of yours) in turn": [
        "Limits",
        "Rates",
        "ChangingLimits",
        "Fairness",
    ],
    "chains, groups and graphs; results": ["Graphs", "LimitedGraphs", "Results"],
    "one job for each tick of a schedule": ["Schedules", "Ticks"],
}
HEARING = "an idle worker hears of a job"


def table() -> dict[str, dict[str, str]]:
    """Return the table: what is said of each database, by promise."""
    text = README.read_text(encoding="utf-8")
    whole = text[text.index("| promise |") :].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in whole.splitlines()]
    names, _, *cells = rows
    return {first: dict(zip(names[1:], rest, strict=True)) for first, *rest in cells}


def test_each_promise_is_a_contract() -> None:
    """No row has none, and none is forgotten."""
    assert list(table()) == [*CONTRACTS, HEARING]


def test_each_database_passes_it() -> None:
    """The class that tests the database has each contract of the row."""
    for promise, names in CONTRACTS.items():
        for database, said in table()[promise].items():
            assert said.startswith("yes"), (promise, database)
            passed = {each.__name__ for each in SHOWN_BY[database].__mro__}
            assert {f"{name}Contract" for name in names} <= passed, (promise, database)


def test_who_is_heard() -> None:
    """A database that wakes workers passes that contract; the other one says that they poll."""
    said = table()[HEARING]
    assert all(issubclass(HEARS[name], NotifierContract) for name in said if name in HEARS)
    assert [name for name in said if name not in HEARS] == ["MySQL, MariaDB"]
    assert said["MySQL, MariaDB"].startswith("when it polls")


def test_a_database_has_the_whole_contract() -> None:
    """Not parts of it."""
    assert all(issubclass(each, StoreContract) for each in SHOWN_BY.values())
