"""`mutirao metrics`: a program that serves the metrics of the store, until a signal stops it."""

import asyncio
import signal
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mutirao.errors import StoreUnavailable
from mutirao.log import log
from mutirao.telemetry.prometheus.http_port import HttpServer, PortReply
from mutirao.telemetry.prometheus.several_stores import SeveralStores
from mutirao.telemetry.prometheus.store_metrics import LEAST_AGE, READ_WITHIN, StoreMetrics

if TYPE_CHECKING:
    from mutirao.app import Mutirao

ANSWER_WITHIN = 60.0  # seconds that a scrape waits for a reading
LIVE = PortReply(200, "application/json", b'{"status": "ok"}')


class MetricsSource(Protocol):
    """The source of a scrape."""

    async def check(self) -> None:
        """Raise the reason why it cannot be read, now or ever."""
        ...

    async def scraped(self, accept: str = "") -> PortReply:
        """Return the answer to a scrape."""
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...


class OneStore(StoreMetrics):
    """The metrics of the application's own database and its brokers, by connections of its own."""

    def __init__(self, app: "Mutirao", least_age: float) -> None:
        self._app, own = app, app.store.clone(1, within=READ_WITHIN)
        super().__init__(own, _queues(app), least_age, app.transports)

    async def check(self) -> None:
        """Raise an error if the tables do not fit the code, or the database is unavailable."""
        await self._store.check()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._store.close()
        for transport in {id(each): each for each in self._app.transports.values()}.values():
            await transport.aclose()


def source_of(app: "Mutirao", least_age: float = LEAST_AGE) -> MetricsSource:
    """Return the metrics of the application's databases, each by its name, or of its own one."""
    if not app.lists_databases:
        return OneStore(app, least_age)

    async def listed() -> dict[str, str]:
        return await app.alisted_databases() or {}

    opened = partial(app.another_database, within=READ_WITHIN)
    return SeveralStores(listed, opened, _queues(app), least_age)


async def told_once(app: "Mutirao") -> str:
    """Return the metrics as Prometheus's text, which includes whether they could be read.

    Raises:
        MutiraoError: the tables do not fit the code, or the database is away.
    """
    source = source_of(app)
    try:
        await source.check()
        return (await source.scraped()).body.decode()
    finally:
        await source.aclose()


async def serve(app: "Mutirao", host: str, port: int, least_age: float) -> None:
    """Serve the metrics until SIGTERM or SIGINT; wait for a database that is unavailable.

    Raises:
        ConfigurationError: the port is taken.
        SchemaError: the tables do not fit the code.
    """
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopping.set)
    source = source_of(app, least_age)

    def scraped(accept: str) -> PortReply:
        """Answer, in the thread of a scrape."""
        told = asyncio.run_coroutine_threadsafe(source.scraped(accept), loop)
        return told.result(ANSWER_WITHIN)

    server = HttpServer(host, port, {"/metrics": scraped, "/livez": lambda _: LIVE}, "--port")
    try:
        await _check(source)
        server.start()
        log.info("metrics at %s/metrics", server.url)
        await stopping.wait()
    finally:
        server.stop()
        await source.aclose()


async def _check(source: MetricsSource) -> None:
    """Raise SchemaError if the tables do not fit; a database that is away may come back."""
    try:
        await source.check()
    except StoreUnavailable as error:
        log.warning("the database is away: %s", error)


def _queues(app: "Mutirao") -> set[str]:
    return {task.options.queue for task in app.tasks.values()}
