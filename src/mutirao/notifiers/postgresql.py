"""LISTEN on a connection of its own.

Behind a pooler in transaction mode LISTEN does nothing: give workers a direct URL or let them
poll.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import URL, make_url

from mutirao.errors import StoreUnavailable
from mutirao.job import Wake

CHANNEL = "mutirao"
ENDS = "mutirao_ended"  # of jobs that somebody waits for
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PostgresqlNotifier:
    """Notifications of the database at `url`, through psycopg or asyncpg as the URL says."""

    def __init__(self, url: str | URL, channel: str = CHANNEL) -> None:
        self._url, self._channel = make_url(url), channel

    async def listen(self) -> AsyncGenerator[Wake, None]:
        """Yield a wake for every notification; StoreUnavailable when the connection breaks."""
        listen = _BY_DRIVER.get(self._url.drivername, _psycopg)
        async with aclosing(listen(self._url, self._channel)) as payloads:
            async for payload in payloads:
                yield parse(payload)


def parse(payload: str) -> Wake:
    """Return the wake in a notification: `priority microseconds queue`, or nothing."""
    priority, _, rest = payload.partition(" ")
    micros, _, queue = rest.partition(" ")
    if not queue:
        return Wake()
    try:
        return Wake(queue, int(priority), EPOCH + timedelta(microseconds=int(micros)))
    except (ValueError, OverflowError):
        return Wake()  # somebody else's notification on our channel: look everywhere


async def _psycopg(url: URL, channel: str) -> AsyncGenerator[str, None]:
    import psycopg

    try:
        connection = await psycopg.AsyncConnection.connect(**_arguments(url), autocommit=True)
        async with connection:
            await connection.execute(f"LISTEN {channel}")
            yield ""
            # Not `connection.notifies()`, which wakes up ten times a second to look for signals:
            # 0.15 s of processor time a minute, half of what an idle worker took.
            with _readable(connection.fileno()) as readable:
                while await readable.wait():
                    readable.clear()
                    connection.pgconn.consume_input()
                    while (notification := connection.pgconn.notifies()) is not None:
                        yield notification.extra.decode()
    except (psycopg.OperationalError, OSError) as gone:
        raise StoreUnavailable(f"the listening connection is lost: {gone}") from gone


async def _asyncpg(url: URL, channel: str) -> AsyncGenerator[str, None]:
    import asyncpg

    payloads: asyncio.Queue[str | None] = asyncio.Queue()
    try:
        connection = await asyncpg.connect(**_arguments(url))
        try:
            connection.add_termination_listener(lambda _: payloads.put_nowait(None))
            await connection.add_listener(channel, lambda *heard: payloads.put_nowait(heard[3]))
            yield ""
            while (payload := await payloads.get()) is not None:
                yield payload
        finally:
            connection.terminate()
    except (
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,  # the server ended the connection between two statements
        OSError,
    ) as gone:
        raise StoreUnavailable(f"the listening connection is lost: {gone}") from gone
    raise StoreUnavailable("the listening connection was closed")


async def _psycopg2(url: URL, channel: str) -> AsyncGenerator[str, None]:
    import psycopg2

    try:
        connection = await asyncio.to_thread(psycopg2.connect, **_arguments(url))
        with closing(connection):
            connection.autocommit = True
            connection.cursor().execute(f"LISTEN {channel}")
            yield ""
            with _readable(connection.fileno()) as readable:
                while await readable.wait():
                    readable.clear()
                    connection.poll()
                    while connection.notifies:
                        yield connection.notifies.pop(0).payload
    except (psycopg2.OperationalError, OSError) as gone:
        raise StoreUnavailable(f"the listening connection is lost: {gone}") from gone


@contextmanager
def _readable(socket: int) -> Iterator[asyncio.Event]:
    """Return an event that is set whenever there is something to read, its end too."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(socket, readable.set)
    try:
        yield readable
    finally:
        loop.remove_reader(socket)


def _arguments(url: URL) -> dict[str, Any]:
    dialect = url.get_dialect()()
    return dict(dialect.create_connect_args(url)[1])


_BY_DRIVER = {"postgresql+asyncpg": _asyncpg, "postgresql+psycopg2": _psycopg2}
