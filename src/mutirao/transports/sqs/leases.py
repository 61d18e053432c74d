"""Extends the visibility of held messages while they are worked on.

One thread for a transport, for all of its queues. Deadlines are monotonic and counted from before
each request, so that they end a little early and never late. A message is made invisible for the
same short time again and again: that of a killed worker is visible soon, however long it was worked
on.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import inf
from random import random
from time import monotonic, sleep
from typing import NamedTuple

from mutirao.transports.sqs.calls import LONGEST_VISIBILITY, EntryFailure, SqsCalls, SqsQueue
from mutirao.transports.sqs.failures import Meaning
from mutirao.transports.sqs.logs import Note, log

RENEW_AT = 2 / 3  # of the visibility, from the last extension
EARLY = 1 / 6  # of the visibility: a message is extended so much earlier, in a batch with others
CAP_MARGIN = 60.0  # seconds before SQS ends it itself, after 12 hours
LONGEST_REST = 60.0  # seconds between two turns
AFTER_FAULT = 1.0  # seconds after an error of this code
CALL_LIMIT = 30.0  # seconds after which an extension must have answered


class Timing(NamedTuple):
    """The monotonic clock, in seconds; the wait; and whether a thread beats.

    `threaded` False: no thread does, but the caller of `LeaseHeartbeat.turn`.
    """

    clock: Callable[[], float] = monotonic
    pause: Callable[[float], object] = sleep
    threaded: bool = True


USUAL_TIMING = Timing()


@dataclass(eq=False, slots=True)
class Lease:
    """One message that this process holds. Times are monotonic seconds.

    Parameters:
        id: the message's id at SQS.
        name: its id for people.
        handle: what SQS wants to see with every request about it.
        received_at: when it was received; 12 hours count from here.
        deadline: when it becomes visible to others.
        ends_at: when it ends in any case.
        on_lost: called in the thread that finds out that the lease is lost.
    """

    queue: SqsQueue
    id: str
    name: str
    handle: str
    received_at: float
    deadline: float
    ends_at: float
    on_lost: Callable[["Lease"], None]
    group: str | None = None
    renew_at: float = inf
    lost: str | None = field(default=None)  # why it is not ours any more
    settling: bool = False
    copied: bool = False  # what follows it is confirmed, and only its deletion is missing
    body: str = ""
    large: str | None = None  # its id in S3, if its arguments are stored there


class LeaseHeartbeat:
    """Extends leases at two thirds of their time, in batches, until they are dropped.

    Parameters:
        visibility: seconds for which an extension lasts.
        max_runtime: seconds after which a lease is given up; None: a little below 12 hours.
    """

    def __init__(
        self,
        calls: SqsCalls,
        visibility: float,
        max_runtime: float | None = None,
        timing: Timing = USUAL_TIMING,
    ) -> None:
        self._calls, self._visibility, self._clock = calls, visibility, timing.clock
        self._runtime = min(max_runtime or inf, LONGEST_VISIBILITY - CAP_MARGIN)
        self._leases: set[Lease] = set()
        self._asking: set[Lease] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._threaded = timing.threaded

    def now(self) -> float:
        """Return the time by which leases count."""
        return self._clock()

    def begin(
        self, queue: SqsQueue, id: str, name: str, handle: str, on_lost: Callable[[Lease], None],
        now: float,
    ) -> Lease:  # fmt: skip
        """Return a lease of a message that was received at `now`. It is extended from then on."""
        lease = Lease(
            queue, id, name, handle, now, now + self._visibility, now + self._runtime, on_lost
        )
        lease.renew_at = min(now + self._visibility * RENEW_AT, lease.ends_at)
        self._add(lease)
        return lease

    def renewed(self, lease: Lease, handle: str) -> None:
        """Record that SQS has delivered a held message again: only the newest handle counts."""
        now = self._clock()
        with self._changed:
            lease.handle, lease.deadline = handle, now + self._visibility
            lease.renew_at = min(now + self._visibility * RENEW_AT, lease.ends_at)

    def age(self, lease: Lease) -> float:
        """Return the seconds since it was received."""
        return self._clock() - lease.received_at

    def left(self, lease: Lease) -> float:
        """Return the seconds until others see it, unless it is extended."""
        return lease.deadline - self._clock()

    def drop(self, leases: Collection[Lease]) -> None:
        """Extend these no more; returns when no extension of them is under way.

        The next request to SQS about them is then the last one.
        """
        with self._changed:
            self._leases.difference_update(leases)
            self._changed.wait_for(lambda: not self._asking.intersection(leases), CALL_LIMIT)

    def resume(self, lease: Lease) -> None:
        """Extend one again that was dropped, and is still held."""
        lease.renew_at = min(self._clock(), lease.ends_at)
        self._add(lease)

    def turn(self) -> float:
        """End leases that are over, extend due ones; return the seconds until the next turn."""
        now = self._clock()
        with self._changed:
            over = [each for each in self._leases if now >= min(each.deadline, each.ends_at)]
            self._leases.difference_update(over)
            due = self._due(now)
            self._asking.update(due)
        for each in over:
            self._lose(each, self._why(each, now))
        by_queue: dict[SqsQueue, list[Lease]] = defaultdict(list)
        for each in due:
            by_queue[each.queue].append(each)
        for queue, leases in by_queue.items():
            self._extend(queue, leases)
        with self._changed:
            next_at = min((each.renew_at for each in self._leases), default=inf)
        return min(LONGEST_REST, max(0.0, next_at - self._clock()))

    def stop(self) -> None:
        """Extend nothing any more."""
        with self._changed:
            self._leases.clear()
            self._changed.notify_all()

    def _add(self, lease: Lease) -> None:
        with self._changed:
            self._leases.add(lease)
            self._changed.notify_all()
            if self._thread is None and self._threaded:
                self._thread = threading.Thread(
                    target=self._run, name="mutirao-sqs-heartbeat", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                rest = self.turn()
            except Exception:  # noqa: BLE001 (logged; without extensions all would be lost)
                log.exception("extending messages failed; it is tried again in %g s", AFTER_FAULT)
                sleep(rest := AFTER_FAULT)
            with self._changed:
                if not self._leases:
                    self._thread = None
                    return
                next_at = min(each.renew_at for each in self._leases)
                self._changed.wait(min(rest, max(0.0, next_at - self._clock())))

    def _due(self, now: float) -> list[Lease]:
        """Return due leases, and of the same queues those that soon will be."""
        queues = {each.queue for each in self._leases if each.renew_at <= now}
        soon = now + self._visibility * EARLY
        return [each for each in self._leases if each.queue in queues and each.renew_at <= soon]

    def _extend(self, queue: SqsQueue, leases: Sequence[Lease]) -> None:
        asked_at = self._clock()
        wanted = {each: self._seconds(each, asked_at) for each in leases}
        asking = [each for each in leases if wanted[each] >= 1]
        try:
            found = self._calls.change(queue, [(each.handle, wanted[each]) for each in asking])
            for each, failure in zip(asking, found, strict=True):
                self._extended(each, failure, asked_at, wanted[each])
        finally:
            with self._changed:
                self._asking.difference_update(leases)
                for each in set(leases).difference(asking):
                    each.renew_at = each.ends_at
                self._changed.notify_all()

    def _seconds(self, lease: Lease, now: float) -> int:
        return int(min(self._visibility, lease.ends_at - now))

    def _extended(
        self, lease: Lease, failure: EntryFailure | None, asked_at: float, seconds: int
    ) -> None:
        if failure is None:
            lease.deadline = asked_at + seconds
            lease.renew_at = min(asked_at + seconds * RENEW_AT, lease.ends_at)
            Note.STILL(lease.name, lease.queue.name, asked_at - lease.received_at)
            return
        left = lease.deadline - self._clock()
        final = Meaning.LOST, Meaning.CAPPED, Meaning.REFUSED, Meaning.MISSING
        if failure.meaning in final or left <= 0:
            with self._changed:
                self._leases.discard(lease)
            self._lose(lease, f"SQS says: {failure.said}")
        else:
            lease.renew_at = self._clock() + min(1.0, max(0.05, left / 4)) * (0.5 + random() / 2)
            Note.NOT_EXTENDED(lease.name, lease.queue.name, failure.said, left)

    def _why(self, lease: Lease, now: float) -> str:
        if now < lease.ends_at:
            return "it could not be extended before its visibility ended"
        return f"it was held for its longest time, {self._runtime:g} s"

    def _lose(self, lease: Lease, why: str) -> None:
        lease.lost = why
        if not lease.settling:  # otherwise the settling call finds out
            Note.LOST(lease.name, lease.queue.name, why)
            lease.on_lost(lease)
