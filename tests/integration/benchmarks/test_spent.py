"""`measured`: what a block spent, by the database's own counters and the client's."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine, text

from benchmarks.gauges.processes import server_cpu
from benchmarks.spent import Spent, counted, measured
from mutirao import Mutirao
from tests.integration.benchmarks.conftest import Bench

ROWS = 1_000
# Whoever else writes on the test server at this moment is counted with us, so: at least.
COUNTED = {"wal_bytes": 100 * ROWS, "commits": 3, "dead_tuples": 2 * ROWS}


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine with a table of some rows."""
    engine = create_engine(database_url)
    with engine.begin() as conn:
        conn.execute(text("CREATE TABLE thing (id integer PRIMARY KEY, size integer)"))
        rows = [{"id": id, "size": 1} for id in range(ROWS)]
        conn.execute(text("INSERT INTO thing VALUES (:id, :size)"), rows)
    engine.dispose()
    yield engine
    engine.dispose()


def change(engine: Engine) -> None:
    """Write in three transactions, of one statement each."""
    for statement in (
        "UPDATE thing SET size = 2",
        "INSERT INTO thing VALUES (-1, 1)",
        "DELETE FROM thing WHERE id >= 0",
    ):
        with engine.begin() as conn:
            conn.execute(text(statement))
    engine.dispose()


def test_what_was_written_is_counted(engine: Engine) -> None:
    """Statements exactly; the log, commits and dead rows where the database tells of them."""
    with measured(engine.url) as spent:
        change(engine)
    unknown = Bench(str(engine.url)).unknown
    assert spent.statements == 3
    assert spent.seconds > 0
    assert spent.client_cpu > 0
    for name, least in COUNTED.items():
        found = getattr(spent, name)
        assert found is None if name in unknown else found >= least, name


async def test_what_goes_past_sqlalchemy_is_counted(pg_app: Mutirao) -> None:
    """A statement for each single job, from plain code and from coroutines."""

    @pg_app.task
    def send() -> None:
        """Nothing."""

    with counted(spent := Spent()):
        send.enqueue()
        await send.aenqueue()
    send.enqueue()
    assert spent.statements == 2


def test_nothing_is_counted_after_the_block(engine: Engine) -> None:
    """The listener goes with it."""
    with measured(engine.url) as spent:
        pass
    change(engine)
    assert spent.statements == 0


def test_the_servers_processor_time(postgresql_url: str) -> None:
    """Of the session that worked, though it has ended."""
    engine = create_engine(postgresql_url)
    with measured(postgresql_url) as spent, engine.connect() as conn:
        conn.execute(text("SELECT sum(sqrt(n)) FROM generate_series(1, 3000000) AS n"))
        conn.detach()
    assert spent.server_cpu is not None
    assert spent.server_cpu > 0.05


def test_a_server_elsewhere_has_no_processor_time_here() -> None:
    """A session's number may be that of somebody's process on this machine."""
    assert server_cpu(os.getpid(), 5432) is None
    assert server_cpu(os.getpid(), None) is None
    assert server_cpu(2**30, 5432) is None


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg2"])
def test_with_any_driver(postgresql_url: str, driver: str) -> None:
    """A driver without a synchronous form, and one without an asynchronous one."""
    with measured(postgresql_url.replace("psycopg", driver)) as spent:
        engine = create_engine(postgresql_url)
        with engine.begin() as conn:
            conn.execute(text("CREATE TABLE thing (id integer)"))
        engine.dispose()
    assert spent.commits is not None
    assert spent.commits >= 1


@pytest.mark.repeats("mysql", decided="tests/integration/benchmarks/test_spent.py")
def test_an_error_in_the_block_is_let_through(migrated_url: str) -> None:
    """And nothing is filled in."""
    with pytest.raises(RuntimeError, match="stop"), measured(migrated_url) as spent:
        raise RuntimeError("stop")
    assert spent == Spent()
