"""What other sessions of MariaDB keep us from is tried again as a whole, and counted.

Deadlocks, locks that are held for too long, and old snapshots. A caller's transaction never is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor
from sqlalchemy.exc import OperationalError

from mutirao.errors import StoreBusy
from mutirao.model.jobs.records import JobFilter
from mutirao.sql import migrations
from mutirao.sql.dialects.mysql import session
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import due, ended, ids_of, join, put, take, take_one
from mutirao_conformance.limits import limited, of
from mutirao_conformance.uniqueness import keyed
from tests.support.history import opened
from tests.support.mariadb import MysqlServer, empty
from tests.support.waiting import soon, until

LOCK = "SELECT id FROM mutirao_live WHERE id = %s FOR UPDATE"
RETRIES = "SELECT retries FROM mutirao_lock WHERE name = 'retries'"
WAITING = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"
DEADLOCK, TOO_LONG, OLD = 1213, 1205, 1020


class Other:
    """Another session, which commits by itself until it begins a transaction."""

    def __init__(self, connection: pymysql.Connection[Cursor]) -> None:
        self.connection = connection

    def say(self, statement: str, *values: object) -> Any:
        """Return the last value of the first row, if there is one."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            row = cursor.fetchone()
            return row and row[-1]


@pytest.fixture(scope="module")
def database(mysql: MysqlServer) -> str:
    """The name of a database with Mutirão's tables."""
    name = mysql.create_database()
    migrations.upgrade(mysql.url(name))
    return name


@pytest.fixture
def other(mysql: MysqlServer, database: str) -> Iterator[Other]:
    """Another session, over empty tables."""
    with mysql.connect(database) as connection:
        empty(connection)
        other = Other(connection)
        other.say("UPDATE mutirao_lock SET retries = 0")
        yield other
        connection.rollback()


@pytest.fixture
async def store(mysql: MysqlServer, database: str, other: Other) -> AsyncIterator[SqlStore]:
    """A store over them."""
    async with opened(mysql.url(database)) as store:
        yield store


async def in_a_circle(other: Other, ids: list[int], act: Callable[[], Awaitable[Any]]) -> Any:
    """Act, and wait for the second job, whose holder waits for the first: the server ends our try.

    It ends whoever has written less. Returns what came of the act.
    """
    first, second = ids
    other.say("CREATE TABLE IF NOT EXISTS heavy (id bigint) ENGINE InnoDB")
    other.connection.begin()
    with other.connection.cursor() as cursor:
        cursor.executemany("INSERT INTO heavy VALUES (%s)", [(n,) for n in range(500)])
    other.say(LOCK, second)
    acting = asyncio.ensure_future(act())
    await until(lambda: other.say(WAITING) == "1")
    await asyncio.to_thread(other.say, LOCK, first)
    other.connection.commit()
    return await soon(acting)


async def test_a_deadlock(store: SqlStore, other: Other) -> None:
    """A settlement is made again, and succeeds."""
    ids = await put(store, due(), due())
    worker = await join(store)
    ends = [ended(claim) for claim in await take(store, worker)]
    assert await in_a_circle(other, ids, lambda: store.settle(worker, ends)) == {*ids}
    assert other.say(RETRIES) == 1


async def test_a_lock_that_is_held_for_too_long(
    mysql: MysqlServer, database: str, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order waits for a job, gives up, and is carried out when the job is free."""
    impatient = (*session.SETTING, "SET SESSION innodb_lock_wait_timeout = 1")
    async with opened(mysql.url(database)) as store:
        # Where the module was imported anew for another test, that one is not this store's.
        set_up = store.engines._connecting.set_up
        assert set_up is not None
        monkeypatch.setitem(set_up.__globals__, "SETTING", impatient)
        ids = await put(store, due())
        other.connection.begin()
        other.say(LOCK, ids[0])
        acting = asyncio.ensure_future(store.cancel(JobFilter()))
        with mysql.connect(database) as looking:
            await until(lambda: Other(looking).say(RETRIES) >= 1)
        other.connection.rollback()
        assert await soon(acting) == ids


async def test_a_counter_that_has_to_be_made(store: SqlStore, other: Other) -> None:
    """Nobody who has others waits for it while its maker waits for those: it is made apart."""
    await limited(store, 9)
    await limited(store, 9, by="tenant")
    worker = await join(store)
    await put(store, of("a"))
    await take_one(store, worker)
    ids = await put(store, of("b"))
    other.connection.begin()
    other.say("SELECT id FROM mutirao_counter FORCE INDEX (PRIMARY) ORDER BY id LIMIT 1 FOR UPDATE")
    claiming = asyncio.ensure_future(take(store, worker))
    await until(lambda: other.say(WAITING) == "1")
    other.say("SELECT id FROM mutirao_counter FORCE INDEX (PRIMARY) ORDER BY id FOR UPDATE")
    other.connection.commit()
    assert ids_of(await soon(claiming)) == ids
    assert other.say(RETRIES) == 0


@pytest.mark.parametrize("number", [DEADLOCK, TOO_LONG, OLD])
async def test_giving_up(store: SqlStore, other: Other, number: int) -> None:
    """After five tries, of which four were again, the error is that of whoever gave the order."""
    ids = await put(store, due())
    other.say(
        "CREATE TRIGGER again BEFORE DELETE ON mutirao_live FOR EACH ROW"
        f" SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}"
    )
    try:
        with pytest.raises(StoreBusy):
            await store.cancel(JobFilter(ids=tuple(ids)))
    finally:
        other.say("DROP TRIGGER again")
    assert other.say(RETRIES) == 4


async def test_a_caller_in_a_deadlock(store: SqlStore, other: Other) -> None:
    """It is not called again, and sees the driver's error: only it knows what else it did."""
    ids = await put(store, due(), due())

    def lock_both() -> None:
        with store.engines.sync().begin() as caller:
            caller.exec_driver_sql(LOCK, (ids[0],))
            caller.exec_driver_sql(LOCK, (ids[1],))

    with pytest.raises(OperationalError) as raised:
        await in_a_circle(other, ids, lambda: asyncio.to_thread(lock_both))
    assert isinstance(raised.value.orig, pymysql.OperationalError)
    assert raised.value.orig.args[0] == DEADLOCK
    assert other.say(RETRIES) == 0


async def test_a_caller_for_whom_a_lock_is_held_too_long(
    mysql: MysqlServer, database: str, store: SqlStore, other: Other
) -> None:
    """Nor is it called again for a key that another has: what it did before is still there."""
    other.connection.begin()
    store.enqueue([keyed()], other.connection)
    with mysql.connect(database, autocommit=False) as caller:
        Other(caller).say("SET SESSION innodb_lock_wait_timeout = 1")
        [id] = store.enqueue([due()], caller)
        with pytest.raises(pymysql.OperationalError) as raised:
            store.enqueue([keyed()], caller)
        caller.commit()
    assert raised.value.args[0] == TOO_LONG
    other.connection.rollback()
    assert [job.id for job in await store.jobs(JobFilter())] == [id]
    assert other.say(RETRIES) == 0
