"""Polls a database for the hub: finds committed jobs that were not announced.

One read of the heads of all lanes that have waiting jobs, for the whole fleet, in place of one by
each worker. A job is announced once, with the moment at which it is due, and again, to other
workers, while it is due and nobody has taken it.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from datetime import datetime
from time import monotonic
from typing import NamedTuple

from mutirao.errors import MutiraoError
from mutirao.hub.protocol import WakeLine
from mutirao.model.jobs.job import LaneHead
from mutirao.ports import Store

log = logging.getLogger("mutirao")

EVERY = 0.2  # seconds between two looks
SHARE = 4  # pauses last at least this many times the previous look: at most a fifth of a CPU
AWAY = 2.0  # seconds between two tries while the database is away, on average
LATEST = 2.0  # seconds until the same job is announced again, at the most
LOOK_LIMIT = 2.0  # seconds that a look may take


class LookedAt(NamedTuple):
    """A database to look at: the name that its workers know it by, and a store of its own."""

    name: str
    store: Store


class _Announced(NamedTuple):
    head: tuple[datetime, int]
    again: float  # monotonic
    pause: float


class Lookout:
    """Looks at one database again and again.

    Parameters:
        watched: the database; closed at the end.
        every: seconds between two looks.
        wake: called when jobs are due.
        looks: called with `every` when looks succeed, and with None when they fail.
    """

    def __init__(
        self,
        watched: LookedAt,
        every: float,
        wake: Callable[[str, WakeLine], None],
        looks: Callable[[str, float | None], None],
    ) -> None:
        self._watched, self._every = watched, every
        self._wake, self._looks = wake, looks
        self._announced: dict[tuple[str, int], _Announced] = {}
        self._away = False

    async def run(self) -> None:
        """Look, forever."""
        try:
            while True:
                pause = await self._turn()
                await asyncio.sleep(pause)
        finally:
            await self._watched.store.close()

    async def _turn(self) -> float:
        """Look once; return the seconds until the next time."""
        began = monotonic()
        try:
            heads = await self._watched.store.lanes(None)
        except Exception as error:  # noqa: BLE001 (logged, and tried again)
            return self._failed(error)
        if self._away:
            log.warning("looking at %s again", self._watched.name)
            self._away = False
        self._looks(self._watched.name, self._every)
        self._announce(heads, monotonic())
        return max(self._every, SHARE * (monotonic() - began))

    def _failed(self, error: Exception) -> float:
        if not self._away:
            known = isinstance(error, MutiraoError)
            log.warning(
                "cannot look at %s: %s; its workers poll",
                self._watched.name,
                error,
                exc_info=None if known else error,
            )
            self._away = True
        self._looks(self._watched.name, None)
        return AWAY * random.uniform(0.5, 1.5)

    def _announce(self, heads: Iterable[LaneHead], now: float) -> None:
        """Announce each lane's first job when it is new there, and while it is due and stays."""
        before, self._announced = self._announced, {}
        for lane, due_in in heads:
            key = lane.queue, lane.priority
            sent = before.get(key)
            if sent is None or sent.head != (lane.run_at, lane.id):
                sent = _Announced((lane.run_at, lane.id), now, self._every)
            if sent.again <= now:
                self._wake(self._watched.name, WakeLine(lane.queue, lane.priority, lane.run_at))
                again = now + max(0.0, due_in) + sent.pause
                sent = _Announced(sent.head, again, min(LATEST, 2 * sent.pause))
            self._announced[key] = sent
