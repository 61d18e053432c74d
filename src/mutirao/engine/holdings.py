"""What the tables say that a worker holds, compared with what it knows of.

A claim's commit may have happened though its answer never came, or under an id that was gone:
whoever rescued that worker's jobs could not see those. Nobody else would give them back while the
worker lives.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic
from typing import NamedTuple

from mutirao.engine.dispatcher import Dispatcher
from mutirao.engine.logs import log
from mutirao.engine.pulse import REST, Pulse
from mutirao.engine.trouble import Trouble
from mutirao.errors import WorkerGone
from mutirao.ports import Store

SHARE = 5  # what is held is asked again after so many times the time that it took in vain
# It is asked again so many seconds after it was in doubt: a server that was not told that its
# client has gone may commit a claim when the lock it waits for is free.
LATER_LOOKS = (10.0, 60.0, 600.0)

Runs = Collection[tuple[int, int]]  # of jobs: (id, run)


class Former(NamedTuple):
    """An id that this worker had before it was taken for gone, and what it had begun under it."""

    id: int
    begun: Runs


class Holdings:
    """Gives back what one worker holds without knowing.

    Parameters:
        worker: returns its id.
        between_claims: lent while no claim is under way, the jobs of all that were known.
        longest: the longest wait between two tries, in seconds.
    """

    def __init__(
        self,
        store: Store,
        worker: Callable[[], int],
        dispatcher: Dispatcher,
        between_claims: asyncio.Lock,
        longest: float,
    ) -> None:
        self._store, self._worker, self._dispatcher = store, worker, dispatcher
        self._between_claims, self._longest = between_claims, longest
        self._loop = asyncio.get_running_loop()
        self._something = asyncio.Event()
        self._unsure = False  # whether the answer to a claim or a release was lost
        self._looks: list[float] = []  # monotonic: when to ask again after it was answered
        self._former: list[Former] = []

    def doubt(self) -> None:
        """Have what is held looked at. May be called from any thread."""
        self._unsure = True
        self._loop.call_soon_threadsafe(self._something.set)

    def reborn(self, former: int, begun: Runs) -> None:
        """Have what was held under another id looked at; `begun`: the attempts begun under it."""
        self._former.append(Former(former, begun))
        self._something.set()

    @contextmanager
    def unsure_unless_answered(self) -> Iterator[None]:
        """Doubt what is held if a call that changes it is not answered."""
        try:
            yield
        except WorkerGone:  # nothing was claimed
            raise
        except BaseException:
            self.doubt()
            raise

    async def run(self, pulse: Pulse) -> None:
        """Look when there is doubt, for ever; not on the way of claims, as it may take long."""
        trouble = Trouble("cannot ask what is held", "what is held is known", self._longest)
        while True:
            await self._wait(pulse)
            started = monotonic()
            try:
                await self._look()
                trouble.over()
            except Exception as error:  # noqa: BLE001 (raised where it does not pass)
                self._unsure = True
                longer = min(self._longest, SHARE * (monotonic() - started))
                await pulse.rest(max(longer, trouble.met(error)))

    async def _wait(self, pulse: Pulse) -> None:
        pulse.turn()
        while not (self._unsure or self._former):
            next_look = self._looks[0] - monotonic() if self._looks else inf
            if next_look <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(min(next_look, REST)):
                    await self._something.wait()
            self._something.clear()
            pulse.turn()

    async def _look(self) -> None:
        """Give back what is not known, now and, as it may have yet to be committed, later again."""
        now = monotonic()
        due = (now + later for later in LATER_LOOKS) if self._unsure else self._looks
        self._unsure, self._looks = False, [at for at in due if at > now]
        await self._give_back()
        while self._former:
            await self._give_back_of(self._former[-1])
            self._former.pop()

    async def _give_back(self) -> None:
        held = await self._store.held(self._worker())
        async with self._between_claims:  # whose jobs were held, and not known yet
            known = self._dispatcher.holds()
        if unknown := [job for job in held if job not in known]:
            log.warning("giving back %s jobs whose claim was cut off", len(unknown))
            await self._store.release(unknown)

    async def _give_back_of(self, former: Former) -> None:
        """What was begun leaves an attempt; what was not costs none."""
        held = await self._store.held(former.id)
        async with self._between_claims:
            left = set(held) - self._dispatcher.unsettled()
        if begun := sorted(left.intersection(former.begun)):
            log.warning("%s attempts begun by worker %s are lost", len(begun), former.id)
            await self._store.lose(begun)
        if unknown := sorted(left.difference(former.begun)):
            log.warning("giving back %s jobs that worker %s had claimed", len(unknown), former.id)
            await self._store.release(unknown)
