"""LISTEN on a connection of its own.

LISTEN has no effect behind a pooler in transaction mode: give workers a direct URL or let them
poll.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, closing
from datetime import timedelta
from functools import partial
from inspect import isawaitable
from typing import Any

from sqlalchemy import URL, make_url

from mutirao.errors import StoreUnavailable
from mutirao.model.jobs.job import Wake
from mutirao.model.moments import EPOCH

CHANNEL = "mutirao"
ENDS_CHANNEL = "mutirao_ended"  # ends of jobs that a program waits for
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
            await _awaited(connection.execute(f'LISTEN "{channel}"'))
            yield ""
            # Not `connection.notifies()`, which wakes up ten times a second to check for signals:
            # 0.15 s of CPU time a minute, half of what an idle worker took.
            wire, encoding = connection.pgconn, connection.info.encoding
            read = partial(_notified, wire, encoding)
            reading = _Reading(wire.socket, read, partial(wire.send_query, b"SELECT"))
            async with aclosing(reading.payloads()) as payloads:
                async for payload in payloads:
                    yield payload
        finally:
            await _awaited(connection.close())
    except (psycopg.OperationalError, OSError) as gone:
        raise StoreUnavailable(f"the listening connection is lost: {gone}") from gone


def _notified(wire: Any, encoding: str) -> Iterator[str]:
    wire.consume_input()
    while not wire.is_busy() and wire.get_result() is not None:
        pass  # the answer to the check, and its end
    while (notification := wire.notifies()) is not None:
        yield notification.extra.decode(encoding, "replace")


async def _awaited(result: Any) -> None:
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
            reading = _Reading(connection.fileno(), partial(_polled, connection), None)
            async with aclosing(reading.payloads()) as payloads:
                async for payload in payloads:
                    yield payload
    except (psycopg2.OperationalError, OSError) as gone:
        raise StoreUnavailable(f"the listening connection is lost: {gone}") from gone


def _polled(connection: Any) -> Iterator[str]:
    connection.poll()
    while connection.notifies:
        yield connection.notifies.pop(0).payload


class _Reading:
    """Reads a socket until its end, as soon as the event loop finds it readable.

    It is read in the loop's callback, so that the socket is not readable any more when the loop
    runs the waiting tasks; and there is one timer for all silences: an idle worker waits for both
    before it claims.

    Parameters:
        read: returns received notifications.
        ask: called after a long silence, and the server must answer; None: reading ends then.
    """

    def __init__(
        self, socket: int, read: Callable[[], Iterable[str]], ask: Callable[[], object] | None
    ) -> None:
        self._socket, self._read, self._ask = socket, read, ask
        self._loop = asyncio.get_running_loop()
        self._came: deque[str] = deque()
        self._more = asyncio.Event()
        self._end: Exception | None = None
        self._over = self._asked = False
        self._read_at = self._loop.time()

    async def payloads(self) -> AsyncGenerator[str, None]:
        """Yield received notifications; raise the errors of `read`."""
        self._loop.add_reader(self._socket, self._take)
        self._timer = self._loop.call_later(PROBE_INTERVAL, self._be_silent)
        try:
            while True:
                while self._came:
                    yield self._came.popleft()
                if self._end is not None:
                    raise self._end
                if self._over:
                    return
                self._more.clear()
                await self._more.wait()
        finally:
            self._loop.remove_reader(self._socket)
            self._timer.cancel()

    def _take(self) -> None:
        self._read_at, self._asked = self._loop.time(), False
        try:
            self._came.extend(self._read())
        except Exception as error:  # noqa: BLE001 (raised to those who wait)
            self._finish(error)
        if self._came:
            self._more.set()

    def _be_silent(self) -> None:
        """Check the connection after a long silence, and end if it does not answer."""
        left = self._read_at + PROBE_INTERVAL - self._loop.time()
        if left > 0 and not self._asked:
            self._timer = self._loop.call_later(left, self._be_silent)
        elif self._asked:
            self._finish(ConnectionError("the server does not answer any more"))
        elif self._ask is None:
            self._finish(None)
        else:
            self._asked = True
            self._timer = self._loop.call_later(PROBE_TIMEOUT, self._be_silent)
            try:
                self._ask()
            except Exception as error:  # noqa: BLE001 (raised to those who wait)
                self._finish(error)

    def _finish(self, error: Exception | None) -> None:
        self._loop.remove_reader(self._socket)
        self._end, self._over = error, True
        self._more.set()


def _arguments(url: URL) -> dict[str, Any]:
    dialect = url.get_dialect()()
    return dict(dialect.create_connect_args(url)[1])


_BY_DRIVER = {
    "postgresql+psycopg": (_connect_psycopg, _psycopg),
    "postgresql+asyncpg": (_connect_asyncpg, _asyncpg),
    "postgresql+psycopg2": (_connect_psycopg2, _psycopg2),
}
