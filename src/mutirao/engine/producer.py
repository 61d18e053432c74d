"""Claims jobs for one worker: when there is room, what is due; otherwise it sleeps lightly.

It sleeps until the earliest job it knows of is due, a wake-up, or the poll interval, whichever
comes first. Only while it sleeps does it ask to be notified: NOTIFY makes all commits of a
database queue up, so a busy worker spares everybody that.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from math import inf
from time import monotonic

from mutirao.engine.attention import GLANCE, Attention
from mutirao.engine.backoff import Backoff
from mutirao.engine.dispatcher import Dispatcher
from mutirao.engine.lanes import LaneBook
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import StoreUnavailable
from mutirao.fair import lanes_of
from mutirao.job import Claim, Outcome, Wake
from mutirao.limit import Claimed
from mutirao.ports import Notifier, Store

log = logging.getLogger("mutirao")

DOUBT_SHARE = 5  # what is held is asked again after so many times the time that it took in vain
LONGEST_DOUBT = 60.0  # seconds
# What is held is asked again so many seconds after it was in doubt: a server that was not told that
# its client has gone may commit a claim when the lock it waits for is free.
LATER_LOOKS = (10.0, 60.0, 600.0)
FIRST_WORD = 1.0  # seconds that a worker waits for its listener before it claims
REFRESH_SHARE = 50  # the heads are read again after so many times the time that took: ≤ 2 %


class Producer:
    """The claiming loop and the listening loop of one worker."""

    def __init__(
        self,
        store: Store,
        notifier: Notifier | None,
        settings: WorkerSettings,
        known: Container[str],
        worker: Callable[[], int],
        dispatcher: Dispatcher,
    ) -> None:
        self._store, self._notifier, self._settings = store, notifier, settings
        self._known, self._worker, self._dispatcher = known, worker, dispatcher
        queues = settings.queues
        self._lanes = LaneBook(None if queues is None else frozenset(lanes_of(queues)))
        self._unknown: set[str] = set()
        self._woken = asyncio.Event()
        self._refresh_at = 0.0  # monotonic
        self._may_refresh_at = 0.0  # likewise
        self._guessing = False  # whether claims have made the heads old
        self._listening = True  # as registered
        self._attention = Attention(monotonic())
        self._unsure = False  # whether the answer to a claim or a release was lost
        self._held_at = 0.0  # monotonic: when to ask again what is held, if that failed
        self._looks: list[float] = []  # monotonic: when to ask again after it was answered
        self._doubts = Backoff()
        self._former: list[int] = []  # ids of this worker that are gone
        self._stopping = False

    async def run(self) -> None:
        """Claim until stopped; a database that is away is waited for."""
        if self._notifier is not None:
            # The heads have to be read after it listens, and once is enough: where a snapshot keeps
            # 600,000 dead rows that takes 0.1 to 0.2 s.
            await self._sleep(FIRST_WORD)
        backoff = Backoff()
        while not self._stopping:
            try:
                await self._turn()
                if backoff.reset():
                    log.warning("the database is back; claiming again")
            except StoreUnavailable as gone:
                self._refresh_at = 0.0
                wait = backoff.next()
                log.warning("cannot claim: %s; again in %.1f s", gone, wait)
                await self._sleep(wait)

    async def listen(self) -> None:
        """Pass the notifier's wake-ups on, for ever; listen again when that breaks."""
        backoff = Backoff()
        while self._notifier is not None:
            try:
                async for wake in self._notifier.listen():
                    if backoff.reset():
                        log.warning("the database is back; listening again")
                    self.wake(wake)
            except StoreUnavailable as gone:
                wait = backoff.next()
                log.warning("cannot listen: %s; again in %.1f s, polling goes on", gone, wait)
                self._woken.set()  # it need not be waited for
                await asyncio.sleep(wait)

    def stop(self) -> None:
        """Let `run` end after its present claim."""
        self._stopping = True
        self._woken.set()
        self._dispatcher.changed.set()

    def doubt(self) -> None:
        """Have the next turn compare what the tables say we hold with what we know of."""
        self._unsure = True

    def wake(self, wake: Wake) -> None:
        """Look for jobs now: in the lane that was named, or everywhere."""
        # Another machine's clock may differ; then the poll finds the job.
        ahead = 0.0 if wake.run_at is None else (wake.run_at - datetime.now(UTC)).total_seconds()
        if not self._lanes.wake(wake, monotonic(), ahead):
            self._refresh_at = 0.0
        self._woken.set()

    def expect(self, claim: Claim, outcome: Outcome) -> None:
        """Note that a job of this worker waits for its next attempt, which `outcome` asks for."""
        if outcome.at is None:
            due_at = monotonic() + (outcome.after or 0.0)
            self._lanes.expect(claim.lane, claim.priority, due_at)
            self._woken.set()
        else:
            self.wake(Wake(claim.lane, claim.priority, outcome.at))

    def reborn(self, former: int) -> None:
        """Start afresh under a new worker id, which is registered as listening."""
        self._former.append(former)
        self._listening, self._refresh_at = True, 0.0
        self._woken.set()
        self._dispatcher.changed.set()

    async def _turn(self) -> None:
        if self._doubted_in() <= 0:
            await self._give_back_unknown()
        await self._give_back_stalled()
        wanted = self._dispatcher.wanted()
        if not wanted:
            await self._wait_for_room()
            return
        claims = await self._claim(wanted)
        if not claims:
            await self._rest()
            return
        self._attention.took(len(claims), monotonic())
        self._dispatcher.feed(await self._only_known(claims))
        if self._listening and self._attention.busy(monotonic()):
            await self._store.listen(self._worker(), False)
            self._listening = False
        await asyncio.sleep(0)

    async def _claim(self, wanted: int) -> list[Claim]:
        fresh = monotonic() >= self._refresh_at
        if fresh:
            await self._read_heads()
        lanes = self._lanes.due(monotonic())
        if not lanes:
            return []
        worker = self._worker()
        self._lanes.asking()
        with self._unsure_unless_answered():
            claims = await self._store.claim(worker, lanes, wanted, without=tuple(self._unknown))
            if worker != self._worker():  # who claimed them is gone by now: they would be rescued
                await self._store.release([(claim.id, claim.run) for claim in claims])
                return []
        self._lanes.claimed(claims)
        if self._listening and len(claims) < wanted:
            self._lanes.exhausted(lanes)
        if isinstance(claims, Claimed):
            for wake in claims.woken:
                self.wake(wake)
        # In vain in spite of fresh heads: those jobs are not for us, and looking again is no help.
        self._guessing = self._guessing or bool(claims) or not fresh
        return claims

    async def _read_heads(self) -> None:
        started = monotonic()
        self._lanes.asking()
        self._refresh_at = inf  # a wake-up that names no lane may lower it while the store is asked
        heads = await self._store.lanes(self._settings.queues)
        now = monotonic()
        self._lanes.refresh(heads, now)
        self._guessing = False
        self._may_refresh_at = now + REFRESH_SHARE * (now - started)
        again_at = max(now + self._settings.poll, self._may_refresh_at)
        self._refresh_at = min(self._refresh_at, again_at)

    async def _only_known(self, claims: list[Claim]) -> list[Claim]:
        """Give back jobs of tasks this worker does not have; others' workers may know them."""
        foreign = [claim for claim in claims if claim.task not in self._known]
        if not foreign:
            return claims
        new = {claim.task for claim in foreign} - self._unknown
        self._unknown |= new
        log.warning("no such task here: %s; left to other workers", ", ".join(sorted(new)))
        with self._unsure_unless_answered():
            await self._store.release([(claim.id, claim.run) for claim in foreign])
        return [claim for claim in claims if claim.task in self._known]

    async def _give_back_stalled(self) -> None:
        """Release jobs that have waited too long for a slot here; another worker may be free."""
        if stalled := self._dispatcher.drop_stalled():
            log.info("handlers take longer than before; giving back %s jobs", len(stalled))
            with self._unsure_unless_answered():
                await self._store.release(stalled)

    @contextmanager
    def _unsure_unless_answered(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._unsure = True
            raise

    def _doubted_in(self) -> float:
        """Return the seconds until what we hold is to be asked; inf if there is no doubt."""
        if self._unsure or self._former:
            return self._held_at - monotonic()
        return max(self._held_at, self._looks[0]) - monotonic() if self._looks else inf

    def _patience(self) -> float:
        """Return the seconds until jobs have to be given back, or may have to be."""
        return min(self._dispatcher.patience(), self._doubted_in())

    async def _give_back_unknown(self) -> None:
        """Release what the tables say we hold and we do not know of.

        A claim's commit may have happened though its answer never came, or under an id that was
        gone: whoever rescued that worker's jobs could not see those. Or it has yet to happen, so
        there are later looks. Where finding out takes longer than the server allows, claiming goes
        on, and it is tried again later.
        """
        started = monotonic()
        due = (started + later for later in LATER_LOOKS) if self._unsure else self._looks
        self._unsure, self._looks = False, [at for at in due if at > started]
        try:
            await self._give_back_of(self._worker(), self._dispatcher.holds)
            while self._former:
                former = self._former[-1]
                await self._give_back_of(former, self._dispatcher.unsettled)
                self._former.remove(former)
            self._doubts.reset()
        except StoreUnavailable:
            now = monotonic()
            longer = min(LONGEST_DOUBT, DOUBT_SHARE * (now - started))
            self._unsure, self._held_at = True, now + max(longer, self._doubts.next())
            raise

    async def _give_back_of(self, worker: int, known: Callable[[], set[tuple[int, int]]]) -> None:
        held = await self._store.held(worker)
        if lost := [job for job in held if job not in known()]:
            log.warning("giving back %s jobs whose claim was cut off", len(lost))
            await self._store.release(lost)

    async def _rest(self) -> None:
        """Sleep until something may be due, asking for notifications first."""
        if self._listening:
            if self._guessing:  # nobody tells of what has waited behind the claimed ones
                self._refresh_at = min(self._refresh_at, self._may_refresh_at)
            due = min(self._lanes.next_due(), self._refresh_at)
            await self._sleep(min(due - monotonic(), self._patience()))
            self._attention.rested(monotonic())
        elif self._attention.looked_in_vain():
            await self._store.listen(self._worker(), True)
            # What came before we listened was not announced, so look once more.
            self._listening, self._refresh_at = True, 0.0
        else:
            await self._sleep(GLANCE)

    async def _wait_for_room(self) -> None:
        self._dispatcher.changed.clear()
        seconds = self._patience()
        if not (self._dispatcher.wanted() or seconds <= 0 or self._stopping):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._dispatcher.changed.wait()

    async def _sleep(self, seconds: float) -> None:
        if self._stopping:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._woken.wait()
        self._woken.clear()
