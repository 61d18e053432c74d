"""How far attempts have come: what handlers tell, written now and then for all of them together.

Handlers tell as often as they like, from any thread; only the last word of each attempt counts.
"""

import asyncio
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from mutirao.engine.logs import log
from mutirao.engine.outcomes import storable
from mutirao.engine.pulse import REST, Pulse
from mutirao.errors import StoreError, StoreRefused
from mutirao.job import Claim
from mutirao.ports import Store
from mutirao.records import Progress

PACE = 1.0  # seconds between two writes
MAX_NOTE = 500  # characters
MOST_TOLD = 20  # ids in one line of the log


class Told(NamedTuple):
    """What a handler tells: so many units are done, of so many in all."""

    done: float
    of: float | None
    note: str | None


def to_tell(done: float, of: float | None, note: str | None) -> Told:
    """Return what a handler tells as every database can store it: a long note is cut."""
    # Cut first: however long it is, it costs nothing.
    return Told(done, of, note and storable(note[:MAX_NOTE])[:MAX_NOTE])


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
        told = to_tell(done, of, note)
        with self._lock:
            first = not self._told
            self._told[claim.id] = Progress(claim.id, claim.run, *told)
        if first and self._loop is not None and self._something is not None:
            with suppress(RuntimeError):  # the loop is over, and a thread has not heard of it
                self._loop.call_soon_threadsafe(self._something.set)

    async def run(self, pulse: Pulse) -> None:
        """Write what is told, at once and then at most once a pace; for ever."""
        self._loop, self._something = asyncio.get_running_loop(), asyncio.Event()
        self._something.set()  # what was told before nobody has heard of
        while True:
            pulse.turn()
            with suppress(TimeoutError):
                async with asyncio.timeout(REST):
                    await self._something.wait()
            # Whether or not it is still there: another call may have written it, and a wait for
            # what is set gives no turn to anybody else.
            self._something.clear()
            await self.write()
            await asyncio.sleep(self._pace)

    async def write(self) -> None:
        """Write what was told since the last time."""
        with self._lock:
            told, self._told = self._told, {}
        if told:
            await self._write(list(told.values()))

    async def _write(self, told: list[Progress]) -> None:
        """Write what can be written: what the database refuses of one attempt is that one's."""
        try:
            await self._store.report(told)
        except StoreError as error:
            if isinstance(error, StoreRefused) and len(told) > 1:
                half = len(told) // 2
                await self._write(told[:half])
                await self._write(told[half:])
            else:
                jobs = ", ".join(str(each.job) for each in told[:MOST_TOLD])
                log.warning("the progress of jobs %s was not written: %s", jobs, error)
        except Exception:  # noqa: BLE001 (told; no loop ends by what a handler tells)
            log.exception("the progress of %s jobs was not written", len(told))
