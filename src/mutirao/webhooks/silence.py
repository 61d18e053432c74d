"""Detects that an endpoint is silent, long before its timeouts and its breaker.

An endpoint that has answered gets up to fifty deliveries at once. When it falls silent, each
delivery holds a slot until its timeout. The sender therefore monitors each endpoint: after silence
of several times its usual answer time it gets few deliveries again, until it answers, and those
that wait for it leave their slots to others.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from mutirao.errors import StoreError

LOOK_EVERY = 0.5  # seconds
TIMES = 5.0  # its usual time, after which it is silent
LEAST = 2.0  # seconds; also for one of which nothing is known yet
NEWEST_WEIGHT = 0.1  # of the newest answer's time in the running mean
MOST_KNOWN = 10_000  # endpoints that are remembered

log = logging.getLogger("mutirao")


@dataclass(eq=False, slots=True)
class _Waiting:
    """An attempt that runs: `on_wait` reports that it only waits, `lend` leaves its slot."""

    on_wait: Callable[[], None]
    lend: Callable[[], None]
    lent: bool = False  # its slot is left to others


@dataclass(slots=True)
class _Heard:
    """The state of an endpoint: its attempts, and when it last answered, or was first called."""

    going_on: set[_Waiting] = field(default_factory=set)
    at: float = 0.0
    usual: float = 0.0
    doubted: bool = False


class SilenceDetector:
    """Watches attempts that are going on, and reports each endpoint that falls silent once.

    Parameters:
        doubt: called with its id; may raise StoreError, and is called again then.
        most: how many attempts may go on without a slot, at the same time.
        clock: seconds of a clock that does not jump.
    """

    def __init__(
        self,
        doubt: Callable[[str], Awaitable[None]],
        most: int,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._doubt, self._most, self._clock = doubt, most, clock
        self._lent = 0
        self._heard: dict[str, _Heard] = {}
        self._watching: asyncio.Task[None] | None = None

    @contextmanager
    def during(
        self, endpoint: str, on_wait: Callable[[], None], lend: Callable[[], None]
    ) -> Iterator[Callable[[], None]]:
        """Count an attempt as going on; yields a function to call when the endpoint has answered.

        Parameters:
            on_wait: called, perhaps several times, if the attempt only waits for a silent endpoint.
            lend: called then, too, unless `most` are: leaves the attempt's slot to others.
        """
        started, heard, mine = self._clock(), self._of(endpoint), _Waiting(on_wait, lend)
        if not heard.going_on:
            heard.at = started
        heard.going_on.add(mine)
        if heard.doubted:
            self._only_waits(mine)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch())

        def answered() -> None:
            heard.at = self._clock()
            took = heard.at - started
            heard.usual += (took - heard.usual) * (NEWEST_WEIGHT if heard.usual else 1.0)
            heard.doubted = False

        try:
            yield answered
        finally:
            heard.going_on.remove(mine)
            self._lent -= mine.lent

    async def look(self) -> None:
        """Report those that are silent now."""
        now = self._clock()
        for id, heard in list(self._heard.items()):
            waited = now - heard.at if heard.going_on else 0.0
            if not heard.doubted and waited > max(LEAST, TIMES * heard.usual):
                heard.doubted = True
                for each in [*heard.going_on]:  # in whose slots others may start
                    self._only_waits(each)
                await self._report(id, heard)

    async def aclose(self) -> None:
        """Stop watching."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def _only_waits(self, waiting: _Waiting) -> None:
        waiting.on_wait()
        if not waiting.lent and self._lent < self._most:
            waiting.lent = True
            self._lent += 1
            waiting.lend()

    def _of(self, endpoint: str) -> _Heard:
        found = self._heard.get(endpoint)
        if found is None:
            if len(self._heard) >= MOST_KNOWN:
                self._heard = {id: each for id, each in self._heard.items() if each.going_on}
            found = self._heard[endpoint] = _Heard()
        return found

    async def _watch(self) -> None:
        while any(heard.going_on for heard in self._heard.values()):
            await asyncio.sleep(LOOK_EVERY)
            await self.look()

    async def _report(self, id: str, heard: _Heard) -> None:
        try:
            await self._doubt(id)
        except StoreError as error:
            heard.doubted = False
            log.warning("cannot lower the limit of endpoint %s, which is silent: %s", id, error)
