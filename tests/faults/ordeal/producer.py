"""Enqueues jobs of every kind at a steady rate, through healthy connections, as long as it can."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

from sqlalchemy.exc import SQLAlchemyError

from mutirao import Mutirao, NewJob
from mutirao.errors import MutiraoError
from tests.faults.ordeal import app
from tests.faults.ordeal.plan import Plan

EVERY = 0.2  # seconds between two transactions
AGAIN = 0.5  # seconds between tries while the database is away
KEYS = 20
# How many of a hundred jobs are of which task.
MIX = {
    "plain": 34,
    "threaded": 10,
    "transact": 26,
    "transact_threaded": 8,
    "once": 8,
    "limited": 6,
    "replaced": 4,
    "superseded": 4,
}


class Producer:
    """A thread that enqueues until it is stopped. `failures` counts errors by class."""

    def __init__(self, plan: Plan, url: str) -> None:
        self._plan, self._url = plan, url
        # asyncpg has no synchronous form: no transactions in plain handlers.
        shares = {
            k: v for k, v in MIX.items() if (k, plan.driver) != (app.TRANSACTIONAL[1], "asyncpg")
        }
        self._tasks, self._shares = list(shares), list(shares.values())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._lock = threading.Lock()
        self._acknowledged: list[int] = []
        self.failures: Counter[str] = Counter()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present transaction."""
        self._stop.set()
        self._thread.join(60)

    def acknowledged(self, start: int = 0) -> list[int]:
        """Return the ids of jobs whose commit was confirmed, from a place in their order on."""
        with self._lock:
            return self._acknowledged[start:]

    def _run(self) -> None:
        with closing(Mutirao(self._url)) as application:
            rounds = 0
            while not self._stop.wait(EVERY):
                rounds += 1
                self._enqueue(application, list(self._jobs(rounds)))

    def _enqueue(self, application: Mutirao, jobs: list[NewJob]) -> None:
        try:
            ids = application.enqueue_many(jobs)
        except (MutiraoError, SQLAlchemyError) as away:
            self.failures[type(away).__name__] += 1
            self._stop.wait(AGAIN)
            return
        with self._lock:
            self._acknowledged += [int(id) for id in ids]

    def _jobs(self, rounds: int) -> Iterator[NewJob]:
        for task in random.choices(self._tasks, self._shares, k=round(self._plan.rate * EVERY)):
            yield _job(task)
        if rounds % round(1 / EVERY) == 0:
            for place in range(self._plan.workers):
                yield app.here.using(queue=app.queue_at(place)).job()


def _job(task: str) -> NewJob:
    key = f"{task}-{random.randrange(KEYS)}"
    if task == "replaced":
        return app.replaced.using(key=key).job()
    if task == "superseded":
        return app.superseded.using(key=key).job(kind=random.choice(("new", "kept")))
    return app.app.task_named(task).job()
