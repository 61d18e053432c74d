"""The connections that jobs are written through where the program gives none of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from sqlalchemy import make_url

from mutirao import Mutirao, Task
from mutirao.errors import StoreUnavailable
from mutirao.sql.engines import KEPT, MAX_OVERFLOW
from tests.support.postgresql import PostgresServer
from tests.support.waiting import until

MANY = KEPT + MAX_OVERFLOW + 16  # threads: more than there may be connections
MINE = "SELECT pid FROM pg_stat_activity WHERE application_name = 'the shop'"


@pytest.fixture(params=["psycopg", "psycopg2"])
def shop(request: pytest.FixtureRequest, pg_url: str) -> Iterator[Mutirao]:
    """An application whose connections have a name."""
    url = pg_url.replace("psycopg", request.param)
    application = Mutirao(f"{url}?application_name=the+shop")
    yield application
    application.close()


@pytest.fixture
def sell(shop: Mutirao) -> Task[[], None]:
    """Its only task."""

    @shop.task
    def sell() -> None: ...

    return sell


@pytest.fixture
def administrator(postgres: PostgresServer) -> Iterator[psycopg.Connection]:
    """Somebody who sees the connections of others, and can end them."""
    with postgres.connect() as connection:
        yield connection


def opened(administrator: psycopg.Connection) -> int:
    """Count the application's connections."""
    return len(administrator.execute(MINE).fetchall())


def all_at_once(sell: Task[[], None], threads: int, times: int) -> list[int]:
    """Enqueue so many times in each of so many threads that begin together; return the ids."""
    together = Barrier(threads)

    def shout(_: int) -> list[int]:
        together.wait()
        return [sell.enqueue().id for _ in range(times)]

    with ThreadPoolExecutor(threads) as pool:
        return [id for found in pool.map(shout, range(threads)) for id in found]


def test_one_after_the_other(sell: Task[[], None], administrator: psycopg.Connection) -> None:
    """They all go through the same one."""
    ids = [sell.enqueue().id for _ in range(30)]
    assert ids == sorted(set(ids))
    assert opened(administrator) == 1


def test_many_at_once(sell: Task[[], None], administrator: psycopg.Connection) -> None:
    """Whoever finds none waits for one, and not for ever; afterwards few are kept."""
    assert len(set(all_at_once(sell, MANY, 3))) == 3 * MANY
    assert opened(administrator) <= KEPT + KEPT // 2


async def test_closing(
    shop: Mutirao, sell: Task[[], None], administrator: psycopg.Connection
) -> None:
    """Leaves none; the next call opens one again."""
    for _ in range(2):
        sell.enqueue()
        assert opened(administrator) == 1
        shop.close()
        await until(lambda: opened(administrator) == 0)


async def test_nobody_answers() -> None:
    """A server that accepts and says nothing cannot be reached, for threads and for coroutines."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        mute = Mutirao(f"postgresql+psycopg://nobody@127.0.0.1:{port}/nothing?connect_timeout=2")

        @mute.task
        def sell() -> None: ...

        with pytest.raises(StoreUnavailable):
            await asyncio.to_thread(sell.enqueue)
        with pytest.raises(StoreUnavailable):
            await sell.aenqueue()
        await mute.aclose()


def test_when_they_were_cut(sell: Task[[], None], administrator: psycopg.Connection) -> None:
    """One call hears of it; the others of the same age are not tried."""
    assert len(set(all_at_once(sell, 5, 1))) == 5
    administrator.execute(MINE.replace("pid", "pg_terminate_backend(pid, 60000)", 1))
    with pytest.raises(StoreUnavailable):
        sell.enqueue()
    for _ in range(5):
        sell.enqueue()


@pytest.fixture(params=["psycopg", "asyncpg"])
async def ashop(request: pytest.FixtureRequest, pg_url: str) -> AsyncIterator[Mutirao]:
    """An application whose program is asynchronous."""
    name = {"psycopg": "application_name=the+shop", "asyncpg": ""}[request.param]
    application = Mutirao(f"{pg_url.replace('psycopg', request.param)}?{name}")
    yield application
    await application.aclose()


def theirs(administrator: psycopg.Connection, database: str, what: str = "true") -> list[int]:
    """Return the processes of others that use a database."""
    found = administrator.execute(
        f"SELECT pid FROM pg_stat_activity WHERE datname = %s AND {what}",  # noqa: S608
        (database,),
    )
    return [pid for (pid,) in found]


async def test_when_they_were_cut_asynchronously(
    ashop: Mutirao, administrator: psycopg.Connection, pg_url: str
) -> None:
    """As for threads: one call hears of it."""

    @ashop.task
    async def sell() -> None: ...

    await asyncio.gather(*(sell.aenqueue() for _ in range(5)))
    for pid in theirs(administrator, str(make_url(pg_url).database)):
        administrator.execute("SELECT pg_terminate_backend(%s, 60000)", (pid,))
    with pytest.raises(StoreUnavailable):
        await sell.aenqueue()
    await asyncio.gather(*(sell.aenqueue() for _ in range(5)))


async def test_cancelled(ashop: Mutirao, administrator: psycopg.Connection, pg_url: str) -> None:
    """A coroutine that is cancelled while it enqueues leaves no connection in mid-sentence."""

    @ashop.task
    async def sell() -> None: ...

    database = str(make_url(pg_url).database)
    with psycopg.connect(pg_url.replace("+psycopg", "")) as locking:
        locking.execute("LOCK TABLE mutirao_job")
        enqueueing = asyncio.create_task(sell.aenqueue())
        await until(lambda: theirs(administrator, database, "wait_event_type = 'Lock'"))
        enqueueing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await enqueueing
    await until(lambda: not theirs(administrator, database))
    assert await ashop.ajobs() == []
    assert (await sell.aenqueue()).how == "inserted"
