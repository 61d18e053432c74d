"""Serves several databases in one process: a `Worker` for each, which share the slots.

The provider of the list is called again and again, so that databases can come and go. A database
that is unavailable, or that cannot be served, waits by itself and delays no other.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from inspect import isawaitable
from math import inf
from typing import Any

from mutirao.aio import Backoff, end_tasks, first_of
from mutirao.engine.calls.threads import Threads
from mutirao.engine.loops import MAX_REST, Health, LoopHealth
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.workers.database import Worker
from mutirao.engine.workers.lifecycle import Service
from mutirao.engine.workers.shared_slots import SharedSlots
from mutirao.errors import (
    ConfigurationError,
    HandlersCannotStart,
    MutiraoError,
    StoreUnavailable,
    WorkerFailed,
    WorkerStuck,
)
from mutirao.log import log, naming, serve

PROVIDER_LIMIT = 60.0  # seconds that the provider may take
BEATS_BETWEEN_TRIES = 6  # heartbeats after which a database that could not be served is tried again

Make = Callable[[str, SharedSlots], Worker]  # makes the worker of the database with this identity


class Fleet(Service):
    """Runs the workers of several databases in the running event loop.

    Parameters:
        provider: lists the databases; called in a thread, or awaited.
        named: returns, for an answer of the provider, the identity of each database, which is never
            shown, and its name, which is; raises ConfigurationError if the answer is no list of
            databases.
        make: makes the worker of one.
        check: raises if the application itself cannot be served.
    """

    def __init__(
        self,
        provider: Callable[[], Any],
        named: Callable[[Any], Mapping[str, str]],
        make: Make,
        settings: WorkerSettings,
        check: Callable[[], None],
    ) -> None:
        super().__init__(settings, SharedSlots(settings))
        self._provider, self._named, self._check = provider, named, check
        self._make = make
        self._asking = Threads()
        self._members: dict[str, _Member] = {}
        self._resources = ExitStack()
        self._pulse = LoopHealth("databases", PROVIDER_LIMIT + MAX_REST + settings.turn_limit)
        self._looking: asyncio.Task[None] | None = None
        self._said = ""  # the last logged problem with the list
        self._serves_none = False

    async def _start(self) -> None:
        """Ask for the list of databases, and begin to serve each.

        Raises:
            ConfigurationError: there is no valid list, or a task cannot work with its options.
            WorkerFailed: the provider has raised an error, or has not answered in time.
        """
        self._check()
        try:
            listed = await self._listed()
        except MutiraoError:
            raise
        except Exception as error:
            log.debug("the list of databases", exc_info=error)
            raise WorkerFailed(
                f"the function that lists the databases failed: {type(error).__name__}: {error}."
                " A worker starts once it returns URLs; the log level debug shows where it failed"
            ) from error
        self._resources.enter_context(naming())
        log.info("serving %s databases", len(listed))
        self._warn_of_none(listed)
        self._follow(listed)
        self._looking = asyncio.create_task(self._look(), name="mutirao-databases")
        self._looking.add_done_callback(self._look_ended)

    async def first_claim(self) -> None:
        """Wait until each database has been claimed from, or is known to be unavailable."""
        await asyncio.gather(*(each.first.wait() for each in self._members.values()))

    def stop_claiming(self) -> None:
        """Stop claiming and starting jobs; `stop` does the rest."""
        for each in self._members.values():
            each.stop_claiming()

    def end_grace(self) -> None:
        """End the grace period now: running handlers get no more time."""
        for each in self._members.values():
            each.end_grace()

    def health(self) -> Health:
        """Return whether it serves, and if not, why. May be called from any thread.

        `ages` has the oldest turn of each loop of the workers.
        """
        health = super().health()
        for each in [each.health() for each in list(self._members.values())]:
            for name, age in each.items():
                health.ages[name] = max(age, health.ages.get(name, 0.0))
        return health

    def _pulses(self) -> Sequence[LoopHealth]:
        return [self._pulse]

    def _beat_age(self) -> float | None:
        ages = [each.beat_age() for each in list(self._members.values())]
        return max((age for age in ages if age is not None), default=None)

    async def _look(self) -> None:
        """Ask for the list every heartbeat, forever."""
        while True:
            await self._pulse.rest(self.settings.heartbeat)
            try:
                listed = await self._listed()
            except Exception as error:  # noqa: BLE001 (logged; those that are known are served on)
                self._say(f"{type(error).__name__}: {error}", error)
                continue
            self._warn_of_none(listed)
            if self._said:
                log.warning("the list of databases can be read again")
                self._said = ""
            self._follow(listed)

    def _warn_of_none(self, listed: Mapping[str, str]) -> None:
        """Log once that nothing is served, each time the list becomes empty."""
        if not listed and not self._serves_none:
            log.warning("the list of databases is empty: no job runs until it names one")
        self._serves_none = not listed

    async def _listed(self) -> Mapping[str, str]:
        if self._asking.stuck:
            raise WorkerFailed("the function that lists the databases has not answered yet")
        limit = asyncio.timeout(PROVIDER_LIMIT)
        try:
            async with limit:
                answer = await self._asking.run(self._provider)
                return self._named(await answer if isawaitable(answer) else answer)
        except TimeoutError:
            if not limit.expired():
                raise
            waited = f"has not answered within {PROVIDER_LIMIT:.0f} s"
            raise WorkerFailed(f"the function that lists the databases {waited}") from None

    def _say(self, text: str, error: Exception) -> None:
        if text == self._said:
            return
        self._said = text
        trace = None if isinstance(error, ConfigurationError | WorkerFailed) else error
        log.error("the list of databases stays as it is: %s", text, exc_info=trace)

    def _follow(self, listed: Mapping[str, str]) -> None:
        """Begin to serve new databases, and drain those that are not listed any more."""
        for key, member in list(self._members.items()):
            if key not in listed:
                member.leave()
        for key in listed.keys() - self._members.keys():
            make = partial(self._make, key, self._shared)
            member = self._members[key] = _Member(listed[key], make, self.settings, self._fail)
            member.on_blocked = self._lose_loop
            task = member.task = asyncio.create_task(member.run(), name="mutirao-database")
            task.add_done_callback(partial(self._left, key))

    def _left(self, key: str, task: asyncio.Task[None]) -> None:
        self._members.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _look_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def _stop(self, grace: float) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))
        if members := list(self._members.values()):
            await asyncio.gather(*(each.stop(grace) for each in members), return_exceptions=True)
        self._shared.close()
        self._asking.close()
        self._resources.close()


class _Member:
    """One database while it is listed: its worker, and a new one after that has ended."""

    def __init__(
        self,
        name: str,
        make: Callable[[], Worker],
        settings: WorkerSettings,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._name, self._make, self._settings, self._fail = name, make, settings, fail
        self._worker: Worker | None = None
        self._left = asyncio.Event()  # not listed any more, or the process stops
        self._said = ""  # the last logged problem
        self._backoff = Backoff(settings.longest_wait)
        self.first = asyncio.Event()  # it has claimed, or cannot
        self.task: asyncio.Task[None] | None = None
        self.on_blocked: Callable[[], None] | None = None

    def leave(self) -> None:
        """Claim no more, let running jobs end, and sign off."""
        if not self._left.is_set():
            self._left.set()
            self.stop_claiming()

    async def stop(self, grace: float) -> None:
        """End within the grace period."""
        self.leave()
        if self.task is not None:
            await asyncio.wait((self.task,), timeout=grace)
            self.end_grace()
            await asyncio.wait((self.task,))

    def stop_claiming(self) -> None:
        """Stop claiming and starting jobs."""
        if self._worker is not None:
            self._worker.stop_claiming()

    def end_grace(self) -> None:
        """Interrupt running handlers."""
        if self._worker is not None:
            self._worker.end_grace()

    def health(self) -> Mapping[str, float]:
        """Return the seconds since the last turn of each loop."""
        worker = self._worker
        return {} if worker is None else worker.health().ages

    def beat_age(self) -> float | None:
        """Return the seconds since its last heartbeat; None: it is not served."""
        worker = self._worker
        return None if worker is None else worker.load().beat_age

    async def run(self) -> None:
        """Serve until the database is not listed any more."""
        serve(self._name)
        while not self._left.is_set():
            wait = await self._serve()
            self._worker = None
            self.first.set()
            if not self._left.is_set():
                await first_of(self._left, seconds=wait)
        log.info("%s is not served any more", self._name)

    async def _serve(self) -> float:
        """Run a worker until it ends or is left; return the seconds to wait for the next one."""
        try:
            worker = self._make()
            worker.on_blocked = self.on_blocked
            if not await self._starts(worker):
                return 0.0
        except Exception as error:  # noqa: BLE001 (logged; others are served)
            return self._trouble(error)
        self._worker = worker
        self._well()
        claiming = asyncio.create_task(self._claims(worker))
        await first_of(worker.ended, self._left)
        claiming.cancel()
        await worker.stop(grace=inf)
        if isinstance(worker.failure, WorkerStuck | HandlersCannotStart):  # of the process
            self._fail(worker.failure)
        return 0.0 if worker.failure is None else self._trouble(worker.failure)

    async def _starts(self, worker: Worker) -> bool:
        """Start a worker unless its database is left meanwhile; return whether it has started."""
        starting = asyncio.create_task(worker.start())
        leaving = asyncio.create_task(self._left.wait())
        await asyncio.wait((starting, leaving), return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        await end_tasks(starting)
        if starting.cancelled():
            return False
        starting.result()
        return True

    async def _claims(self, worker: Worker) -> None:
        await worker.first_claim()
        self.first.set()

    def _well(self) -> None:
        self._backoff.reset()
        if self._said:
            log.warning("%s is served again", self._name)
            self._said = ""

    def _trouble(self, error: BaseException) -> float:
        """Log once what is wrong with the database; return the seconds until the next try."""
        text = f"{type(error).__name__}: {error}"
        if text != self._said:
            self._said = text
            log.error("%s cannot be served, others are: %s", self._name, text)
        if isinstance(error, StoreUnavailable):
            return self._backoff.next()
        return BEATS_BETWEEN_TRIES * self._settings.heartbeat
