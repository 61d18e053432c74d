"""Reads endpoints and writes attempts for many deliveries at once.

Both batch the requests of deliveries that come while the database answers earlier ones. So no
delivery holds a connection, and the number of statements does not grow with the deliveries. A
delivered job is completed in the commit that writes its attempt: on PostgreSQL that made a fifth
more deliveries a second than a commit for each.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import NamedTuple

from mutirao.model.jobs.outcome import Completion
from mutirao.model.limits.claims_and_wakes import Settled
from mutirao.model.webhooks.breakers import BreakerTerms
from mutirao.model.webhooks.endpoints import Endpoint, UnreadableEndpoint
from mutirao.model.webhooks.webhook_attempts import WebhookAttempt
from mutirao.ports import Store

# Seconds for which attempts may still use the values before a change. At 2,000 deliveries a second
# that is a statement for 200 of them; without it there would be one for each claim.
KNOWN_FOR = 0.1
MOST_KNOWN = 10_000  # endpoints that are remembered
LINGER = 0.025  # seconds that an attempt waits for others at most
MOST_AT_ONCE = 100  # attempts in a statement; each has up to 16 kB of an answer

Found = Endpoint | UnreadableEndpoint | None


class Made(NamedTuple):
    """A finished attempt: the completion of its job, and a future for when it is written."""

    attempt: WebhookAttempt
    done: Completion | None
    written: asyncio.Future[None]


class EndpointCache:
    """The endpoints that a worker sends to, read again when `KNOWN_FOR` has passed.

    Parameters:
        clock: seconds of a clock that does not jump.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = monotonic) -> None:
        self._store, self._clock = store, clock
        self._known: dict[str, tuple[float, Found]] = {}
        self._wanted: set[str] = set()
        self._reading: asyncio.Task[dict[str, Found]] | None = None

    async def get(self, id: str) -> Found:
        """Return an endpoint in its state of up to `KNOWN_FOR` seconds ago; None: there is none."""
        until, found = self._known.get(id, (0.0, None))
        if until > self._clock():
            return found
        self._wanted.add(id)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        return (await asyncio.shield(self._reading))[id]

    async def _read(self) -> dict[str, Found]:
        await asyncio.sleep(0)  # the next one in this turn of the loop asks as well
        wanted, self._wanted, self._reading = self._wanted, set(), None
        found: dict[str, Found] = dict.fromkeys(wanted)
        until = self._clock() + KNOWN_FOR  # it may change while it is read
        found |= {each.id: each for each in await self._store.endpoints.to_send(wanted)}
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        self._known |= {id: (until, each) for id, each in found.items()}
        return found


class AttemptWriter:
    """Writes attempts in batches, one after the other; a caller waits until its attempt is written.

    A batch is written once it has half of the running attempts, or after `LINGER`. So a single
    delivery does not wait, and of fifty, which end at any time, about half share a batch.
    """

    def __init__(self, store: Store, terms: BreakerTerms) -> None:
        self._store, self._terms = store, terms
        self._lock = asyncio.Lock()
        self._batch: list[Made] = []
        # Set once the batch is large enough. None: the next attempt begins another batch.
        self._gathering: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._going_on = 0

    @contextmanager
    def expecting(self) -> Iterator[Callable[[], None]]:
        """Count an attempt as running, until it is written.

        Yields a function to call when the attempt will not be written: no batch waits for it then.
        """
        self._going_on += 1
        counted = 1

        def unexpected() -> None:
            nonlocal counted
            self._going_on -= counted
            counted = 0

        try:
            yield unexpected
        finally:
            unexpected()

    async def write(self, attempt: WebhookAttempt, done: Completion | None = None) -> None:
        """Write an attempt in a batch with others; raises the errors of the store.

        `done` completes its job, unless the store leaves that to the worker.
        """
        loop = asyncio.get_running_loop()
        if self._gathering is None:
            self._batch, self._gathering = [], loop.create_future()
            task = loop.create_task(self._write(self._batch, self._gathering))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        made = Made(attempt, done, loop.create_future())
        self._batch.append(made)
        if not self._gathering.done() and 2 * len(self._batch) >= self._going_on:
            self._gathering.set_result(None)
        if self._gathering.done() and (len(self._batch) >= MOST_AT_ONCE or not self._lock.locked()):
            self._gathering = None
        await made.written

    async def _write(self, batch: list[Made], enough: asyncio.Future[None]) -> None:
        async with self._lock:
            await asyncio.wait([enough], timeout=LINGER)
            if self._gathering is enough:
                self._gathering = None
            for some in _split(batch):
                await self._record_or_raise(some)

    async def _record_or_raise(self, batch: list[Made]) -> None:
        try:
            await self._record(batch)
        except Exception as error:  # noqa: BLE001 (raised where the attempts are)
            for made in batch:
                if not made.written.done():
                    made.written.set_exception(error)

    async def _record(self, batch: list[Made]) -> None:
        done = [made.done for made in batch if made.done]
        attempts, settlements = [made.attempt for made in batch], [each.settlement for each in done]
        recorded = await self._store.endpoints.record(attempts, self._terms, settlements)
        _mark_settled(done, recorded.settled)
        for made in batch:
            if not made.written.done():
                made.written.set_result(None)


def _split(batch: list[Made]) -> list[list[Made]]:
    """Return the attempts at peers without a failure in this batch, and the others.

    Only the first are completed with their attempts; all of one peer are judged in one batch.
    """
    failed = [made.attempt for made in batch if not made.attempt.ok]
    if not failed:
        return [batch]
    endpoints, hosts = {each.endpoint for each in failed}, {each.host for each in failed}
    well, others = list[Made](), list[Made]()
    for made in batch:
        concerned = made.attempt.endpoint in endpoints or made.attempt.host in hosts
        (others if concerned else well).append(made)
    return [well, others] if well else [others]


def _mark_settled(done: list[Completion], settled: set[int]) -> None:
    """Mark attempts as settled; the first one gets the lanes of other jobs that are ready now."""
    woken = settled.woken if isinstance(settled, Settled) else ()
    for settlement, attempt in done:
        if settlement.id in settled:
            attempt.mark_settled(woken)
            woken = ()
