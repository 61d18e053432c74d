"""Settles messages: deletes, returns or buries them. Plain functions that threads call.

Each first stops the heartbeat of its message, so that no extension overtakes the request.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from random import random
from typing import Any

from mutirao.errors import TransportError
from mutirao.model.brokers.message import Cause, Message
from mutirao.transports.sqs.burying import CAUSE, cause_as_text
from mutirao.transports.sqs.calls import (
    LONGEST_DELAY,
    LONGEST_VISIBILITY,
    Entry,
    EntryFailure,
    SqsCalls,
    SqsQueue,
)
from mutirao.transports.sqs.failures import Meaning
from mutirao.transports.sqs.large import LargeBodies
from mutirao.transports.sqs.leases import Lease, LeaseHeartbeat, Timing
from mutirao.transports.sqs.logs import Note, log

PATIENCE = 10.0  # seconds for which what passes is tried again
FIRST_PAUSE = 0.05  # seconds
PASSES = (Meaning.AWAY, Meaning.UNKNOWN_CALLER)
MENDS = (*PASSES, Meaning.DENIED)  # with the help of people, that is


class LastWords:
    """How messages of one transport are settled.

    Parameters:
        dead_queue: returns the queue for the dead of a queue.
        entry: returns a message as it is sent, with the seconds that it waits when it comes; may
            raise what `Transport.publish` returns.
        large: where large arguments are, if they may be.
    """

    def __init__(
        self,
        calls: SqsCalls,
        heartbeat: LeaseHeartbeat,
        dead_queue: Callable[[SqsQueue], SqsQueue],
        entry: Callable[[Message, SqsQueue, float], Entry],
        timing: Timing,
        large: LargeBodies | None,
        *,
        fifo: bool = False,
    ) -> None:
        self.calls, self._heartbeat, self._dead_queue, self._fifo = (
            calls, heartbeat, dead_queue, fifo,
        )  # fmt: skip
        self._large, self._entry = large, entry
        self._pause, self._clock = timing.pause, timing.clock
        self.background: set[asyncio.Task[Any]] = set()

    def fetch(self, id: str) -> bytes:
        """Return large arguments; raises what `LargeBodies.get` does."""
        if self._large is None:
            raise LookupError("its arguments are in S3: say in which bucket by SQS(…, bucket=)")
        return self._large.get(id)

    def delete(self, leases: Sequence[Lease]) -> list[TransportError | None]:
        """Delete finished messages, and their arguments in S3; return for each why not, or None."""
        failures = self._delete(leases)
        done = [lease.large for lease, why in zip(leases, failures, strict=True) if why is None]
        if self._large is not None and (ids := [id for id in done if id]):
            self._large.drop(ids)
        return failures

    def _delete(self, leases: Sequence[Lease]) -> list[TransportError | None]:
        """Delete messages; return for each why it is not deleted, or None.

        The heartbeat continues meanwhile, also while a person has to change something first: a
        later try then finds that the message is still held, and its work is not done twice.
        """
        found = self._trying(
            leases, lambda some: self.calls.delete(leases[0].queue, [each.handle for each in some])
        )
        self._heartbeat.drop(leases)
        failures: list[TransportError | None] = []
        for lease, failure in zip(leases, found, strict=True):
            if failure is None:
                if not lease.copied:
                    Note.DONE(lease.name, lease.queue.name)
            elif failure.meaning in MENDS and self._is_ours(lease):
                lease.settling = False
                self._heartbeat.resume(lease)
            else:
                lease.lost = failure.said
                Note.LOST(lease.name, lease.queue.name, f"not deleted: {failure.said}")
            failures.append(failure and failure.error(f"message {lease.name}"))
        return failures

    def again(
        self, lease: Lease, after: float, behind: Sequence[Lease] = ()
    ) -> TransportError | None:
        """Return one to its queue, at once or later, and at once those behind it in its group.

        SQS delays nothing past 12 hours from when it was received.
        """
        self._heartbeat.drop([lease, *behind])
        seconds = max(0.0, min(after, LONGEST_VISIBILITY - self._heartbeat.age(lease) - 1))
        waits = {lease: seconds}
        # Those behind go first: once the first one is visible, other consumers get it with them.
        found = self._trying(
            [*behind, lease],
            lambda some: self.calls.change(
                lease.queue, [(each.handle, waits.get(each, 0.0)) for each in some]
            ),
        )
        failure = found[-1]
        if failure is None:
            Note.FAILED(lease.name, lease.queue.name, seconds)
            return None
        lease.lost = failure.said
        Note.LOST(lease.name, lease.queue.name, f"not given back: {failure.said}")
        return failure.error(f"message {lease.name}")

    def release(self, leases: Sequence[Lease]) -> None:
        """Give back messages that are not worked on; a failed one is delivered again later."""
        self._heartbeat.drop(leases)
        for lease in leases:
            lease.settling, lease.lost = True, "it was given back"
        self.calls.change(leases[0].queue, [(each.handle, 0.0) for each in reversed(leases)])

    def bury(self, lease: Lease, cause: Cause) -> TransportError | None:
        """Send a message to the dead with its cause, and delete it once that is confirmed."""
        try:
            dead = self._dead_queue(lease.queue)
        except TransportError as error:
            lease.settling = False
            return error
        entry = Entry(lease.body, attributes={CAUSE: cause_as_text(cause)})
        if self._fifo:
            entry = entry._replace(group=lease.group or lease.id, deduplication=f"dead-{lease.id}")
        if entry.size() > dead.largest:  # one of others, whose body leaves no room for the cause
            log.warning("%s is dead without its cause: %s", lease.name, cause.error)
            entry = entry._replace(attributes={})
        what = f"message {lease.name}, which is to be kept among the dead"
        if not lease.copied:
            if failure := self._copy(lease, dead, entry, what):
                return failure
            Note.DEAD(lease.name, lease.queue.name, cause.error_type)
        return self._delete([lease])[0]

    def anew(self, lease: Lease, message: Message, after: float) -> TransportError | None:
        """Send a message in its new form, and delete the old one once that is confirmed.

        One that waits for longer than SQS delays messages is delayed again when it is received.
        """
        wait = max(after, message.delay)
        first = min(wait, LONGEST_DELAY)
        try:
            entry = self._entry(replace(message, delay=first), lease.queue, wait - first)
        except TransportError as error:
            lease.settling = False
            return error
        what = f"message {lease.name}, which is to come again"
        if not lease.copied:
            if failure := self._copy(lease, lease.queue, entry, what):
                return failure
            Note.FAILED(lease.name, lease.queue.name, wait)
        return self._delete([lease])[0]

    def _copy(self, lease: Lease, to: SqsQueue, entry: Entry, what: str) -> TransportError | None:
        [failure] = self._trying([lease], lambda _: self.calls.send(to, [entry]))
        lease.copied = failure is None
        if failure is None:
            return None
        lease.settling = False
        return failure.error(what)

    def _trying(
        self, leases: Sequence[Lease], ask: Callable[[Sequence[Lease]], list[EntryFailure | None]]
    ) -> list[EntryFailure | None]:
        """Ask again for what failed by something that passes, as long as there is time."""
        end, wait = self._clock() + PATIENCE, FIRST_PAUSE
        results: dict[Lease, EntryFailure | None] = {}
        left = list(leases)
        while left:
            results.update(zip(left, ask(left), strict=True))
            left = [each for each in left if _passes(results[each]) and self._in_time(each)]
            if self._clock() + wait > end:
                break
            if left:
                self._pause(wait * (0.5 + random() / 2))
                wait *= 2
        return [results[each] for each in leases]

    def _is_ours(self, lease: Lease) -> bool:
        return lease.lost is None and self._in_time(lease)

    def _in_time(self, lease: Lease) -> bool:
        return min(lease.deadline, lease.ends_at, inf) > self._clock()


def _passes(failure: EntryFailure | None) -> bool:
    return failure is not None and failure.meaning in PASSES
