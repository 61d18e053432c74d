"""The connections that jobs are written through where the program gives none of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import psycopg
import pytest
from sqlalchemy import make_url

from mutirao import Mutirao, Task
from mutirao.errors import StoreUnavailable
from mutirao.sql.connections.creating import MAX_OVERFLOW
from mutirao.sql.connections.engines import POOL_SIZE
from tests.support.postgresql import PostgresServer
from tests.support.waiting import until

MANY = POOL_SIZE + MAX_OVERFLOW + 16  # threads: more than there may be connections
THEIRS = """
SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = %s
"""


@pytest.fixture
def pg_url(migrated_postgresql_url: str) -> str:
    """A database that nobody else has used: its sessions are counted."""
    return migrated_postgresql_url


@pytest.fixture(params=["psycopg", "psycopg2"])
def shop(request: pytest.FixtureRequest, pg_url: str) -> Iterator[Mutirao]:
    """An application."""
    application = Mutirao(pg_url.replace("psycopg", request.param))
    yield application
    application.close()


@pytest.fixture
def sell(shop: Mutirao) -> Task[[], None]:
    """Its only task."""

    @shop.task
    def sell() -> None: ...

    return sell


@dataclass(frozen=True, slots=True)
class Sessions:
    """Those of the application, as somebody sees them who can end them."""

    administrator: psycopg.Connection
    database: str

    def opened(self, in_which: str = "true") -> int:
        """Count them, or those of which a condition holds."""
        where = f"{THEIRS} AND {in_which}"
        return len(self.administrator.execute(where, (self.database,)).fetchall())

    def pids(self) -> set[int]:
        """Return who serves them."""
        return {pid for (pid,) in self.administrator.execute(THEIRS, (self.database,))}

    def cut(self) -> None:
        """End all of them, and wait for that."""
        ending = THEIRS.replace("pid", "pg_terminate_backend(pid, 60000)", 1)
        self.administrator.execute(ending, (self.database,))


@pytest.fixture
def sessions(postgres: PostgresServer, pg_url: str) -> Iterator[Sessions]:
    """The application's sessions on the server."""
    with postgres.connect() as connection:
        yield Sessions(connection, str(make_url(pg_url).database))


def all_at_once(sell: Task[[], None], threads: int, times: int) -> list[int]:
    """Enqueue so many times in each of so many threads that begin together; return the ids."""
    together = Barrier(threads)

    def shout(_: int) -> list[int]:
        together.wait()
        return [sell.enqueue().id for _ in range(times)]

    with ThreadPoolExecutor(threads) as pool:
        return [id for found in pool.map(shout, range(threads)) for id in found]


def test_one_after_the_other(sell: Task[[], None], sessions: Sessions) -> None:
    """They all go through the same one."""
    ids = [sell.enqueue().id for _ in range(30)]
    assert ids == sorted(set(ids))
    assert sessions.opened() == 1


def test_many_at_once(sell: Task[[], None], sessions: Sessions) -> None:
    """Whoever finds none waits for one, and not for ever; afterwards few are kept."""
    assert len(set(all_at_once(sell, MANY, 3))) == 3 * MANY
    assert sessions.opened() <= POOL_SIZE + POOL_SIZE // 2


async def test_closing(shop: Mutirao, sell: Task[[], None], sessions: Sessions) -> None:
    """Leaves none; the next call opens one again."""
    for _ in range(2):
        sell.enqueue()
        assert sessions.opened() == 1
        shop.close()
        await until(lambda: sessions.opened() == 0)


async def test_a_lock_that_is_not_given(
    postgres: PostgresServer, pg_url: str, sessions: Sessions
) -> None:
    """The server has answered: the connections are used again."""
    impatient = Mutirao(f"{pg_url}?options=-c%20lock_timeout%3D50ms")

    @impatient.task
    def sell() -> None: ...

    sell.enqueue()
    await sell.aenqueue()
    before = sessions.pids()
    with postgres.connect(sessions.database) as other, other.transaction():
        other.execute("LOCK TABLE mutirao_job")
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            sell.enqueue()
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            await sell.aenqueue()
    sell.enqueue()
    await sell.aenqueue()
    assert before <= sessions.pids()
    await impatient.aclose()
    impatient.close()


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


def test_when_they_were_cut(sell: Task[[], None], sessions: Sessions) -> None:
    """No call hears of it: each looks whether its connection was closed while it rested."""
    assert len(set(all_at_once(sell, 5, 1))) == 5
    sessions.cut()
    for _ in range(6):
        sell.enqueue()


@pytest.fixture(params=["psycopg", "asyncpg"])
async def ashop(request: pytest.FixtureRequest, pg_url: str) -> AsyncIterator[Mutirao]:
    """An application whose program is asynchronous."""
    application = Mutirao(pg_url.replace("psycopg", request.param))
    yield application
    await application.aclose()


async def test_when_they_were_cut_asynchronously(ashop: Mutirao, sessions: Sessions) -> None:
    """As for threads: no call hears of it."""

    @ashop.task
    async def sell() -> None: ...

    await asyncio.gather(*(sell.aenqueue() for _ in range(5)))
    sessions.cut()
    await asyncio.gather(*(sell.aenqueue() for _ in range(6)))


async def test_cancelled(ashop: Mutirao, sessions: Sessions, pg_url: str) -> None:
    """A coroutine that is cancelled while it enqueues leaves no connection in mid-sentence."""

    @ashop.task
    async def sell() -> None: ...

    with psycopg.connect(pg_url.replace("+psycopg", "")) as locking:
        locking.execute("LOCK TABLE mutirao_job")
        enqueueing = asyncio.create_task(sell.aenqueue())
        await until(lambda: sessions.opened("wait_event_type = 'Lock'"))
        enqueueing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await enqueueing
    await until(lambda: sessions.opened() == 0)
    assert await ashop.ajobs() == []
    assert (await sell.aenqueue()).how == "inserted"
