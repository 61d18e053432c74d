"""Runs the loops of a worker: their signs of life, their retries after errors, their end.

A loop gives a sign before it sleeps or calls the store. A loop that is silent for longer than its
limit hangs in a call without a limit: only the worker itself can notice that, and end.

An error that passes is waited out, for as long as it takes. An error that does not pass by itself
is retried for a while, because the schema may be changing; then a loop that the worker cannot do
without ends, and the worker with it. A loop whose work other workers do as well continues forever.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass
from logging import DEBUG, ERROR, WARNING
from math import inf
from time import monotonic
from typing import Any, Literal

from mutirao.aio import Backoff, end_tasks, wait_for
from mutirao.errors import (
    SchemaError,
    StoreGone,
    StoreUnavailable,
    TransportError,
    TransportUnavailable,
)
from mutirao.log import log
from mutirao.ports import Store
from mutirao.ports.transport import is_for_people

MAX_REST = 5.0  # seconds that a loop may sleep without a sign; longer sleeps are split


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a worker.

    Parameters:
        alive: whether it works: it was started, has not ended, and all of its loops run.
        reason: why it does not work, in a sentence; None while it does.
        ages: for each loop, the seconds since its last turn.
        stuck: the number of slots lost to handlers that the worker has given up.
        hears: whether wake-ups reach it, of the database or of a hub; False: it polls until they
            do again; None: it only polls, or does not work.
        unmended: what a broker refuses until a person changes something, one sentence each, such as
            a queue that is not declared; the rest of the worker works.
    """

    alive: bool
    reason: str | None
    ages: dict[str, float]
    stuck: int = 0
    hears: bool | None = None
    unmended: tuple[str, ...] = ()


class LoopHealth:
    """The sign of life of one loop. `limit`: the seconds that a turn may take.

    A turn is the time between two signs. May be read from any thread.
    """

    __slots__ = ("_due", "_limit", "_turned_at", "name")

    def __init__(self, name: str, limit: float) -> None:
        self.name, self._limit = name, limit
        self.turn()

    def turn(self) -> None:
        """Give a sign of life: the next one must come within the limit."""
        self._turned_at = monotonic()
        self._due = self._turned_at + self._limit

    async def rest(self, seconds: float, stopping: asyncio.Event | None = None) -> None:
        """Sleep for `seconds`, or until the loop is to end; give signs of life meanwhile."""
        stopping = stopping or asyncio.Event()
        end = monotonic() + seconds
        while not stopping.is_set() and (left := end - monotonic()) > 0:
            await wait_for(stopping, min(left, MAX_REST))
            self.turn()

    async def until(self, event: asyncio.Event) -> None:
        """Wait until an event is set, giving signs of life meanwhile."""
        while not event.is_set():
            await wait_for(event, MAX_REST)
            self.turn()

    def age(self) -> float:
        """Return the seconds since the last turn."""
        return monotonic() - self._turned_at

    def hangs(self) -> bool:
        """Return whether the next turn is overdue."""
        return monotonic() > self._due


Once = Literal["outage", "text"]
MOST_TEXTS = 20  # warnings about different texts of one outage
REPEAT_EVERY = 60.0  # seconds after which an error that a person has to resolve is logged again


class LoopRetry:
    """Logs the errors of one loop, and computes the waits before its retries.

    Parameters:
        what: what fails, such as "cannot claim".
        back: the log message when it succeeds again, such as "claiming again".
        longest: the longest wait between two tries, in seconds.
        patience: seconds after which an error that does not pass is raised; None: never.
        who: what is unavailable meanwhile, for the log; None: a success does not log its return.
        once: which of several failures is a warning: the first one of an outage, or the first one
            of each text; None: all of them.

    What a person has to resolve is logged as an error, again each minute: refusals of a broker, or,
    with a traceback, those of the database. `unmended` is the last refusal of a broker, as long as
    no other error or success has followed.
    """

    def __init__(
        self,
        what: str,
        back: str,
        longest: float,
        patience: float | None = None,
        *,
        who: str | None = "database",
        once: Once | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._what, self._back, self._patience = what, back, patience
        self._who, self._once = who, once
        self._backoff = Backoff(longest)
        self._logged: dict[str, float] = {}  # texts of this outage's failures, and when
        self._clock = clock
        self.unmended: str | None = None
        self._since: float | None = None  # since when all errors were ones that do not pass

    @property
    def failing(self) -> bool:
        """Whether there was an error, and no success since."""
        return self._backoff.failing

    def over(self) -> None:
        """Record a success, and log it after errors."""
        if self.forget():
            who = "" if self._who is None else f"the {self._who} is back; "
            log.warning("%s%s", who, self._back)

    def forget(self) -> bool:
        """Record a success; return whether there had been errors."""
        self._since = self.unmended = None
        self._logged.clear()
        return self._backoff.reset()

    def met(self, error: Exception) -> float:
        """Log an error, and return the seconds to wait before the next try.

        Raises:
            Exception: the error, if it does not pass.
        """
        if isinstance(error, StoreGone | SchemaError):
            raise error
        broken = is_for_people(error)
        passes = isinstance(error, StoreUnavailable | TransportUnavailable)
        self.unmended = f"{self._what}: {error}" if broken else None
        known = self._was_logged(str(error), REPEAT_EVERY if broken else inf)
        level = DEBUG if known else WARNING if passes and not broken else ERROR
        wait = self._backoff.next()
        if passes or isinstance(error, TransportError):  # a broker's: a person resolves it
            self._since = None
            then = "trying again" if self._once else f"again in {wait:.1f} s"
            log.say(level, "%s: %s; %s", self._what, error, then)
            return wait
        self._lose_patience(error)
        level = DEBUG if self._was_lately(str(error), REPEAT_EVERY) else ERROR
        log.say(level, "%s; again in %.1f s", self._what, wait, exc_info=error)
        return wait

    def _was_logged(self, text: str, again_after: float) -> bool:
        """Return whether this outage has logged such a failure lately; remember this one."""
        if self._once is None:
            return False
        return self._was_lately(text if self._once == "text" else "", again_after)

    def _was_lately(self, what: str, again_after: float) -> bool:
        now, before = self._clock(), self._logged.get(what)
        if before is None and len(self._logged) == MOST_TEXTS:
            return True
        if before is not None and now - before < again_after:
            return True
        self._logged[what] = now
        return False

    def _lose_patience(self, error: Exception) -> None:
        now = monotonic()
        if self._since is None:
            self._since = now
        elif self._patience is not None and now - self._since > self._patience:
            raise error


async def forever(
    body: Callable[[], Awaitable[float]],
    pulse: LoopHealth,
    retry: LoopRetry,
    *,
    after: float = 0.0,
    stopping: asyncio.Event | None = None,
    waits_out: type[Exception] = Exception,
) -> None:
    """Call `body` again and again, with a sign of life before each turn; retry after errors.

    Parameters:
        body: one turn; returns the seconds until the next one.
        after: seconds until the first one.
        stopping: ends the loop, once it is set.
        waits_out: the errors that are retried; others end the loop.

    Raises:
        Exception: an error that does not pass, see `LoopRetry.met`.
    """
    await pulse.rest(after, stopping)
    while stopping is None or not stopping.is_set():
        pulse.turn()
        try:
            wait = await body()
            retry.over()
        except waits_out as error:
            wait = retry.met(error)
        await pulse.rest(wait, stopping)


OPTIONAL_WRITES_LIMIT = 1.0  # seconds to write what is not essential, however short the grace is


async def within(
    store: Store, seconds: float, what: str, step: Coroutine[Any, Any, object]
) -> bool:
    """Run a step of stopping without delaying the others; return whether it succeeded."""
    task = asyncio.create_task(step)
    if not (await asyncio.wait((task,), timeout=seconds))[0]:
        store.cut()
        await asyncio.wait((task,), timeout=OPTIONAL_WRITES_LIMIT)
    if not task.done():
        task.cancel()
        log.warning("could not %s within %g s", what, seconds)
        return False
    if task.cancelled() or (error := task.exception()) is not None:
        log.warning("could not %s: %s", what, "cancelled" if task.cancelled() else error)
        return False
    return True


OnFailed = Callable[[str, BaseException], None]


class Loops:
    """The loops of one worker, by name.

    Parameters:
        turn_limit: the seconds that a turn may take, unless a loop is given more.
        on_failed: called with a task's name and what it raised.
    """

    def __init__(self, turn_limit: float, on_failed: OnFailed) -> None:
        self._turn_limit, self._on_failed = turn_limit, on_failed
        self._pulses: dict[str, LoopHealth] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def pulses(self) -> list[LoopHealth]:
        """Return the signs of life of those that have not ended.

        While a worker stops, what it runs may take longer than any turn: `grace` is the limit.
        """
        return [pulse for name, pulse in list(self._pulses.items()) if not self._has_ended(name)]

    def _has_ended(self, name: str) -> bool:
        task = self._tasks.get(name)
        return task is not None and task.done()

    def pulse(self, name: str, limit: float = 0.0) -> LoopHealth:
        """Return a new sign of life for the loop of this name."""
        return self.watch(LoopHealth(name, max(self._turn_limit, limit)))

    def watch(self, pulse: LoopHealth) -> LoopHealth:
        """Watch a sign of life that another part gives; return it."""
        self._pulses[pulse.name] = pulse
        return pulse

    def spawn(self, name: str, loop: Coroutine[Any, Any, None]) -> None:
        """Start a loop."""
        if name in self._pulses:
            self._pulses[name].turn()
        task = self._tasks[name] = asyncio.create_task(loop, name=f"mutirao-{name}")
        task.add_done_callback(self._ended)

    async def ends(self, names: Collection[str], seconds: float) -> int:
        """Wait for loops to end, up to a limit; return how many have not."""
        _, running = await asyncio.wait([self._tasks[each] for each in names], timeout=seconds)
        return len(running)

    async def ends_unless(
        self, names: Collection[str], seconds: float, hurried: asyncio.Event
    ) -> int:
        """Wait as `ends` does, and no longer once `hurried` is set."""
        ends = asyncio.ensure_future(self.ends(names, seconds))
        hurry = asyncio.ensure_future(hurried.wait())
        await asyncio.wait((ends, hurry), return_when=asyncio.FIRST_COMPLETED)
        for each in (ends, hurry):
            each.cancel()
        return await self.ends(names, 0)

    async def cancel(self) -> None:
        """End all of them."""
        await end_tasks(*self._tasks.values())
        self._tasks.clear()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failed(task.get_name(), error)
