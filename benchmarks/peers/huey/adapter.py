"""Huey on SQLite."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

from adapting import EnqueueOne, Peer, main
from huey import SqliteHuey
from huey.consumer import Consumer

WORKERS = 1


class Huey(Peer):
    name, package = "huey", "huey"
    history, retries, threads = False, True, True
    tuned_by = (
        "huey.readthedocs.io, SqliteHuey and the consumer: WAL, fsync=True (synchronous=FULL, as"
        f" Mutirão has it), results off, {WORKERS} thread, delay 0.01"
    )
    connections = str(WORKERS)
    unsettled = "SELECT count(*) FROM (SELECT 1 FROM task LIMIT 1)"

    def setup(self, url: str) -> None:
        _huey(url)

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        huey = _huey(url)
        task = _task(huey, lambda: None)
        started = time.perf_counter()
        for _ in range(jobs):
            huey.enqueue(task.s(data))
        return time.perf_counter() - started

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        huey = _huey(url)
        _task(huey, count)
        consumer = Consumer(
            huey, workers=WORKERS, periodic=False, initial_delay=0.01, max_delay=0.01
        )
        consumer.run()

    @contextmanager
    def producer(self, url: str, data: str) -> Iterator[EnqueueOne]:
        huey = _huey(url)
        task = _task(huey, lambda: None)
        yield lambda: huey.enqueue(task.s(data))


def _huey(url: str) -> SqliteHuey:
    return SqliteHuey(filename=url.removeprefix("sqlite:///"), fsync=True, results=False)


def _task(huey: SqliteHuey, count: Callable[[], None]):
    @huey.task(name="nothing")
    def nothing(data: str) -> None:
        count()

    return nothing


main(Huey())
