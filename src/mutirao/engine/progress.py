"""How far attempts have come: what handlers tell, written now and then for all of them together.

Handlers tell as often as they like, from any thread; only the last word of each attempt counts.
"""

import asyncio
import logging
from contextlib import suppress
from threading import Lock

from mutirao.errors import StoreUnavailable
from mutirao.job import Claim
from mutirao.ports import Store
from mutirao.records import Progress

log = logging.getLogger("mutirao")

PACE = 1.0  # seconds between two writes
MAX_NOTE = 500  # characters


class Board:
    """The last words of the attempts of one worker. Costs nothing while nobody tells anything."""

    def __init__(self, store: Store, pace: float = PACE) -> None:
        self._store, self._pace = store, pace
        self._told: dict[int, Progress] = {}
        self._lock = Lock()
        self._something: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def tell(self, claim: Claim, done: float, of: float | None, note: str | None) -> None:
        """Note how far an attempt has come. May be called from any thread."""
        short = None if note is None else note.replace("\x00", " ")[:MAX_NOTE]
        with self._lock:
            first = not self._told
            self._told[claim.id] = Progress(claim.id, claim.run, done, of, short)
        if first and self._loop is not None and self._something is not None:
            with suppress(RuntimeError):  # the loop is over, and a thread has not heard of it
                self._loop.call_soon_threadsafe(self._something.set)

    async def run(self) -> None:
        """Write what is told, at once and then at most once a pace; for ever."""
        self._loop, self._something = asyncio.get_running_loop(), asyncio.Event()
        while True:
            if not self._told:
                await self._something.wait()
            self._something.clear()
            await self.write()
            await asyncio.sleep(self._pace)

    async def write(self) -> None:
        """Write what was told since the last time."""
        with self._lock:
            told, self._told = self._told, {}
        if not told:
            return
        try:
            await self._store.report(told.values())
        except StoreUnavailable as gone:
            log.warning("the progress of %s jobs was not written: %s", len(told), gone)
