"""Publishes due jobs of carried queues to their brokers, and takes back unanswered doorbells.

Any number of workers may relay at once: each doorbell is rung by one of them. Among workers that
have the same carried queues, one holds the duty and looks for due jobs also without a wake-up;
the others look when they are woken. A doorbell is written to the database first and published then.
If its relay is killed in between, or the broker loses it, no worker answers. After a grace period
it is taken back with the next run.
"""

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from hashlib import blake2s
from heapq import heappop, heappush
from math import inf
from time import monotonic
from typing import Protocol

from mutirao.aio import wait_for
from mutirao.engine.loops import MAX_REST, LoopHealth, LoopRetry, forever
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.worker_row import WorkerRow
from mutirao.errors import TransportError
from mutirao.log import log
from mutirao.model.brokers.doorbell import Doorbell, messages_of
from mutirao.ports import Transport
from mutirao.ports.brokers import grouped
from mutirao.ports.events import event_transport, published

# The duty is held for so many heartbeats, and asked for again within a fraction of one. A worker
# that takes over from a killed one therefore rescues its jobs, and makes schedules tick, in time.
# A resting worker learns from each heartbeat, one in two, for how long the duty is held elsewhere.
# It is renewed so often that this time lasts until the next heartbeat, even if that is late.
DUTY_TTL, ASK_WITHIN, RENEW_EVERY = 2.3, (0.1, 0.2), 0.25
BATCH = 500  # doorbells rung in one transaction, and published in one batch
MAX_EXPECTED = 1_000  # due times that are remembered; a search finds the others
MAX_RECALLED = 5_000  # doorbells taken back at a time
# Seconds without a doorbell, with room for one, after which a broker is taken to have none.
QUIET_AFTER = 5.0


class QueueState(Protocol):
    """What a worker knows of one queue's doorbells."""

    @property
    def quiet_for(self) -> float:
        """The seconds for which none has come although there was room; 0: one has just come."""
        ...

    @property
    def reached(self) -> datetime | None:
        """When the last answered doorbell was rung; None: none was answered."""
        ...


class Relay:
    """The relay loop of one worker.

    Parameters:
        transports: those of the carried queues, by queue.
        ears: the state of each queue's doorbells, as this worker sees it.
        row: the worker's.
        per_message: returns how many doorbells one message carries.
        duty: the name of the duty, which one of several equal workers holds.
    """

    def __init__(
        self,
        row: WorkerRow,
        transports: Mapping[str, Transport],
        ears: Mapping[str, QueueState],
        settings: WorkerSettings,
        per_message: Callable[[], int],
        duty: str,
    ) -> None:
        self._per_message = per_message
        self._row, self._store, self._settings = row, row.store, settings
        self._transports, self._ears = dict(transports), ears
        self._woken = asyncio.Event()
        self._asked = True  # to look once, although others hold the duty
        self.duty = duty
        self.holds = asyncio.Event()  # set while it has the duty
        self._ask_at = self._look_at = self._recall_at = 0.0  # monotonic
        self._expected: list[float] = []  # a heap of monotonic times
        self._stopping = asyncio.Event()
        longest, who = settings.longest_wait, "database or broker"
        self._trouble = LoopRetry("cannot relay", "relaying again", longest, who=who, once="text")

    @property
    def unmended(self) -> str | None:
        """What a broker refuses until a person changes something; None: nothing."""
        return self._trouble.unmended

    def wake(self) -> None:
        """Look for due jobs now."""
        self._asked = True
        self._woken.set()

    def expect(self, due_at: float) -> None:
        """Look again at the monotonic time when a known job is due."""
        if len(self._expected) < MAX_EXPECTED:
            heappush(self._expected, due_at)
            self._woken.set()

    def note_holder(self, held_elsewhere: float) -> None:
        """Take from a heartbeat the seconds for which another worker still holds the duty.

        A resting worker need not ask for the duty then: a later heartbeat says so before that time
        is over.
        """
        if held_elsewhere and not self.holds.is_set():
            self._ask_when_it_ends(held_elsewhere)

    def stop(self) -> None:
        """Make `run` end after the batch that is being published."""
        self._stopping.set()
        self._woken.set()

    async def run(self, pulse: LoopHealth) -> None:
        """Relay until stopped; wait while the database or a broker is away."""
        await forever(
            partial(self._turn_and_sleep, pulse), pulse, self._trouble, stopping=self._stopping
        )

    async def _turn_and_sleep(self, pulse: LoopHealth) -> float:
        self._woken.clear()
        try:
            await self._turn(pulse)
        except Exception:
            self._asked = True
            raise
        self._trouble.over()
        await self._sleep(self._next() - monotonic())
        return 0.0

    async def _turn(self, pulse: LoopHealth) -> None:
        now = monotonic()
        while self._expected and self._expected[0] <= now:
            heappop(self._expected)
            self._asked = True
        if now >= self._ask_at:
            await self._ask(now)
        if self.holds.is_set() and now >= self._recall_at:
            await self._recall(now)
        if self._asked or (self.holds.is_set() and now >= self._look_at):
            self._asked = False
            await self._look(pulse)

    def _next(self) -> float:
        """Return when to look again, unless woken before."""
        soonest = min([self._ask_at, *self._expected[:1]])
        if self.holds.is_set():
            soonest = min(soonest, self._look_at, self._recall_at)
        return 0.0 if self._asked else soonest

    async def _ask(self, now: float) -> None:
        """Ask for the duty; its holder renews it, and others wait until it may have ended."""
        worker, heartbeat = self._row.id, self._settings.heartbeat
        if not self.holds.is_set() and (
            left := await self._store.held_elsewhere(self.duty, worker)
        ):
            self._ask_when_it_ends(left)
            return
        ttl = DUTY_TTL * heartbeat
        if await self._store.lease(self.duty, worker, ttl=ttl, every=0.0):
            self._ask_at = now + RENEW_EVERY * heartbeat
            if not self.holds.is_set():
                self._look_at = self._recall_at = 0.0
                self.holds.set()
        else:
            self._ask_when_it_ends(0.0)
            self.holds.clear()

    def _ask_when_it_ends(self, left: float) -> None:
        late = random.uniform(*ASK_WITHIN)
        self._ask_at = monotonic() + left + late * self._settings.heartbeat

    async def _look(self, pulse: LoopHealth) -> None:
        """Ring and publish due jobs; one batch is published while the next one is rung."""
        heads = await self._store.lanes(self._transports)
        now = monotonic()
        ahead = min((now + head.due_in for head in heads if head.due_in > 0), default=inf)
        self._look_at = min(now + self._settings.poll, ahead)
        lanes, publishing = [head.lane for head in heads if head.due_in <= 0], _nothing()
        while lanes and not self._stopping.is_set():
            pulse.turn()
            try:
                doorbells = await self._store.ring(lanes, BATCH)
            finally:
                await publishing
            publishing = asyncio.ensure_future(self._publish(doorbells))
            if len(doorbells) < BATCH:
                break
        await publishing

    async def _publish(self, doorbells: Sequence[Doorbell]) -> None:
        """Publish doorbells; take back those that a broker refuses, and raise the reason."""
        groups = grouped(doorbells, lambda doorbell: self._transports[doorbell.queue])
        most = self._per_message()
        results = await asyncio.gather(*(_publish_to(*group, most) for group in groups))
        failed = [pair for some in results for pair in some]
        if failed:
            await self._store.unring([doorbell for doorbell, _ in failed])
            raise failed[0][1]

    async def _recall(self, now: float) -> None:
        """Take back doorbells that no worker answers any more, by what this worker observes."""
        grace = self._settings.doorbell_grace
        self._recall_at = now + min(grace / 4, QUIET_AFTER)
        for queue, ear in self._ears.items():
            quiet = ear.quiet_for >= min(grace, QUIET_AFTER)
            if not quiet and ear.reached is None:
                continue
            reached = None if quiet else ear.reached
            back = await self._store.recall([queue], grace, MAX_RECALLED, reached=reached)
            if back:
                log.warning(
                    "no worker answered the doorbells of %s jobs of queue %s within %g s:"
                    " ringing again",
                    *(len(back), queue, grace),
                )
                self._asked = True
                if len(back) == MAX_RECALLED:
                    self._recall_at = now

    async def _sleep(self, seconds: float) -> None:
        if self._stopping.is_set() or seconds <= 0:
            return
        await wait_for(self._woken, min(seconds, MAX_REST))


async def _publish_to(
    transport: Transport, doorbells: Sequence[Doorbell], most: int
) -> list[tuple[Doorbell, TransportError]]:
    """Publish doorbells, up to `most` a message; return the refused ones, and the reason."""
    parcels = list(messages_of(doorbells, most))
    errors = await transport.publish([message for message, _ in parcels])
    pairs = list(zip(parcels, errors, strict=True))
    if (events := event_transport(transport)) is not None:
        for bell in (bell for (_, bells), error in pairs if error is None for bell in bells):
            events.tell(published(bell.task, bell.queue, str(bell.id)))
    return [(bell, error) for (_, bells), error in pairs if error is not None for bell in bells]


def duty_of(queues: Iterable[str], *, relay_only: bool = False) -> str:
    """Return the name of the duty of all workers that have the same carried queues.

    Workers that only relay (`relay_only`) have a duty of their own. A worker that also consumes
    knows better which doorbells are lost, so one of those always takes them back.
    """
    listed = json.dumps(sorted(queues), ensure_ascii=False)
    digest = blake2s(listed.encode(), digest_size=8).hexdigest()
    return f"relay apart {digest}" if relay_only else f"relay {digest}"


def _nothing() -> "asyncio.Future[None]":
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


class Backlog:
    """The loop that asks a broker how many messages wait in one queue. A `QueueState` of a `Relay`.

    While none waits, old doorbells were lost by the broker, or a consumer holds them and will find
    them stale. While some wait, nothing is known: an old doorbell may be among them, waiting for a
    consumer.
    """

    reached: datetime | None = None

    def __init__(self, queue: str, transport: Transport, settings: WorkerSettings) -> None:
        self._queue, self._transport, self._settings = queue, transport, settings
        self._empty_since: float | None = None
        self._stopping = asyncio.Event()

    @property
    def quiet_for(self) -> float:
        """The seconds for which no message was found to wait."""
        return 0.0 if self._empty_since is None else monotonic() - self._empty_since

    async def run(self, pulse: LoopHealth) -> None:
        """Ask until stopped; wait while the broker is away."""
        what = f"cannot ask what waits in queue {self._queue}"
        back = f"asking what waits in queue {self._queue} again"
        longest = self._settings.longest_wait
        trouble = LoopRetry(what, back, longest, who="broker", once="text")
        await forever(self._ask, pulse, trouble, stopping=self._stopping)

    async def _ask(self) -> float:
        try:
            waiting = await self._transport.waiting(self._queue)
        except Exception:
            self._empty_since = None
            raise
        since = monotonic() if self._empty_since is None else self._empty_since
        self._empty_since = None if waiting else since
        return min(self._settings.doorbell_grace, QUIET_AFTER) / 2

    def stop(self) -> None:
        """Stop asking."""
        self._stopping.set()
