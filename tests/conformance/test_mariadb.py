"""The contract of a store, on MariaDB, and what only MariaDB promises."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pymysql
import pytest
from pymysql.cursors import Cursor, DictCursor
from sqlalchemy import Engine, create_engine, event, inspect, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from mutirao.errors import ConfigurationError
from mutirao.model.findings import Level
from mutirao.model.graphs.graph import chain
from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import Unique
from mutirao.model.limits.claims_and_wakes import Claimed
from mutirao.model.limits.limits import Limit, LimitOrigin
from mutirao.ports import Store
from mutirao.sql import migrations
from mutirao.sql.dialects.mysql import health_checks, session
from mutirao.sql.dialects.mysql.admin import ADMIN
from mutirao.sql.dialects.mysql.server import faults
from mutirao.sql.dialects.mysql.words import WORDS
from mutirao.sql.drivers.failures import was_undone
from mutirao.sql.drivers.kinds import through
from mutirao.sql.drivers.steps import Query
from mutirao.sql.rules import claim as claiming
from mutirao.sql.rules.fairness import Turns
from mutirao.sql.schema import tables, views
from mutirao.sql.schema.types import to_micros
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance import DriverContract, NotifierContract, StoreContract
from mutirao_conformance.fairness import of as fair_of, tenants
from mutirao_conformance.graphs import a, write_graph
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    deadline,
    due,
    ended,
    finish,
    ids_of,
    job_of,
    join,
    lane,
    put,
    take,
    take_one,
)
from mutirao_conformance.limits import limited
from mutirao_conformance.transactions import Watched
from tests.support.log_records import ours
from tests.support.mariadb import MysqlServer, empty
from tests.support.waiting import soon, until

R = TypeVar("R")

# Each suite that there is. What MariaDB does not have yet is said here, and nowhere left out.
HAS = {DriverContract, StoreContract}
NOT_YET = {NotifierContract: "nothing wakes a worker: it polls"}


def after_one(steps: Query[R], act: Callable[[], None]) -> Query[R]:
    """Do something between the first and the second of some steps."""
    answer = yield next(steps)
    act()
    while True:
        try:
            request = steps.send(answer)
        except StopIteration as end:
            result: R = end.value
            return result
        answer = yield request


@pytest.fixture(scope="session")
def server(mysql: MysqlServer) -> MysqlServer:
    """The session's server, or the one that is given."""
    return mysql


@pytest.fixture(scope="module")
def database(server: MysqlServer) -> str:
    """The name of a database with Mutirão's tables, and with what earlier tests left in them."""
    name = server.create_database()
    server.make_tables(name)
    return name


@pytest.fixture(scope="module")
def own_store(server: MysqlServer, database: str) -> Iterator[SqlStore]:
    """A store whose connections serve all tests: to open them takes longer than most tests."""
    store = SqlStore(server.url(database))
    yield store
    store.engines.close_sync()


@pytest.fixture(scope="module")
def connection(server: MysqlServer, database: str) -> Iterator[pymysql.Connection[Cursor]]:
    """A connection to the same database."""
    with server.connect(database) as connection:
        yield connection


@pytest.fixture
async def store(
    own_store: SqlStore, connection: pymysql.Connection[Cursor]
) -> AsyncIterator[Store]:
    """A store on empty tables. Connections of coroutines end with their event loop."""
    empty(connection)
    yield own_store
    for engine in (own_store.engines._async.pop() or {}).values():
        await engine.dispose()


class OnInnodb:
    """What InnoDB may do that others do not."""

    def was_undone(self, error: Exception) -> bool:
        """Return whether InnoDB ended it: of many that wait for a new row that is rolled back.

        They inherit locks of the gap, in which none of them can insert it then:
        https://dev.mysql.com/doc/refman/8.0/en/innodb-locks-set.html has the same with three.
        """
        return isinstance(error, OperationalError) and was_undone(error)


def somebody_waits(server: MysqlServer) -> bool:
    """Return whether a transaction waits for a row."""
    with server.connect() as looking, looking.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
        return cursor.fetchone() == ("Innodb_row_lock_current_waits", "1")


HOLD = "SELECT id FROM mutirao_counter WHERE id = %s FOR UPDATE"


def hold_counter(cursor: Cursor, limit: str, hold: str = HOLD) -> None:
    """Lock the counter of a limit, and no other row."""
    cursor.execute("SELECT id FROM mutirao_counter WHERE name = %s", (limit,))
    row = cursor.fetchone()
    assert row is not None, limit
    cursor.execute(hold, row)


async def in_turns_with(
    server: MysqlServer, database: str, ids: list[int], act: Awaitable[R], *, ends: bool = False
) -> R:
    """Act, while somebody has the second of two jobs, and then takes the first; return what came.

    Neither is given up for the other. `ends`: the second job has ended then.
    """
    retries = "SELECT retries FROM mutirao_lock WHERE name = 'retries'"
    locked = "SELECT id FROM mutirao_live WHERE id = %s FOR UPDATE"
    with server.connect(database) as other, other.cursor() as cursor:
        cursor.execute(retries)
        before = cursor.fetchall()
        other.begin()
        cursor.execute(locked, (ids[1],))
        acting = asyncio.ensure_future(act)
        await until(lambda: somebody_waits(server))
        cursor.execute(locked, (ids[0],))
        if ends:
            cursor.execute("DELETE FROM mutirao_live WHERE id = %s", (ids[1],))
        other.commit()
        came = await soon(acting)
        cursor.execute(retries)
        assert cursor.fetchall() == before
        return came


class TestMariadb(OnInnodb, StoreContract):
    """A server, through PyMySQL, and aiomysql for the transactions of coroutines."""

    async def test_a_locked_job_is_passed_over(
        self, store: Store, server: MysqlServer, database: str
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

    async def test_a_claim_tells_when_a_rate_lets_the_next_start(self, store: Store) -> None:
        """Nobody notifies of it. A worker that had to look would be late: it looks seldom."""
        await limited(store, 10, per=1)
        await put(store, *(due() for _ in range(3)))
        worker = await join(store)
        told = []
        for moment in (0, 0.11, 0.22):
            claims = await store.claim(worker, [lane()], 9, now=at(moment))
            assert len(claims) == 1
            assert isinstance(claims, Claimed)
            told.append(
                [
                    round((each.run_at - NOW).total_seconds(), 2)
                    for each in claims.woken
                    if each.run_at
                ]
            )
        assert told == [[0.1], [0.21], []]

    async def test_one_that_started_before_it_was_called(
        self, store: Store, connection: pymysql.Connection[Cursor]
    ) -> None:
        """It may be due a moment before the counter is looked at again; the next one is sent."""
        await limited(store, 1, per=10)
        ids = await put(store, *(due() for _ in range(3)))
        worker = await join(store)
        assert ids_of(await take(store, worker)) == ids[:1]
        with connection.cursor() as cursor:
            cursor.execute("UPDATE mutirao_counter SET probe_at = probe_at + 500000")
        connection.commit()
        assert ids_of(await take(store, worker, now=at(10.2))) == [ids[1]]
        assert await take(store, worker, now=at(10.6)) == []
        heads = [head for head in await store.lanes(None, now=at(11)) if head.due_in < 100]
        assert [round(head.due_in, 1) for head in heads] == [9.2]

    @pytest.mark.parametrize("moved", ["queue = 'elsewhere'", "run_at = run_at + 1000000"])
    async def test_a_job_that_is_moved_before_it_is_locked(
        self, store: Store, server: MysqlServer, database: str, moved: str
    ) -> None:
        """Looking locks nothing: under its lock a job is asked once more where it is, and when."""
        first, second = await put(store, due(), due())
        with server.connect(database, autocommit=True) as other, server.connect(database) as ours:

            def move() -> None:
                with other.cursor() as cursor:
                    cursor.execute(f"UPDATE mutirao_live SET {moved} WHERE id = %s", (first,))  # noqa: S608

            look = claiming.some(WORDS, Turns(WORDS, {}), lane(), 9, to_micros(NOW))
            with ours.cursor() as cursor:
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            assert [*through(ours, after_one(look, move))] == [second]

    async def test_a_locked_job_keeps_no_settlement_waiting(
        self, store: Store, server: MysqlServer, database: str
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

    async def test_a_locked_job_keeps_no_order_waiting(
        self, store: Store, server: MysqlServer, database: str
    ) -> None:
        """Nor one to cancel others: what it deletes are those that it has locked."""
        first, *others = await put(store, *(due() for _ in range(4)))
        with server.connect(database) as other, other.cursor() as cursor:
            other.begin()
            cursor.execute("SELECT id FROM mutirao_live WHERE id = %s FOR UPDATE", (first,))
            async with deadline():
                assert await store.cancel(JobFilter(ids=tuple(others))) == others
            other.rollback()

    async def test_a_locked_declaration_keeps_no_other_waiting(
        self, store: Store, server: MysqlServer, database: str
    ) -> None:
        """Nor is it waited for itself: who confirms what is in its code reads no table whole."""
        for name in "ab":
            rule = Limit(3).on(queue=name)
            await store.limits.put(rule, origin=LimitOrigin.CODE, worker="w1", now=NOW)
        names = [each.name for each in await store.limits.listed()]
        with server.connect(database) as other, other.cursor() as cursor:
            other.begin()
            locked = "SELECT name FROM mutirao_limit WHERE name = %s FOR UPDATE"
            cursor.execute(locked, (names[0],))
            async with deadline():
                await store.limits.confirm_declared(names, "w2", every=60, now=at(61))
            other.rollback()
        assert [each.declared_by for each in await store.limits.listed()] == ["w1", "w2"]

    async def test_a_limit_goes_while_others_have_jobs_behind_it(
        self, store: Store, server: MysqlServer, database: str
    ) -> None:
        """Whoever has one, and wants another, gets it, and is then waited for."""
        rule = await limited(store, 1)
        [_, *ids] = await put(store, *(due() for _ in range(3)))
        await take(store, await join(store))
        assert {(await store.job(id)).state for id in ids} == {JobState.BLOCKED}
        gone = await in_turns_with(server, database, ids, store.limits.remove(rule.name, now=NOW))
        assert gone
        assert ids_of(await take(store, await join(store))) == ids
        with server.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM mutirao_counter")
            assert cursor.fetchall() == ()

    async def test_a_graph_is_given_up_while_others_have_jobs(
        self, store: Store, server: MysqlServer, database: str
    ) -> None:
        """A caller that has a job, and will want another one, keeps no step from ending."""
        ids = await write_graph(store, chain(a(), a()), on_dead="compensate")
        worker = await join(store)
        claim = await take_one(store, worker)
        others = await put(store, *(due(key=f"k{n}", unique=Unique()) for n in range(3)))
        with server.connect(database) as other, other.cursor() as cursor:
            other.begin()
            cursor.execute("SELECT id FROM mutirao_live WHERE id = %s FOR UPDATE", others[:1])
            async with deadline():
                await finish(store, worker, [claim], OutcomeKind.DEAD)
            other.rollback()
        assert {(await store.job(id)).state for id in ids} == {JobState.DEAD, JobState.CANCELLED}

    @pytest.mark.parametrize("ends", [False, True])
    async def test_a_limit_comes_while_others_have_jobs_that_run(
        self, store: Store, server: MysqlServer, database: str, ends: bool
    ) -> None:
        """It counts those, too, when it has waited for that: but one that has ended meanwhile."""
        ids = await put(store, due(), due())
        worker = await join(store)
        claims = await take(store, worker)
        rule = Limit(5).on(task="greet")
        await in_turns_with(server, database, ids, store.limits.put(rule, now=NOW), ends=ends)
        assert [each.running for each in await store.limits.listed()] == [1 if ends else 2]
        await store.settle(worker, [ended(claim) for claim in claims], now=NOW)
        assert [each.running for each in await store.limits.listed()] == [0]

    @pytest.mark.parametrize(
        "goes",
        [
            "DELETE FROM mutirao_counter",
            "UPDATE mutirao_counter SET name = CONCAT(CHAR(31), id), running = 0",  # closed
        ],
    )
    async def test_a_limit_goes_while_a_settlement_waits_for_its_counter(
        self, store: Store, server: MysqlServer, database: str, goes: str
    ) -> None:
        """There is nothing to count down then: the job has ended."""
        await limited(store, 2)
        [id] = await put(store, due(key="k", unique=Unique()))
        worker = await join(store)
        claim = await take_one(store, worker)
        with server.connect(database) as other, other.cursor() as cursor:
            other.begin()
            cursor.execute("SELECT id FROM mutirao_counter FOR UPDATE")
            settling = asyncio.ensure_future(store.settle(worker, [ended(claim)], now=NOW))
            await until(lambda: somebody_waits(server))
            cursor.execute("DELETE FROM mutirao_slot")
            cursor.execute(goes)
            other.commit()
            assert await soon(settling) == {id}
            cursor.execute("SELECT count(*) FROM mutirao_counter WHERE running < 0")
            assert cursor.fetchone() == (0,)
        assert (await store.job(id)).state is JobState.SUCCEEDED

    async def test_a_claim_waits_for_no_other_counters(
        self,
        store: Store,
        server: MysqlServer,
        database: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """To look for rates that have a token again locks none: they would be out of order."""
        worker = await join(store)
        for task in ("greet", "other", "rated"):
            await limited(store, task=task, most=9, per=10 if task == "rated" else None)
            await put(store, due(task=task))
            await take_one(store, worker)
        [id] = await put(store, due())
        with server.connect(database) as other, other.cursor() as cursor:
            other.begin()
            hold_counter(cursor, "task other")
            hold_counter(cursor, "task rated rate")
            assert ids_of(await soon(take(store, worker))) == [id]
            assert not ours(caplog)  # such as of a wait that was given up
            other.rollback()

    async def test_a_claim_locks_counters_once(
        self, store: Store, server: MysqlServer, database: str
    ) -> None:
        """Those of rates, which are looked through first, are free again before others are."""
        worker = await join(store)
        for task in ("greet", "rated"):
            await limited(store, task=task, most=1, per=10 if task == "rated" else None)
        await put(store, due(task="rated"), due())
        await finish(store, worker, await take(store, worker))
        [id] = await put(store, due())
        with server.connect(database) as other, other.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            # What was sent ahead is gone.
            probe = "UPDATE mutirao_counter SET probe_at = %s WHERE name = 'task rated rate'"
            cursor.execute(probe, (to_micros(at(9)),))
            other.commit()
            other.begin()
            hold_counter(cursor, "task greet")
            taking = asyncio.ensure_future(take(store, worker, now=at(11)))
            await until(lambda: somebody_waits(server))
            hold_counter(cursor, "task rated rate", f"{HOLD} NOWAIT")
            other.rollback()
            assert ids_of(await soon(taking)) == [id]

    async def test_keys_are_compared_byte_for_byte(self, store: Store) -> None:
        """Neither case, nor accents, nor blanks at the end make two keys equal."""
        keys = ("a", "A", "á", "a ", "a\u0301")
        ids = [await put(store, due(key=key, unique=Unique())) for key in keys]
        assert len({id for [id] in ids}) == len(keys)

    @pytest.mark.parametrize("driver", ["mysql", "mariadb+aiomysql"])
    async def test_other_names_of_its_drivers(
        self, store: Store, server: MysqlServer, database: str, driver: str
    ) -> None:
        """Workers use PyMySQL, also where a URL names the driver for coroutines."""
        [id] = await put(store, due())
        other = SqlStore(server.url(database, driver))
        claim = await take_one(other, await join(other))
        assert (claim.id, other.engines.in_thread) == (id, True)
        async with other.transaction(job_of(claim), Watched(), gives="driver") as theirs:
            assert type(theirs).__module__ == "aiomysql.connection"
        await other.close()

    @pytest.mark.parametrize("driver", ["mysql+pymysql", "mariadb+pymysql"])
    async def test_a_session_of_the_application(
        self, store: SqlStore, server: MysqlServer, database: str, driver: str
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
        self, store: SqlStore, server: MysqlServer, database: str, commits: bool
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

    @pytest.mark.parametrize("level", ["REPEATABLE READ", "READ COMMITTED"])
    async def test_an_open_transaction_keeps_no_fair_job_waiting(
        self, store: SqlStore, server: MysqlServer, database: str, level: str
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

    async def test_a_plain_insert(
        self, store: Store, connection: pymysql.Connection[Cursor]
    ) -> None:
        """One INSERT enqueues; it is shown at once, and whoever looks for lanes makes it live."""
        await store.declare_fairness({"fair": "user"})
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO mutirao_job (task) VALUES ('a'), ('b')")
            cursor.execute(
                "INSERT INTO mutirao_job (task, args, queue, priority, run_at)"
                " VALUES ('fair', %s, 'q', 7, 5)",
                (r'{"user": "u\u00e9"}',),
            )
        shown = await store.jobs(JobFilter())
        assert {(job.task, job.state, job.attempt) for job in shown} == {
            (task, JobState.READY, 0) for task in ("a", "b", "fair")
        }
        assert {(each.queue, each.state, each.jobs) for each in await store.counts()} == {
            ("default", "ready", 2),
            ("q", "ready", 1),
        }
        heads = await store.lanes(None)
        assert [(each.lane.queue, each.lane.priority) for each in heads] == [
            ("default", 0),
            (f"{chr(31)}q", 7),
        ]
        assert ids_of(shown) == ids_of(await store.jobs(JobFilter()))
        with connection.cursor() as cursor:
            cursor.execute("SELECT fairness FROM mutirao_live WHERE fairness <> ''")
            assert cursor.fetchall() == (("=ué",),)
        claims = await store.claim(await join(store), [each.lane for each in heads], 9)
        assert sorted(claim.task for claim in claims) == ["a", "b", "fair"]
        assert await store.lanes(None) == []

    @pytest.mark.parametrize("escaped", [r"\ud83d", r"\ude00\ud83d"])
    async def test_a_plain_insert_of_what_is_no_text(
        self, store: Store, connection: pymysql.Connection[Cursor], escaped: str
    ) -> None:
        """Whose turn it is cannot be told where half a character is; the job runs all the same."""
        await store.declare_fairness({"fair": "user"})
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO mutirao_job (task, args) VALUES ('fair', %s)",
                (f'{{"user": "u", "note": "{escaped}"}}',),
            )
        [head] = await store.lanes(None)
        [claim] = await store.claim(await join(store), [head.lane], 9)
        assert claim.task == "fair"

    async def test_who_makes_inserted_jobs_live(
        self, store: Store, server: MysqlServer, database: str
    ) -> None:
        """Of several at once each takes some, and none of them waits for another, or twice."""
        with server.connect(database) as other, other.cursor() as cursor:
            rows = [(f"t{n}",) for n in range(1_200)]
            cursor.executemany("INSERT INTO mutirao_job (task) VALUES (%s)", rows)
            other.begin()
            cursor.execute("SELECT id FROM mutirao_job ORDER BY id LIMIT 1 FOR UPDATE")
            async with deadline():
                await asyncio.gather(*(store.lanes(None) for _ in range(4)))
            cursor.execute("SELECT count(*) FROM mutirao_live")
            assert cursor.fetchone() == (1_199,)
            other.rollback()
            await store.lanes(None)
            cursor.execute("SELECT count(*) FROM mutirao_live")
            assert cursor.fetchone() == (1_200,)

    async def test_nothing_that_servers_refuse(
        self, server: MysqlServer, database: str, connection: pymysql.Connection[Cursor]
    ) -> None:
        """No trigger, procedure or event: whoever may make tables may migrate."""
        with connection.cursor() as cursor:
            for name in ("trigger", "routine", "event"):
                found = f"SELECT 1 FROM information_schema.{name}s WHERE {name}_schema = %s"  # noqa: S608
                assert cursor.execute(found, (database,)) == 0

    async def test_a_job_that_comes_while_leftovers_are_looked_for(
        self, store: Store, connection: pymysql.Connection[Cursor]
    ) -> None:
        """It is none, and whoever looks has locked nothing."""
        _, second = await put(store, due(), due())

        @event.listens_for(Engine, "before_cursor_execute", retval=True)
        def _stop_at_each_row(
            conn: object, cursor: object, sql: str, values: Any, context: object, many: bool
        ) -> tuple[str, Any]:
            if re.search(r"mutirao_live\s+WHERE NOT \(EXISTS", sql):
                gate = " OR get_lock(concat('gate ', mutirao_live.id), 30) = 9"
                sql = re.sub(r"(?=\s+LIMIT)", gate, sql)
            return sql, values

        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT get_lock(concat('gate ', %s), 0)", (second,))
                mending = asyncio.create_task(store.mend())
                waiting = "SELECT 1 FROM information_schema.processlist WHERE state = 'User lock'"
                async with deadline():
                    while not cursor.execute(waiting):  # noqa: ASYNC110 (the server tells nobody)
                        await asyncio.sleep(0)
                cursor.execute("SELECT max(trx_rows_locked) FROM information_schema.innodb_trx")
                assert cursor.fetchone() == (0,)
                late = store.enqueue([due()], connection)
                cursor.execute("SELECT release_lock(concat('gate ', %s))", (second,))
                assert await mending == {}
        finally:
            event.remove(Engine, "before_cursor_execute", _stop_at_each_row)
        claims = await take(store, await join(store), 9)
        assert {claim.id for claim in claims} >= {*late}

    async def test_what_is_pruned_is_counted_no_more(self, store: Store) -> None:
        """Nor what is pruned before it was added up, or came late."""
        await put(store, *(due() for _ in range(6)))
        worker = await join(store)
        for n, claim in enumerate(await take(store, worker, 6)):
            await store.settle(worker, [ended(claim)], now=at(100 * n))
        for now in (at(250), at(1_000)):
            while await store.roll_up(None, now=now):
                pass
            assert await finished(store) == 6
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 2, now=at(2_000)) == 2
        assert await finished(store) == 4
        await put(store, due())
        claim = await take_one(store, worker)
        await store.settle(worker, [ended(claim, finished_ago=800)], now=at(1_100))
        assert await finished(store) == 5
        while await store.roll_up(None, now=at(1_100)):
            pass
        assert await finished(store) == 5
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 9, now=at(2_000)) == 5
        assert await finished(store) == 0

    async def test_what_a_rule_is_to_be_asked_about_is_parked(
        self, store: Store, connection: pymysql.Connection[Cursor]
    ) -> None:
        """From when a look put it into its place until it was asked; nothing else of that look."""
        unique = Unique(supersede=Supersede.activities())
        await store.declare_supersede({"send": unique})
        args, inserted = '{"type": "Update"}', list[int]()
        with connection.cursor() as cursor:
            for task, key in (("send", "a"), ("other", "a"), ("send", "b"), ("send", None)):
                sql = "INSERT INTO mutirao_job (task, args, `key`) VALUES (%s, %s, %s)"
                cursor.execute(sql, (task, args, key))
                inserted.append(cursor.lastrowid)
        await store.lanes(None)
        worker = await join(store)
        assert {*ids_of(await take(store, worker, 9, now=FAR_AHEAD))} == {*inserted[1::2]}
        assert await store.judge({"send": unique}) == 2
        assert {*ids_of(await take(store, worker, 9, now=FAR_AHEAD))} == {*inserted[::2]}

    @pytest.mark.parametrize("how", ["prune", "delete"])
    async def test_pruning_while_somebody_adds_up(
        self, store: Store, server: MysqlServer, database: str, how: str
    ) -> None:
        """Who deletes waits before it has any row: who adds up waits for those, in the end."""
        await put(store, due())
        worker = await join(store)
        claims = await take(store, worker, 1)
        await finish(store, worker, claims)
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "prune": lambda: store.prune(OutcomeKind.SUCCEEDED, 0, 9, now=at(1_000)),
            "delete": lambda: store.audit.delete(JobFilter(ids=(claims[0].id,))),
        }
        with server.connect(database) as other, other.cursor() as cursor:
            other.begin()
            cursor.execute("SELECT name FROM mutirao_lock WHERE name = 'hours' FOR UPDATE")
            deleting = asyncio.ensure_future(acts[how]())
            await until(lambda: somebody_waits(server))
            cursor.execute("SELECT job FROM mutirao_attempt FOR UPDATE NOWAIT")
            assert cursor.fetchall() == ((claims[0].id,),)
            other.rollback()
            await soon(deleting)
        assert await finished(store) == 0

    async def test_the_plan_of_a_claim(
        self, store: Store, connection: pymysql.Connection[Cursor]
    ) -> None:
        """A lane is read in the order of its index, from the lower bound on."""
        ids = await put(store, *(due(run_at=at(n)) for n in range(2_000)))
        since, place = WORDS.since(to_micros(at(1_900)), ids[1_900])
        sql = claiming._DUE.format(WORDS.by_lane, since, "", WORDS.hold_free).replace("?", "%s")
        with connection.cursor(DictCursor) as cursor:
            cursor.execute("ANALYZE TABLE mutirao_live")
            cursor.execute(
                f"EXPLAIN FORMAT=TRADITIONAL {sql}",
                ("default", 0, *place, 9_000_000_000_000_000, 10),
            )
            plan = cursor.fetchall()[0]
        assert (plan["key"], plan["type"]) == ("mutirao_live_waiting", "range")
        assert "filesort" not in plan["Extra"]
        assert int(plan["key_len"]) > 9 + 406 + 2  # worker, queue and priority, and then the bound

    async def test_the_tables_are_those_of_the_code(
        self, server: MysqlServer, database: str
    ) -> None:
        """Each has the same columns, and a view shows them in the same order."""
        engine = create_engine(server.url(database))
        found = inspect(engine)
        for table in tables.metadata.tables.values():
            theirs = {each["name"]: each["nullable"] for each in found.get_columns(table.name)}
            if table is tables.job:
                assert theirs.pop("unplaced")  # which no statement of all databases names
            if table is tables.live:
                assert theirs.pop("turn")  # neither: the server computes it, for an index
            if table.name == "mutirao_kept":
                theirs.pop("row", None)  # a primary key, which some servers of MySQL ask for
            assert theirs == {each.name: each.nullable for each in table.c}, table.name
        for view in views.metadata.tables.values():
            shown = [each["name"] for each in found.get_columns(view.name)]
            assert shown == [each.name for each in view.c], view.name
        engine.dispose()

    async def test_a_migration_that_was_cut_off(self, server: MysqlServer) -> None:
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

    async def test_what_cut_a_migration_off(self, server: MysqlServer) -> None:
        """Its error is the one that is raised, though the lock cannot be given back either."""
        first = server.connect(server.create_database(), autocommit=False)
        session.set_up(first)
        only = iter([first])
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

    async def test_what_the_doctor_looks_at(
        self, server: MysqlServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All is well in new tables; an index has to be there, and old rows to be purged."""
        engine = SqlStore(server.url(server.create_database())).engines.sync()
        migrations.upgrade(engine.url)
        with engine.connect() as connection:
            assert {each.level for each in ADMIN.health_checks(connection)} == {Level.OK}
            connection.execute(text("DROP INDEX mutirao_live_waiting ON mutirao_live"))
            [wrong] = [each for each in ADMIN.health_checks(connection) if each.advice]
            assert (wrong.level, wrong.about) == (Level.PROBLEM, "indexes")
            monkeypatch.setattr(health_checks, "UNPURGED", -1)
            [_, late] = [each for each in ADMIN.health_checks(connection) if each.advice]
            assert (late.level, late.about) == (Level.WARNING, "bloat")
            assert "innodb_trx" in str(late.advice)
        engine.dispose()


@pytest.fixture(scope="module")
def by_mysqlclient(server: MysqlServer, database: str) -> Iterator[SqlStore]:
    """A store for all tests of its class."""
    store = SqlStore(server.url(database, "mysql+mysqldb"))
    yield store
    store.engines.close_sync()


@pytest.mark.repeats(decided="tests/conformance/test_mariadb.py")  # by the default driver
class TestMysqldb(OnInnodb, DriverContract):
    """The same through mysqlclient, which is only synchronous."""

    handlers = ("function",)

    @pytest.fixture
    def store(self, by_mysqlclient: SqlStore, connection: pymysql.Connection[Cursor]) -> Store:
        """It, on empty tables."""
        empty(connection)
        return by_mysqlclient

    async def test_what_a_coroutine_is_told(self, store: Store) -> None:
        """There are no asynchronous sessions; the error says what to use instead."""
        await put(store, due())
        claim = await take_one(store, await join(store))
        with pytest.raises(ConfigurationError, match=r"handler, or a mysql\+pymysql://"):
            async with store.transaction(job_of(claim), Watched(), gives="session"):
                pass


def test_a_driver_that_is_not_used() -> None:
    """The error says which one is, and why."""
    with pytest.raises(ConfigurationError, match=r"cancelled .* Use mysql\+aiomysql:// or"):
        SqlStore("mysql+asyncmy://u@h/d")


async def finished(store: Store) -> int:
    """Return how many finished jobs are counted."""
    return sum(each.jobs for each in await store.counts() if each.state == JobState.SUCCEEDED)


def test_a_suite_that_it_lacks_is_named() -> None:
    """Whoever adds a suite decides whether MariaDB passes it."""
    suites = {DriverContract, StoreContract, NotifierContract}
    assert HAS | NOT_YET.keys() == suites
    assert all(issubclass(TestMariadb, suite) for suite in HAS)


@pytest.mark.parametrize(
    ("version", "numbers", "is_mariadb"),
    [
        ("5.7.44", (5, 7, 44), False),
        ("8.0.16", (8, 0, 16), False),
        ("10.5.29-MariaDB", (10, 5, 29), True),
    ],
)
def test_another_server_is_refused(
    version: str, numbers: tuple[int, ...], is_mariadb: bool
) -> None:
    """One that is too old, before anything is made."""
    said = SimpleNamespace(scalar_one=lambda: version)
    dialect = SimpleNamespace(is_mariadb=is_mariadb, server_version_info=numbers)
    conn = cast(Any, SimpleNamespace(exec_driver_sql=lambda _: said, dialect=dialect))
    needed = f"{version}; use MariaDB 10.6 or MySQL 8.0.17, or newer. Nothing was changed"
    expected = pytest.raises(ConfigurationError, match=re.escape(needed))
    with expected, ADMIN.migrating(conn):
        raise AssertionError("it was let in")


def engine_of_ours(url: str) -> Engine:
    """Return an engine whose sessions are set up as ours are."""
    engine = create_engine(url)
    event.listen(engine, "connect", lambda connection, _: session.set_up(connection), insert=True)
    return engine


@pytest.mark.parametrize("what", ["SKIP LOCKED", "json_table", "InnoDB", "utf8mb4"])
def test_what_a_server_lacks(server: MysqlServer, database: str, what: str) -> None:
    """Each thing that is needed is tried: the version does not tell what others have left out."""
    engine = engine_of_ours(server.url(database))

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def _lack(
        conn: object, cursor: object, sql: str, values: Any, context: object, many: bool
    ) -> tuple[str, Any]:
        if "table_schema" in sql or "CONVERT(" in sql:
            return sql, values
        return sql.replace(f"'{what}", "'no").replace(what, "'nothing'"), values

    with engine.connect() as connection:
        [fault] = faults(connection)
        refusal = pytest.raises(ConfigurationError, match=f"(?i)lacks .*{what}.* use a server that")
        with refusal, ADMIN.migrating(connection):
            raise AssertionError("it was let in")
        [problem] = [each for each in ADMIN.health_checks(connection) if each.advice]
        assert (problem.level, problem.found) == (Level.PROBLEM, fault.found)
    engine.dispose()


def test_a_table_in_another_engine(server: MysqlServer) -> None:
    """Both say which one, and how to mend it. Nobody gets there by a default of the server."""
    name = server.create_database()
    migrations.upgrade(server.url(name))
    engine = engine_of_ours(server.url(name))
    with server.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE mutirao_duty ENGINE = MyISAM")
        with pytest.raises(ConfigurationError, match="ALTER TABLE mutirao_duty ENGINE = InnoDB"):
            migrations.upgrade(server.url(name))
        with engine.connect() as looking:
            [problem] = [each for each in ADMIN.health_checks(looking) if each.advice]
            assert problem.found == "mutirao_duty is kept by MyISAM, which has no transactions"
        cursor.execute("ALTER TABLE mutirao_duty ENGINE = InnoDB")
        migrations.upgrade(server.url(name))
    engine.dispose()


def test_sessions_that_are_not_strict(
    server: MysqlServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Ours are, whatever the server's mode; of others' the doctor and `migrate` warn."""
    engine = engine_of_ours(server.url(database))

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def _loosen(
        conn: object, cursor: object, sql: str, values: Any, context: object, many: bool
    ) -> tuple[str, Any]:
        return sql.replace("@@GLOBAL.sql_mode", "'ANSI_QUOTES'"), values

    with engine.connect() as connection:
        [warning] = [each for each in ADMIN.health_checks(connection) if each.advice]
        assert (warning.level, warning.about) == (Level.WARNING, "sql_mode")
        assert "STRICT_TRANS_TABLES" in str(warning.advice)
        connection.commit()
        with ADMIN.migrating(connection):
            assert caplog.messages == [f"{warning.found}; {warning.advice}"]
    engine.dispose()


def test_defaults_of_a_server(server: MysqlServer) -> None:
    """Tables are what they have to be in a database of other letters, for a server of MyISAM."""
    name = server.create_database()
    with server.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} CHARACTER SET latin1")
        migrations.upgrade(server.url(name))
        cursor.execute(
            "SELECT DISTINCT engine, table_collation FROM information_schema.tables"
            " WHERE table_schema = %s AND table_type = 'BASE TABLE'"
            " AND table_name <> 'mutirao_version'",
            (name,),
        )
        [(kept_by, collation)] = cursor.fetchall()
        assert (kept_by, collation in ("utf8mb4_nopad_bin", "utf8mb4_0900_bin")) == ("InnoDB", True)
