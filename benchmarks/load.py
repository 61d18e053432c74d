"""The application that benchmarks run: handlers that do nothing but say that they ran."""

import random
import string
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle, islice
from typing import Any

from sqlalchemy import text

from benchmarks import effects
from mutirao.app import Mutirao
from mutirao.model.jobs.job import DEFAULT_QUEUE, Job, NewJob
from mutirao.ports import Transport
from mutirao.tasks.task import Task

PREFIX = "mutirao.bench."  # of the names of all tasks here: it tells our jobs from others'
SERVED = "MUTIRAO_BENCH_SERVED"  # the variable that tells `serving` its database
PAYLOAD = 60  # bytes
_EFFECT = text(effects.INSERT)
_FRAME = len('{"payload":""}')


def _nobody(number: int | None = None) -> None:
    pass


class Load:
    """An application with the benchmarks' tasks.

    Parameters:
        url: the database that holds the jobs.
        done: called by every handler, with the number that `numbered` was enqueued with, if any.
        transports: the brokers of queues, by queue.
    """

    def __init__(
        self,
        url: str,
        done: Callable[[int | None], None] = _nobody,
        transports: Mapping[str, Transport] | None = None,
    ) -> None:
        self.app = Mutirao(url, transports=transports or {})
        self._done = done
        self.coroutine = self._task(self._coroutine)
        self.plain = self._task(self._plain)
        self.numbered = self._task(self._numbered)
        self.keyed = self._task(self._keyed)
        self.fair = self._task(self._fair, fair_by="tenant")
        self.branch = self._task(self._branch)
        self.effect = self._task(self._effect)
        self.effect_plainly = self._task(self._effect_plainly)
        self.effect_by_driver = self._task(self._effect_by_driver)
        self.effect_plainly_by_driver = self._task(self._effect_plainly_by_driver)
        self.called = self._task(self._called)

    def jobs(self, count: int, payload: int = PAYLOAD, *, plain: bool = False) -> Iterator[NewJob]:
        """Yield so many jobs that do nothing, with `payload` bytes of arguments each."""
        task = self.plain if plain else self.coroutine
        job = task.job(payload=filling(payload))
        return (job for _ in range(count))

    def spread(
        self, count: int, queues: int, priorities: int, delay: float | None = None
    ) -> Iterator[NewJob]:
        """Yield jobs for one lane after another, due `delay` seconds from now.

        One queue and one priority are the default ones.
        """
        names = [DEFAULT_QUEUE] if queues == 1 else [f"bench{n}" for n in range(queues)]
        lanes = [
            self.coroutine.using(queue=name, priority=priority, delay=delay).job(filling(PAYLOAD))
            for priority in range(priorities)
            for name in names
        ]
        return islice(cycle(lanes), count)

    async def _coroutine(self, payload: str = "") -> None:
        self._done(None)

    def _plain(self, payload: str = "") -> None:
        self._done(None)

    async def _numbered(self, number: int) -> None:
        self._done(number)

    async def _keyed(self, key: int) -> None:
        self._done(None)

    async def _fair(self, tenant: int, number: int | None = None) -> None:
        self._done(number)

    async def _branch(self, job: Job, children: int) -> None:
        """Enqueue children and be done, in one commit."""
        async with job.transaction() as session:
            await self.app.aenqueue_many(self.jobs(children), conn=session)
        self._done(None)

    async def _effect(self, job: Job) -> None:
        """Write a row and be done, in one commit."""
        async with job.transaction() as session:
            await session.execute(_EFFECT)
        self._done(None)

    def _effect_plainly(self, job: Job) -> None:
        with job.transaction() as session:
            session.execute(_EFFECT)
        self._done(None)

    async def _effect_by_driver(self, job: Job) -> None:
        async with job.transaction(connection=True) as own:
            if hasattr(own, "execute"):
                await own.execute(effects.INSERT)
            else:  # MySQL's drivers have cursors only
                async with own.cursor() as cursor:
                    await cursor.execute(effects.INSERT)
        self._done(None)

    def _effect_plainly_by_driver(self, job: Job) -> None:
        with job.transaction(connection=True) as own:
            (own if hasattr(own, "execute") else own.cursor()).execute(effects.INSERT)
        self._done(None)

    async def _called(self, order: int, email: str, total: float, paid: bool) -> None:
        """Take four arguments, as jobs of people do."""
        self._done(None)

    def _task(self, function: Callable[..., Any], fair_by: str | None = None) -> Task[..., Any]:
        name = PREFIX + function.__name__.lstrip("_")
        return self.app.task(name=name, fair_by=fair_by)(function)


def filling(payload: int) -> str:
    """Return text that makes a job's arguments `payload` bytes of JSON, if it is not too few.

    It does not compress: the database would store something smaller otherwise.
    """
    size = max(0, payload - _FRAME)
    return "".join(random.Random(size).choices(string.ascii_letters + string.digits, k=size))
