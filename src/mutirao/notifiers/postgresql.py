"""LISTEN on a connection of its own.

LISTEN has no effect behind a pooler in transaction mode: give workers a direct URL or let them
poll.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, closing
from datetime import timedelta
from functools import partial
from inspect import isawaitable
from typing import Any

from sqlalchemy import URL, make_url

from mutirao.errors import StoreUnavailable
from mutirao.model.job import Wake
from mutirao.model.moments import EPOCH

CHANNEL = "mutirao"
ENDS_CHANNEL = "mutirao_ended"  # ends of jobs that somebody waits for
# Seconds of silence after which a listener checks that the server is still there, and seconds
# within which it must answer. Notifications are not requested one by one, so a broken proxy or
# network looks like a time without notifications.
PROBE_INTERVAL, PROBE_TIMEOUT = 30.0, 10.0


Opened = Callable[[], Awaitable[Any]]


class PostgresqlNotifier:
    """The notifications of the database at `url`, through the URL's driver.

    `opened` opens a connection of that driver, in autocommit mode; None: the URL says all about it.
    """

    def __init__(
        self, url: str | URL, channel: str = CHANNEL, opened: Opened | None = None
    ) -> None:
        self._url, self._channel = make_url(url), channel
        self._opened = opened

    async def listen(self) -> AsyncGenerator[Wake, None]:
        """Yield a wake for every notification; raise StoreUnavailable if the connection breaks."""
        connect, listen = _BY_DRIVER.get(self._url.drivername, _BY_DRIVER["postgresql+psycopg"])
        opened = self._opened or partial(connect, self._url)
        async with aclosing(listen(opened, self._channel)) as payloads:
            async for payload in payloads:
                yield parse(payload)


def parse(payload: str) -> Wake:
    """Return the wake in a notification: `whom priority microseconds queue`, or nothing.

    `whom` is `*`, all, or `2:7,9,4;12`: the ids of workers, of which the first two look at once,
    and the id of the newest worker when they were named.
    """
    whom, _, rest = payload.partition(" ")
    priority, _, rest = rest.partition(" ")
    micros, _, queue = rest.partition(" ")
    if not queue:
        return Wake()
    try:
        at = EPOCH + timedelta(microseconds=int(micros))
        return Wake(queue, int(priority), at, *_workers(whom))
    except (ValueError, OverflowError):
        return Wake()  # another program's notification on our channel: look everywhere


def _workers(whom: str) -> tuple[tuple[int, ...] | None, tuple[int, ...], int | None]:
    if whom == "*":
        return None, (), None
    number, _, rest = whom.partition(":")
    ids, _, newest = rest.partition(";")
    workers, first = tuple(map(int, ids.split(","))), int(number)
    return workers[:first], workers[first:], int(newest)


async def _connect_psycopg(url: URL) -> Any:
    import psycopg

    return await psycopg.AsyncConnection.connect(**_arguments(url), autocommit=True)


async def _psycopg(opened: Opened, channel: str) -> AsyncGenerator[str, None]:
    """Listen on a connection of either form: an application may open the other one."""
    import psycopg

    try:
        connection = await opened()
        try:
            await _told(connection.execute(f'LISTEN "{channel}"'))
            yield ""
            # Not `connection.notifies()`, which wakes up ten times a second to check for signals:
            # 0.15 s of CPU time a minute, half of what an idle worker took.
            wire, encoding = connection.pgconn, connection.info.encoding
            ask = partial(wire.send_query, b"SELECT")
            async with aclosing(_readable(wire.socket, ask)) as reads:
                async for _ in reads:
                    wire.consume_input()
                    while not wire.is_busy() and wire.get_result() is not None:
                        pass  # the answer to the check, and its end
                    while (notification := wire.notifies()) is not None:
                        yield notification.extra.decode(encoding, "replace")
        finally:
            await _told(connection.close())
    except (psycopg.OperationalError, OSError) as gone:
        raise StoreUnavailable(f"the listening connection is lost: {gone}") from gone


async def _told(result: Any) -> None:
    if isawaitable(result):
        await result


async def _connect_asyncpg(url: URL) -> Any:
    import asyncpg

    arguments = _arguments(url)
    arguments.pop("prepared_statement_cache_size", None)  # a parameter of SQLAlchemy
    return await asyncpg.connect(**arguments, timeout=PROBE_TIMEOUT)


async def _asyncpg(opened: Opened, channel: str) -> AsyncGenerator[str, None]:
    import asyncpg

    payloads: asyncio.Queue[str | None] = asyncio.Queue()
    try:
        connection = await opened()
        try:
            connection.add_termination_listener(lambda _: payloads.put_nowait(None))
            await connection.add_listener(channel, lambda *heard: payloads.put_nowait(heard[3]))
            yield ""
            while True:
                try:
                    async with asyncio.timeout(PROBE_INTERVAL):
                        payload = await payloads.get()
                except TimeoutError:
                    await connection.execute("SELECT", timeout=PROBE_TIMEOUT)
                    continue
                if payload is None:
                    break
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


async def _connect_psycopg2(url: URL) -> Any:
    import psycopg2

    return await asyncio.to_thread(psycopg2.connect, **_arguments(url))


async def _psycopg2(opened: Opened, channel: str) -> AsyncGenerator[str, None]:
    import psycopg2

    try:
        connection = await opened()
        with closing(connection):
            connection.autocommit = True
            connection.cursor().execute(f'LISTEN "{channel}"')
            yield ""
            # A check would block the event loop: after a long silence it is opened again.
            async with aclosing(_readable(connection.fileno(), None)) as reads:
                async for _ in reads:
                    connection.poll()
                    while connection.notifies:
                        yield connection.notifies.pop(0).payload
    except (psycopg2.OperationalError, OSError) as gone:
        raise StoreUnavailable(f"the listening connection is lost: {gone}") from gone


async def _readable(socket: int, ask: Callable[[], object] | None) -> AsyncGenerator[None, None]:
    """Yield whenever there is something to read, also the end of the connection.

    After a long silence, call `ask`, which the server must answer; if it is None, return.
    """
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(socket, readable.set)
    silent = False
    try:
        while True:
            try:
                async with asyncio.timeout(PROBE_TIMEOUT if silent else PROBE_INTERVAL):
                    await readable.wait()
            except TimeoutError:
                if silent:
                    raise ConnectionError("the server does not answer any more") from None
                if ask is None:
                    return
                ask()
                silent = True
                continue
            readable.clear()
            silent = False
            yield
    finally:
        loop.remove_reader(socket)


def _arguments(url: URL) -> dict[str, Any]:
    dialect = url.get_dialect()()
    return dict(dialect.create_connect_args(url)[1])


_BY_DRIVER = {
    "postgresql+psycopg": (_connect_psycopg, _psycopg),
    "postgresql+asyncpg": (_connect_asyncpg, _asyncpg),
    "postgresql+psycopg2": (_connect_psycopg2, _psycopg2),
}
