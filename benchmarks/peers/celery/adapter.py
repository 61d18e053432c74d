"""Celery with a database as its broker: Kombu's SQLAlchemy transport."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

from adapting import EnqueueOne, Peer, main
from celery import Celery
from on_mysql import connected


class CeleryPeer(Peer):
    name, package = "celery", "celery"
    history, retries, threads = False, True, False
    tuned_by = (
        "docs.celeryq.dev, Optimizing: pool solo (one process, no fork), acks_late off, no results,"
        " no events, prefetch 100; it looks every second, which this transport lets nobody change"
    )
    connections = "1"
    unsettled = """SELECT count(*) FROM (SELECT 1 FROM kombu_message WHERE visible LIMIT 1) one"""

    def setup(self, url: str) -> None:
        """Have Kombu make its tables, by a message that is taken at once."""
        with _application(url).connection_for_write() as conn, conn.SimpleQueue("celery") as queue:
            queue.put({})
            queue.get(timeout=10).ack()
        with connected(url, autocommit=True) as own, own.cursor() as cursor:
            cursor.execute("DELETE FROM kombu_message")

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        task = _application(url).tasks["nothing"]
        with task.app.producer_or_acquire() as producer:
            started = time.perf_counter()
            for _ in range(jobs):
                task.apply_async((data,), producer=producer)
            return time.perf_counter() - started

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        app = _application(url, count)
        worker = app.Worker(
            pool="solo",
            loglevel="ERROR",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            task_events=False,
        )
        worker.start()

    @contextmanager
    def producer(self, url: str, data: str) -> Iterator[EnqueueOne]:
        task = _application(url).tasks["nothing"]
        with task.app.connection_for_write() as conn, task.app.amqp.Producer(conn) as producer:
            yield lambda: task.apply_async((data,), producer=producer)


def _application(url: str, count: Callable[[], None] = lambda: None) -> Celery:
    app = Celery("peer", broker=f"sqla+{url}", set_as_current=True)
    app.conf.update(
        broker_connection_retry_on_startup=False,
        task_ignore_result=True,
        worker_prefetch_multiplier=100,
        worker_hijack_root_logger=False,
        worker_enable_remote_control=False,
    )

    @app.task(name="nothing")
    def nothing(data: str) -> None:
        count()

    app.finalize()
    return app


main(CeleryPeer())
