"""Where the schema of a set of jobs goes in a statement, and where it does not."""

from __future__ import annotations

import pytest

from mutirao.app import Mutirao
from mutirao.errors import ConfigurationError
from mutirao.sql.connections.engines import Engines
from mutirao.sql.dialects.postgresql.sets import in_set, qualified
from mutirao.sql.store.jobs import SqlStore

URL = "postgresql+psycopg://u@h/d"

PLACED = [
    ("SELECT * FROM mutirao_jobs", 'SELECT * FROM "jobs".mutirao_jobs'),
    ("SELECT mutirao_enqueue(task => %s::text)", 'SELECT "jobs".mutirao_enqueue(task => %s::text)'),
    ("SELECT nextval('mutirao_retries')", """SELECT nextval('"jobs".mutirao_retries')"""),
    (
        "SELECT mutirao_live.id FROM mutirao_live FOR UPDATE OF mutirao_live SKIP LOCKED",
        'SELECT "jobs".mutirao_live.id FROM "jobs".mutirao_live FOR UPDATE OF mutirao_live'
        " SKIP LOCKED",
    ),
    ("FROM mutirao_job AS mutirao_job_1", 'FROM "jobs".mutirao_job AS mutirao_job_1'),
    ("mutirao_held(%(mutirao_held_1)s)", '"jobs".mutirao_held(%(mutirao_held_1)s)'),
    ("SELECT pg_notify('mutirao', '')", "SELECT pg_notify('mutirao.jobs', '')"),
    ("current_setting('mutirao.called', true)", "current_setting('mutirao.called.jobs', true)"),
]
KEPT = [
    "SAVEPOINT mutirao_graph",
    "ROLLBACK TO SAVEPOINT mutirao_enqueue",
    "RELEASE SAVEPOINT mutirao_graph",
    """SELECT 'it''s in mutirao_jobs', "mutirao_jobs" """,
    "SELECT current_setting('mutirao.notify', true)",  # which callers set
]


@pytest.mark.parametrize(("sql", "placed"), PLACED)
def test_names(sql: str, placed: str) -> None:
    """Each name has the schema; a statement that has it already stays as it is."""
    assert qualified(sql, "jobs") == placed
    assert qualified(placed, "jobs") == placed


@pytest.mark.parametrize("sql", KEPT)
def test_what_is_no_name(sql: str) -> None:
    """Savepoints, literals, quoted names, and settings that are for all sets."""
    assert qualified(sql, "jobs") == sql


def test_channels() -> None:
    """The longest schema has a channel that PostgreSQL takes; without one there is no other."""
    schema = "s" * 49
    Engines(URL, schema=schema)
    assert len(in_set("mutirao_ended", schema)) == 63
    assert in_set("mutirao_ended", None) == "mutirao_ended"


@pytest.mark.parametrize(
    "schema", ["", "s" * 50, "Jobs", "my-jobs", 'a"b', "pg_jobs", "7up", "ação"]
)
def test_no_schema(schema: str) -> None:
    """What cannot be one is refused by everything that takes one."""
    for ask in (
        lambda: Mutirao(URL, schema=schema),
        lambda: Mutirao.ddl("postgresql", schema),
        lambda: Mutirao.grants(schema=schema),
    ):
        with pytest.raises(ConfigurationError, match="cannot be the schema of a set of jobs"):
            ask()


def test_no_schemas() -> None:
    """An SQLite file is a set; and a store that is given says itself where the jobs are."""
    with pytest.raises(ConfigurationError, match="give each set a file of its own"):
        Mutirao("sqlite:///shop.db", schema="jobs")
    with pytest.raises(ConfigurationError, match="has no schemas"):
        Mutirao.ddl("sqlite", "jobs")
    with pytest.raises(ConfigurationError, match="schema= and a store"):
        Mutirao(store=SqlStore("sqlite:///shop.db"), schema="jobs")
