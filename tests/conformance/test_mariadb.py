"""The contract of a store, on MariaDB, and what only MariaDB promises."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pymysql
import pytest
from pymysql.cursors import Cursor, DictCursor
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from mutirao.errors import ConfigurationError, UnsupportedConnection
from mutirao.model.findings import Level
from mutirao.model.supersede import Supersede
from mutirao.model.uniqueness import Unique
from mutirao.ports import Store
from mutirao.sql import migrations
from mutirao.sql.dialects.mysql.admin import ADMIN
from mutirao.sql.dialects.mysql.words import WORDS
from mutirao.sql.rules import claim as claiming
from mutirao.sql.schema import tables, views
from mutirao.sql.schema.instant import to_micros
from mutirao.sql.store import SqlStore
from mutirao.testing.conformance import DriverContract, NotifierContract, StoreContract
from mutirao.testing.conformance.fairness import of as fair_of
from mutirao.testing.conformance.fairness import tenants
from mutirao.testing.conformance.kit import (
    NOW,
    at,
    deadline,
    due,
    ended,
    ids_of,
    job_of,
    join,
    lane,
    put,
    take,
    take_one,
)
from mutirao.testing.conformance.transactions import Watched
from tests.support.mariadb import MariadbServer, empty

# Each suite that there is. What MariaDB does not have yet is said here, and nowhere left out.
HAS = {DriverContract, StoreContract}
NOT_YET = {
    NotifierContract: "nothing wakes a worker: it polls",
    "handlers: coroutine": "there is no asynchronous driver: a coroutine has no job.transaction()",
    "tests/integration": "none of the tests that run on each database runs on this one",
}


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbServer]:
    """A server of the module's own."""
    with MariadbServer() as server:
        yield server


@pytest.fixture(scope="module")
def database(server: MariadbServer) -> str:
    """The name of a database with Mutirão's tables, and with what earlier tests left in them."""
    name = server.create_database()
    migrations.upgrade(server.url(name))
    return name


@pytest.fixture(scope="module")
def own_store(server: MariadbServer, database: str) -> Iterator[SqlStore]:
    """A store whose connections serve all tests: to open them takes longer than most tests."""
    store = SqlStore(server.url(database))
    yield store
    store.engines.close_sync()


@pytest.fixture(scope="module")
def connection(server: MariadbServer, database: str) -> Iterator[pymysql.Connection[Cursor]]:
    """A connection to the same database."""
    with server.connect(database) as connection:
        yield connection


@pytest.fixture
def store(own_store: SqlStore, connection: pymysql.Connection[Cursor]) -> Store:
    """A store on empty tables."""
    empty(connection)
    return own_store


class TestMariadb(StoreContract):
    """A server, through PyMySQL."""

    handlers = ("function",)

    async def test_a_locked_job_is_passed_over(
        self, store: Store, server: MariadbServer, database: str
    ) -> None:
        """Jobs that another claim is taking at this moment are not waited for."""
        ids = await put(store, *(due() for _ in range(5)))
        worker = await join(store)
        with server.connect(database) as other, other.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            other.begin()
            held = "SELECT id FROM mutirao_live WHERE id IN %s ORDER BY id FOR UPDATE"
            cursor.execute(held, (ids[:3],))
            async with deadline():
                claims = await store.claim(worker, [lane()], 9, now=NOW)
            other.rollback()
        assert ids_of(claims) == ids[3:]
        assert ids_of(await store.claim(worker, [lane()], 9, now=NOW)) == ids[:3]

    async def test_a_locked_job_keeps_no_settlement_waiting(
        self, store: Store, server: MariadbServer, database: str
    ) -> None:
        """However few there are: the planner would read them all to delete one."""
        first, *others = await put(store, *(due() for _ in range(4)))
        worker = await join(store)
        claims = await take(store, worker)
        with server.connect(database) as other, other.cursor() as cursor:
            other.begin()
            cursor.execute(
                "SELECT run, cancel FROM mutirao_live WHERE id = %s FOR UPDATE", (first,)
            )
            async with deadline():
                batch = [ended(claim) for claim in claims if claim.id != first]
                assert await store.settle(worker, batch, now=NOW) == {*others}
            other.rollback()

    async def test_what_a_coroutine_is_told(self, store: Store) -> None:
        """There are no asynchronous sessions; the error says what to use instead."""
        await put(store, due())
        claim = await take_one(store, await join(store))
        with pytest.raises(ConfigurationError, match=r"plain \(not async\)"):
            async with store.transaction(job_of(claim), Watched(), gives="session"):
                pass

    async def test_keys_are_compared_byte_for_byte(self, store: Store) -> None:
        """Neither case, nor accents, nor blanks at the end make two keys equal."""
        keys = ("a", "A", "á", "a ", "a\u0301")
        ids = [await put(store, due(key=key, unique=Unique())) for key in keys]
        assert len({id for [id] in ids}) == len(keys)

    @pytest.mark.parametrize("driver", ["mysql+pymysql", "mariadb+pymysql"])
    async def test_a_session_of_the_application(
        self, store: SqlStore, server: MariadbServer, database: str, driver: str
    ) -> None:
        """A job is born in its transaction."""
        engine = create_engine(server.url(database, driver))
        with Session(engine) as session:
            store.enqueue([due(), due()], session)
            session.rollback()
            ids = store.enqueue([due(), due()], session)
            session.commit()
            assert [*session.scalars(text("SELECT id FROM mutirao_live ORDER BY id"))] == ids
        engine.dispose()

    @pytest.mark.parametrize("commits", [False, True])
    async def test_a_connection_of_the_application(
        self, store: SqlStore, server: MariadbServer, database: str, commits: bool
    ) -> None:
        """In REPEATABLE READ, which is usual there, and with rows that are no tuples."""
        with server.connect(database, autocommit=commits, cursorclass=DictCursor) as theirs:
            ids = store.enqueue([due(), due()], theirs)
            assert len(ids) == 2
            theirs.rollback()
            with theirs.cursor() as cursor:
                cursor.execute("SELECT count(*) AS jobs FROM mutirao_live")
                rows: list[Any] = [*cursor.fetchall()]
                assert rows == [{"jobs": 2 if commits else 0}]
            assert (theirs.cursorclass, theirs.get_autocommit()) == (DictCursor, commits)

    @pytest.mark.parametrize("rule", [None, Supersede.activities()])
    async def test_a_key_needs_transactions_that_see_it(
        self, store: SqlStore, server: MariadbServer, database: str, rule: Supersede | None
    ) -> None:
        """In REPEATABLE READ a caller would not see who has the key, and so is refused."""
        job = due(key="k", unique=Unique(supersede=rule), args='{"type": "Update"}')
        with server.connect(database, autocommit=False) as theirs, theirs.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM mutirao_live")
            [held] = await put(store, job)
            refused = pytest.raises(UnsupportedConnection, match=r"SET SESSION .* READ COMMITTED")
            with refused as told:
                store.enqueue([due(), job], theirs)
            assert "are in REPEATABLE READ" in str(told.value)
            theirs.commit()
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            [id] = store.enqueue([job], theirs)
            assert (id == held) == (rule is None)
            cursor.execute("SELECT id FROM mutirao_live")
            assert cursor.fetchall() == ((id,),)
            theirs.rollback()

    @pytest.mark.parametrize("level", ["REPEATABLE READ", "READ COMMITTED"])
    async def test_an_open_transaction_keeps_no_fair_job_waiting(
        self, store: SqlStore, server: MariadbServer, database: str, level: str
    ) -> None:
        """That a task is fair is written down once, and only read afterwards."""
        await put(store, fair_of("a"))
        with server.connect(database, autocommit=False) as theirs, theirs.cursor() as cursor:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
            store.enqueue([fair_of("b")], theirs)
            async with deadline():
                await put(store, fair_of("c"))
                await put(store, fair_of("d"), fair_of("e"))
            theirs.commit()
        assert tenants(await take(store, await join(store), 9)) == "abcde"

    async def test_the_plan_of_a_claim(
        self, store: Store, connection: pymysql.Connection[Cursor]
    ) -> None:
        """A lane is read in the order of its index, from the lower bound on."""
        ids = await put(store, *(due(run_at=at(n)) for n in range(2_000)))
        since, place = WORDS.since(to_micros(at(1_900)), ids[1_900])
        sql = claiming._DUE.format(WORDS.by_lane, since, "", WORDS.hold_free).replace("?", "%s")
        with connection.cursor(DictCursor) as cursor:
            cursor.execute("ANALYZE TABLE mutirao_live")
            cursor.execute(f"EXPLAIN {sql}", ("default", 0, *place, 9_000_000_000_000_000, 10))
            plan = cursor.fetchall()[0]
        assert (plan["key"], plan["type"]) == ("mutirao_live_waiting", "range")
        assert "filesort" not in plan["Extra"]
        assert int(plan["key_len"]) > 9 + 406 + 2  # worker, queue and priority, and then the bound

    async def test_the_tables_are_those_of_the_code(
        self, server: MariadbServer, database: str
    ) -> None:
        """Each has the same columns, and a view shows them in the same order."""
        engine = create_engine(server.url(database))
        found = inspect(engine)
        for table in tables.metadata.tables.values():
            theirs = {each["name"]: each["nullable"] for each in found.get_columns(table.name)}
            assert theirs == {each.name: each.nullable for each in table.c}, table.name
        for view in views.metadata.tables.values():
            shown = [each["name"] for each in found.get_columns(view.name)]
            assert shown == [each.name for each in view.c], view.name
        engine.dispose()

    async def test_a_migration_that_was_cut_off(self, server: MariadbServer) -> None:
        """No DDL is undone there: it is done again from the beginning, and finished."""
        name = server.create_database()
        migrations.upgrade(server.url(name))
        with server.connect(name) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO mutirao_job (task) VALUES ('kept')")
            cursor.execute("DELETE FROM mutirao_version")
            cursor.execute("DROP VIEW mutirao_graphs")
            migrations.upgrade(server.url(name))
            cursor.execute(
                "SELECT (SELECT count(*) FROM mutirao_graphs), task, state FROM mutirao_jobs"
            )
            assert cursor.fetchall() == ((0, "kept", "ready"),)

    async def test_what_cut_a_migration_off(self, server: MariadbServer) -> None:
        """Its error is the one that is raised, though the lock cannot be given back either."""
        only = iter([server.connect(server.create_database(), autocommit=False)])
        gone = pymysql.OperationalError(2003, "nobody is there")

        def creator() -> pymysql.Connection[Cursor]:
            for connection in only:
                return connection
            raise gone

        engine = create_engine("mysql+pymysql://", creator=creator)
        with engine.connect() as connection, server.connect() as other, other.cursor() as cursor:
            id = connection.scalar(text("SELECT connection_id()"))
            connection.rollback()
            cut_off = pytest.raises(OperationalError, match="Lost connection")
            with cut_off as told, ADMIN.migrating(connection):
                cursor.execute(f"KILL {id}")
                connection.execute(text("SELECT 1"))
        assert "nobody is there" in "".join(told.value.__notes__)
        engine.dispose()

    async def test_what_the_doctor_looks_at(self, server: MariadbServer) -> None:
        """All is well in new tables; an index that claims name has to be there."""
        engine = create_engine(server.url(server.create_database()))
        migrations.upgrade(engine.url)
        with engine.connect() as connection:
            assert {each.level for each in ADMIN.health_checks(connection)} == {Level.OK}
            connection.execute(text("DROP INDEX mutirao_live_waiting ON mutirao_live"))
            [wrong] = [each for each in ADMIN.health_checks(connection) if each.advice]
            assert (wrong.level, wrong.about) == (Level.PROBLEM, "claims")
        engine.dispose()


def test_a_suite_that_it_lacks_is_named() -> None:
    """Whoever adds a suite decides whether MariaDB passes it."""
    suites = {DriverContract, StoreContract, NotifierContract}
    assert HAS | {suite for suite in NOT_YET if isinstance(suite, type)} == suites
    assert all(issubclass(TestMariadb, suite) for suite in HAS)


@pytest.mark.parametrize(
    ("version", "numbers", "is_mariadb"),
    [("8.0.36", (8, 0, 36), False), ("10.5.29-MariaDB", (10, 5, 29), True)],
)
def test_another_server_is_refused(
    version: str, numbers: tuple[int, ...], is_mariadb: bool
) -> None:
    """MySQL itself, and what has no SKIP LOCKED, before anything is made."""
    said = SimpleNamespace(scalar_one=lambda: version)
    dialect = SimpleNamespace(is_mariadb=is_mariadb, server_version_info=numbers)
    conn = cast(Any, SimpleNamespace(exec_driver_sql=lambda _: said, dialect=dialect))
    expected = pytest.raises(ConfigurationError, match=f"{version}; .* MariaDB 10.6")
    with expected, ADMIN.migrating(conn):
        raise AssertionError("it was let in")
