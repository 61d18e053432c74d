"""`mutirao metrics`: a program that serves what the store holds, until a signal stops it."""

import asyncio
import signal
from collections.abc import Iterable

from mutirao.errors import StoreUnavailable
from mutirao.log import log
from mutirao.ports import Store
from mutirao.telemetry.prometheus.http_port import HttpServer, PortReply
from mutirao.telemetry.prometheus.store_metrics import READ_WITHIN, StoreMetrics

ANSWER_WITHIN = 60.0  # seconds that a scrape waits for a reading
LIVE = PortReply(200, "application/json", b'{"status": "ok"}')


async def told_once(store: Store, queues: Iterable[str]) -> str:
    """Return what a store holds, as Prometheus's text; it says of itself whether it could be read.

    Raises:
        MutiraoError: the tables do not fit the code, or the database is away.
    """
    own = store.clone(1, within=READ_WITHIN)
    try:
        await own.check()
        return (await StoreMetrics(own, queues).scraped()).body.decode()
    finally:
        await own.close()


async def serve(
    store: Store, queues: Iterable[str], host: str, port: int, least_age: float
) -> None:
    """Serve what a store holds until SIGTERM or SIGINT; a database that is away is waited for.

    Raises:
        ConfigurationError: nobody can listen there.
        SchemaError: the tables do not fit the code.
    """
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopping.set)
    own = store.clone(1, within=READ_WITHIN)
    metrics = StoreMetrics(own, queues, least_age)

    def scraped(accept: str) -> PortReply:
        """Answer, in the thread of a scrape."""
        told = asyncio.run_coroutine_threadsafe(metrics.scraped(accept), loop)
        return told.result(ANSWER_WITHIN)

    server = HttpServer(host, port, {"/metrics": scraped, "/livez": lambda _: LIVE}, "--port")
    try:
        await _check(own)
        server.start()
        log.info("metrics at %s/metrics", server.url)
        await stopping.wait()
    finally:
        server.stop()
        await own.close()


async def _check(store: Store) -> None:
    """Raise SchemaError if the tables do not fit; a database that is away may come back."""
    try:
        await store.check()
    except StoreUnavailable as error:
        log.warning("the database is away: %s", error)
