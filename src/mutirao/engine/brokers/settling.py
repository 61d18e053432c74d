"""Settles deliveries of a broker: acknowledges, retries, buries; moves long delays to the database.

Successes are acknowledged in batches, after a few milliseconds. A retry or a dead message is
published first. That takes a round trip, and delays no other delivery.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from mutirao.aio import MAX_WAIT, Backoff
from mutirao.engine.calls import outcomes
from mutirao.engine.calls.attempt import Finished
from mutirao.engine.dispatch import attempt_log
from mutirao.engine.loops import LoopRetry
from mutirao.engine.measurement_listeners import Listeners
from mutirao.errors import (
    DeliveryLost,
    StoreError,
    StoreUnavailable,
    TransportError,
    TransportRefused,
)
from mutirao.log import log
from mutirao.model.brokers.message import Ack, Again, Bury, Cause, Delivery, Message, Settling
from mutirao.model.jobs.job import Claim, NewJob, Wake
from mutirao.model.jobs.states import OutcomeKind
from mutirao.ports import Consumer
from mutirao.tasks import job_messages
from mutirao.tasks.job_messages import job_of

Write = Callable[[NewJob], Awaitable[object]]  # into the store; returns the job's id there


@dataclass(frozen=True, slots=True)
class LateStore:
    """The database that keeps jobs whose wait is too long for the broker.

    Parameters:
        write: writes a job into it.
        patience: seconds to wait for the database while it is unavailable.
    """

    write: Write
    patience: float


class Overflow:
    """Moves attempts of one queue to the database if their wait is too long for the broker.

    Parameters:
        longest: the maximum delay of a returned message, in seconds since it was received.
        in_order: whether the queue keeps an order: then its jobs stay in it, and the others wait.
        most_attempts: returns how many attempts a job may have.
        store: where they are written.
    """

    def __init__(
        self,
        longest: float,
        in_order: bool,
        most_attempts: Callable[[Claim], int],
        store: LateStore,
    ) -> None:
        self._longest, self._in_order, self._most_attempts = longest, in_order, most_attempts
        self._store = store
        self._said = set[str]()

    def is_too_long(self, after: float, held_for: float) -> bool:
        """Return whether the broker cannot delay a message that was received `held_for` s ago."""
        return held_for + after > self._longest

    async def keep(self, ended: Finished, after: float, waited: float) -> bool:
        """Write a job that continues in `after` seconds; return False if it stays with the broker.

        It keeps its remaining attempts. Commits in a transaction of its own.

        Parameters:
            waited: seconds for which the database has been tried.

        Raises:
            StoreUnavailable: try again.
        """
        claim = ended.claim
        if self._in_order:
            return self._stays(claim, after, "they would lose their place in the queue's order")
        used = claim.attempt - (ended.outcome.kind is not OutcomeKind.RETRIED)
        left = max(1, self._most_attempts(claim) - used)
        try:
            id = await self._store.write(job_of(claim, after, left))
        except StoreError as error:
            if isinstance(error, StoreUnavailable) and waited < self._store.patience:
                raise
            return self._stays(claim, after, f"the database does not take them: {error}")
        log.info("job %s (%s) goes on in %.0f s as job %s", claim.id, claim.task, after, id)
        return True

    def _stays(self, claim: Claim, after: float, why: str) -> bool:
        if why not in self._said:
            self._said.add(why)
            log.warning(
                "jobs of queue %s wait for longer than the %.0f s that its broker holds them, as"
                " job %s for %.0f s, and come again sooner: %s",
                *(claim.queue, self._longest, claim.id, after, why),
            )
        return False


Key = tuple[int, int]


@dataclass(slots=True)
class _Held:
    consumer: Consumer
    delivery: Delivery
    message: Message | None
    ended: Finished | None = None
    settling: Settling | None = None
    since: float = field(default_factory=monotonic)


class DeliverySettler:
    """Settles the deliveries of one queue that a worker holds. A `Settler`.

    Parameters:
        linger: seconds for which a finished one may wait for others.
        late: takes jobs whose wait is longer than the broker can hold them.
        follow: publishes the job that follows a death, and returns once that is confirmed.
        on_settled: called when some were settled.
        on_buried: called with a message that is buried without an attempt, and what was read of it.
    """

    def __init__(
        self,
        linger: float,
        late: Overflow,
        follow: Callable[[NewJob], Awaitable[None]],
        on_settled: Callable[[], None],
        on_buried: Callable[[Bury, Message | None], None],
    ) -> None:
        self._linger, self._late, self._follow = linger, late, follow
        self._on_settled, self._on_buried = on_settled, on_buried
        self._held: dict[Key, _Held] = {}
        self._gathered: list[Key] = []
        self._unsettled: set[Key] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flush_at: asyncio.TimerHandle | None = None
        self._all_settled, self._one_settled = asyncio.Event(), asyncio.Event()
        self.failure: Exception | None = None  # why something can never be settled
        self.listeners: Listeners | None = None  # measure the worker

    @property
    def unsettled(self) -> int:
        """The number of attempts that have ended and are not settled yet."""
        return len(self._unsettled)

    def pending(self) -> set[Key]:
        """Return (id, run) of those."""
        return set(self._unsettled)

    def add(self, finished: Finished) -> None:
        """Take an attempt that has ended."""
        key = finished.claim.id, finished.claim.run
        held = self._held.get(key)
        if held is None or held.message is None:
            attempt_log.dropped(finished.claim, finished.outcome)
            return
        held.ended, now = finished, datetime.now(UTC)
        settling = job_messages.settling_of(held.delivery, held.message, finished.outcome, now)
        if finished.follow_up is not None:
            self._unsettled.add(key)
            self._start(self._after_follow_up(key, settling, finished.follow_up))
        elif isinstance(settling, Again) and self._is_late(held, settling):
            self._unsettled.add(key)
            self._start(self._keep(key, finished, settling))
        else:
            self._gather(key, settling)

    def announce_woken(self, woken: Iterable[Wake]) -> None:
        """Do nothing: no job of a broker waits for the end of another."""

    def note_own(self, finished: Finished, woken: Iterable[Wake]) -> None:
        """Do nothing: no SQL transaction settles a delivery."""

    def hold(
        self, key: Key, consumer: Consumer, delivery: Delivery, message: Message | None
    ) -> None:
        """Hold a delivery from now on, under this key, with its decoded message."""
        self._held[key] = _Held(consumer, delivery, message)

    def settle(self, key: Key, settling: Settling) -> None:
        """Settle a held delivery without an attempt."""
        self._gather(key, settling)

    def bury(self, key: Key, cause: Cause) -> None:
        """Bury a held delivery without an attempt."""
        held = self._held[key]
        settling = Bury(held.delivery, cause)
        self._on_buried(settling, held.message)
        self._gather(key, settling)

    def give_back(self, keys: Iterable[Key]) -> None:
        """Return deliveries that have not started to the broker: no attempt is counted."""
        for key in keys:
            held = self._held.get(key)
            if held is not None and held.message is not None:
                self._gather(key, Again(held.delivery, held.message, anew=True))

    def ids(self, deliveries: Sequence[Delivery]) -> set[str]:
        """Return the message ids of deliveries, as far as they were read."""
        gone = set(deliveries)
        read = (each.message for each in self._held.values() if each.delivery in gone)
        unread = (each.message for each in gone)
        return {message.id for message in (*read, *unread) if message is not None}

    def lose(self, deliveries: Sequence[Delivery]) -> set[Key]:
        """Forget deliveries that this worker has lost; return their keys."""
        gone = set(deliveries)
        keys = {key for key, held in self._held.items() if held.delivery in gone}
        for key in keys:
            held = self._held[key]
            if held.ended is not None:
                attempt_log.dropped(held.ended.claim, held.ended.outcome)
                if self.listeners is not None:
                    self.listeners.fenced(1)
            self._forget(key)
        return keys

    async def idle(self) -> None:
        """Wait until every attempt that has ended is settled or lost."""
        while self._unsettled:
            self._all_settled.clear()
            await self._all_settled.wait()

    def holds(self, key: Key) -> bool:
        """Return whether a delivery is held under this key."""
        return key in self._held

    def sends_suspects(self) -> bool:
        """Return whether suspects are being published again."""
        sending = (self._held[key].settling for key in self._unsettled)
        return any(isinstance(each, Again) and each.message.suspect for each in sending)

    async def sent(self) -> None:
        """Wait until everything that is to be settled by now is settled or lost."""
        left = {key for key in self._unsettled if self._held[key].settling is not None}
        while left := left & self._unsettled:
            self._one_settled.clear()
            await self._one_settled.wait()

    def cancel(self) -> None:
        """Stop settling: the broker delivers again what is left."""
        for task in self._tasks:
            task.cancel()

    def _gather(self, key: Key, settling: Settling) -> None:
        self._held[key].settling = settling
        self._unsettled.add(key)
        self._gathered.append(key)
        if self._flush_at is None:
            loop = asyncio.get_running_loop()
            self._flush_at = loop.call_later(self._linger, self._flush)

    def _flush(self) -> None:
        """Settle what was gathered: for each consumer acknowledgements, then publications."""
        self._flush_at = None
        gathered, self._gathered = self._gathered, []
        groups: dict[tuple[int, bool], list[Key]] = defaultdict(list)
        for key in gathered:
            if (held := self._held.get(key)) is not None:
                groups[id(held.consumer), isinstance(held.settling, Ack)].append(key)
        for keys in groups.values():
            self._start(self._settle(keys))

    async def _settle(self, keys: list[Key]) -> None:
        """Settle until the broker has it all, or the deliveries are lost."""
        what = f"cannot settle {len(keys)} jobs"
        # Only one such batch at a time: a throttling broker accepts some and refuses others.
        trouble = LoopRetry(what, "jobs are settled now", MAX_WAIT, who=None, once="text")
        while keys := [key for key in keys if key in self._held]:
            consumer, began = self._held[keys[0]].consumer, monotonic()
            try:
                results = await consumer.settle([self._settling(key) for key in keys])
            except Exception as raised:  # noqa: BLE001 (what one message brings is its own end)
                await self._settle_halves(keys, raised)
                return
            failed = dict(zip(keys, results, strict=True))
            if self.listeners is not None:
                self._report(self.listeners, failed, monotonic() - began)
            keys = [key for key, error in failed.items() if not self._settled(key, error)]
            self._on_settled()
            errors = [error for key in keys if (error := failed[key]) is not None]
            if errors:
                await asyncio.sleep(trouble.met(errors[0]))
            else:
                trouble.over()

    def _report(
        self, listeners: Listeners, results: dict[Key, TransportError | None], seconds: float
    ) -> None:
        """Report the attempts among what was settled."""
        held = {key: found.ended for key in results if (found := self._held.get(key)) is not None}
        ended = {key: each for key, each in held.items() if each is not None}
        written = [each for key, each in ended.items() if results[key] is None]
        if written:
            listeners.settled(len(written), seconds)
        listeners.written(written)
        if lost := sum(isinstance(results[key], DeliveryLost) for key in ended):
            listeners.fenced(lost)

    async def _settle_halves(self, keys: list[Key], error: Exception) -> None:
        """Settle in halves a batch that fails as a whole; bury the one that fails, with the reason.

        If that fails as well, the worker cannot continue: it would hold the delivery for ever.
        """
        if len(keys) > 1:
            half = len(keys) // 2
            await asyncio.gather(self._settle(keys[:half]), self._settle(keys[half:]))
            return
        [key] = keys
        if (held := self._held.get(key)) is None:
            return
        if isinstance(held.settling, Bury):
            log.critical("job %s can never be settled", key[0], exc_info=error)
            self.failure = error
            self._on_settled()
            return
        log.error("job %s is dead, as it cannot be settled otherwise", key[0], exc_info=error)
        reason = f"{type(error).__name__}: {outcomes.message(error)}"
        self._bury_instead(held, "SettlingFailed", f"its outcome could not be written: {reason}")
        await self._settle(keys)

    def _bury_instead(self, held: _Held, error_type: str, error: str) -> None:
        """Bury a held delivery whose settlement the broker refuses."""
        attempts = held.message.attempt if held.message is not None else 0
        cause = Cause(
            error_type=error_type, error=outcomes.shortened(error), attempts=attempts,
            last_at=datetime.now(UTC),
        )  # fmt: skip
        held.settling = settling = Bury(held.delivery, cause)
        self._on_buried(settling, held.message)

    def _settling(self, key: Key) -> Settling:
        held = self._held[key]
        return held.settling or Ack(held.delivery)

    def _settled(self, key: Key, error: TransportError | None) -> bool:
        """Return whether nothing is left to do for a delivery."""
        held = self._held.get(key)
        if held is None:
            return True
        if isinstance(error, DeliveryLost) and held.ended is not None:
            attempt_log.dropped(held.ended.claim, held.ended.outcome)
        elif isinstance(error, TransportRefused) and not isinstance(held.settling, Bury):
            log.error("job %s cannot come again: %s", key[0], error)
            self._bury_instead(held, "TransportRefused", str(error))
            return False
        elif isinstance(error, TransportRefused):
            log.critical("job %s can never be settled: %s", key[0], error)
            self.failure = error
        elif error is not None and not isinstance(error, DeliveryLost):
            return False
        self._forget(key)
        return True

    async def _after_follow_up(self, key: Key, settling: Settling, job: NewJob) -> None:
        """Publish the job that follows a death before the death is settled: it must not be lost."""
        await self._follow(job)
        if key in self._held:
            self._gather(key, settling)

    def _is_late(self, held: _Held, settling: Again) -> bool:
        return self._late.is_too_long(settling.after, monotonic() - held.since)

    async def _keep(self, key: Key, finished: Finished, settling: Again) -> None:
        """Write the job to the database, and acknowledge it after that: it must not be lost."""
        backoff, since = Backoff(), monotonic()
        while (held := self._held.get(key)) is not None:
            try:
                kept = await self._late.keep(finished, settling.after, monotonic() - since)
            except StoreUnavailable as error:
                wait = backoff.next()
                log.warning(
                    "job %s waits for the database: %s; again in %.1f s", key[0], error, wait
                )
                await asyncio.sleep(wait)
            else:
                self._gather(key, Ack(held.delivery) if kept else settling)
                return

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            log.critical("settling failed", exc_info=error)
            self.failure = error
            self._on_settled()

    def _forget(self, key: Key) -> None:
        self._held.pop(key, None)
        self._unsettled.discard(key)
        self._one_settled.set()
        if not self._unsettled:
            self._all_settled.set()
