"""The deliveries of one queue to one worker."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

from mutirao.errors import DeliveryLost, TransportError, TransportUnavailable
from mutirao.model.brokers.message import Ack, Again, Bury, Delivery, Settling
from mutirao.ports.arrivals import Arrivals
from mutirao.ports.transport import OnLost
from mutirao.transports.sqs.bodies import message_in, number
from mutirao.transports.sqs.calls import MOST, SqsQueue
from mutirao.transports.sqs.deletes import Deletes
from mutirao.transports.sqs.groups import Groups
from mutirao.transports.sqs.leases import Lease, LeaseHeartbeat
from mutirao.transports.sqs.logs import Note
from mutirao.transports.sqs.options import SqsOptions
from mutirao.transports.sqs.polling import Polling, fitting_wait
from mutirao.transports.sqs.settling import LastWords

Call = Callable[..., Any]  # calls a plain function in a thread, and awaits it
Result = TransportError | None


class SqsConsumer:
    """Receives in a thread, and settles in others; all else happens in one event loop."""

    def __init__(
        self,
        queue: SqsQueue,
        prefetch: int,
        on_lost: OnLost,
        heartbeat: LeaseHeartbeat,
        settler: LastWords,
        call: Call,
        options: SqsOptions,
        grace: float,
    ) -> None:
        self._queue, self._prefetch, self._on_lost = queue, prefetch, on_lost
        self._heartbeat, self._settler, self._call, self._options = (
            heartbeat,
            settler,
            call,
            options,
        )
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._held: dict[Lease, Delivery] = {}
        self._newest: dict[str, Lease] = {}  # of each id at SQS
        self._come: Arrivals[Lease] = Arrivals()
        self._groups = Groups()
        self._out: set[Lease] = set()  # delivered, and not settled
        self._deletes = Deletes(self._delete, lambda: len(self._out))
        self._begun, self._ended = asyncio.Event(), asyncio.Event()
        self._polling = Polling(
            settler.calls, queue, fitting_wait(options.wait, grace), options.visibility, self._take,
            lambda: self._call_soon(self._begun.set),
            lambda error: self._call_soon(self._break, error), lambda: self._call_soon(self._end),
            1 if options.fifo else MOST,
        )  # fmt: skip

    async def begin(self) -> None:
        """Begin to receive; return once SQS has answered, or raise its error."""
        self._polling.start(self._prefetch)
        await self._begun.wait()
        if self._come.broken is not None:
            raise self._come.broken

    @property
    def paused(self) -> TransportError | None:
        """Why nothing is received for a while; see `Consumer.paused`."""
        return self._polling.paused

    async def receive(self, most: int) -> list[Delivery]:
        """Wait for deliveries; see `Consumer.receive`."""
        return [self._hand_out(lease) for lease in await self._come.take(most)]

    async def settle(self, settlings: Sequence[Settling]) -> list[Result]:
        """Settle deliveries; see `Consumer.settle`."""
        # Not cancelled in the middle: the results of requests to SQS must be known here.
        return await asyncio.shield(asyncio.ensure_future(self._settle(settlings)))

    async def resize(self, prefetch: int) -> None:
        """Change the prefetch; see `Consumer.resize`."""
        more, self._prefetch = prefetch - self._prefetch, prefetch
        self._polling.add_room(more)

    async def stop(self) -> None:
        """Receive no more; returns when SQS has answered the last request, a long poll at most."""
        self._polling.stop()
        await self._ended.wait()

    async def leave(self) -> None:
        """Delete settled messages, and give back the rest.

        Not before the last request is answered: it would receive the messages that are given back.
        """
        self._polling.stop()
        await self._deletes.flush()
        await self._ended.wait()
        with self._lock:
            leases = list(self._held)
            self._held.clear()
            self._newest.clear()
        self._come.clear()
        if leases:
            await self._call(self._settler.release, leases)

    def _hand_out(self, lease: Lease) -> Delivery:
        self._out.add(lease)
        Note.STARTED(lease.name, self._queue.name)
        return self._held[lease]

    def _take(self, found: list[dict[str, Any]]) -> None:
        """Hold received messages, in the receiving thread."""
        new = self._hold_all(found, self._heartbeat.now())
        if len(new) < len(found):
            self._polling.add_room(len(found) - len(new))
        if new and not self._call_soon(self._arrive, new):
            self._settler.release(new)  # the event loop is closed: no consumer wants them

    def _hold_all(self, found: list[dict[str, Any]], now: float) -> list[Lease]:
        """Return leases of received messages that may be worked on now.

        A message whose arguments cannot be read from S3 now is delivered again when its visibility
        ends, together with those behind it in its group.
        """
        new, left = list[Lease](), dict[str, TransportUnavailable]()
        for raw in found:
            group = self._group_of(raw)
            try:
                if group in left:
                    raise left[group]
                lease = self._hold(raw, now)
            except TransportUnavailable as away:
                Note.LEFT(raw["MessageId"], self._queue.name, away)
                if group is not None:
                    left[group] = away
            else:
                new += filter(None, [lease])
        return new

    def _group_of(self, raw: dict[str, Any]) -> str | None:
        """Return the group in which a received message keeps its order, if it does."""
        group: str | None = raw.get("Attributes", {}).get("MessageGroupId")
        return group if self._options.fifo else None

    def _hold(self, raw: dict[str, Any], now: float) -> Lease | None:
        """Return a lease of a received message; None if it is held already: SQS repeats itself.

        One that is being settled is not held: it may have been given back a moment ago.

        Raises:
            TransportUnavailable: its arguments cannot be had from S3 now.
        """
        id, handle, attributes = raw["MessageId"], raw["ReceiptHandle"], raw.get("Attributes", {})
        with self._lock:
            known = self._newest.get(id)
            if known is not None and not known.settling:
                self._heartbeat.renewed(known, handle)
                return None
        receives = number(attributes, "ApproximateReceiveCount")
        counted = receives if self._options.fifo else 1
        read = message_in(raw["Body"], counted, self._settler.fetch)
        name = id if read.message is None else read.message.id
        lease = self._heartbeat.begin(self._queue, id, name, handle, self._lose_soon, now)
        lease.body, lease.large = raw["Body"], read.large
        lease.group = self._group_of(raw)
        with self._lock:
            self._newest[id] = lease
            returned = max(0, receives - counted)
            self._held[lease] = Delivery(
                read.message, read.shown, read.problem, lease, returned=returned
            )
        Note.GOT(name, self._queue.name, receives)
        return lease

    def _arrive(self, leases: list[Lease]) -> None:
        self._come.put(*self._groups.arrive(leases))

    def _lose_soon(self, lease: Lease) -> None:
        self._call_soon(self._lose, lease)

    def _lose(self, lease: Lease) -> None:
        """End leases that this worker has lost, and those behind them in their groups."""
        delivery = self._held.get(lease)
        if delivery is not None and self._forget(lease):
            if behind := self._groups.stop(lease):
                self._settle_soon(behind)
            if lease in self._come:
                self._come.remove(lease)
            else:
                self._on_lost([delivery])

    def _settle_soon(self, behind: list[Lease]) -> None:
        for each in behind:
            self._forget(each)
        task = self._loop.create_task(self._call(self._settler.release, behind))
        self._settler.background.add(task)
        task.add_done_callback(self._settler.background.discard)

    async def _settle(self, settlings: Sequence[Settling]) -> list[Result]:
        results: dict[int, Result] = {}
        acks: list[tuple[int, Lease]] = []
        others: list[tuple[int, Again | Bury, Lease]] = []
        for n, each in enumerate(settlings):
            lease = self._mine(each.delivery)
            if lease is None:
                results[n] = _not_mine(each.delivery)
            elif isinstance(each, Ack):
                acks.append((n, lease))
            else:
                others.append((n, each, lease))
        other = asyncio.gather(*(self._settle_other(each, lease) for _, each, lease in others))
        deleted = await self._deletes.all([lease for _, lease in acks])
        failures = await other
        results.update(zip((n for n, _ in acks), deleted, strict=True))
        results.update(zip((n for n, _, _ in others), failures, strict=True))
        return [results[n] for n in range(len(settlings))]

    async def _settle_other(self, settling: Again | Bury, lease: Lease) -> Result:
        if isinstance(settling, Bury):
            why = await self._call(self._settler.bury, lease, settling.cause)
            return self._copied(lease, why)
        if not self._options.fifo:
            return self._copied(
                lease, await self._call(self._settler.anew, lease, settling.message, settling.after)
            )
        behind = self._groups.stop(lease)
        for each in behind:
            self._forget(each)
        why = await self._call(self._settler.again, lease, settling.after, behind)
        self._forget(lease)
        return self._unless_lost(lease, why)

    async def _delete(self, leases: Sequence[Lease]) -> list[Result]:
        found: list[Result] = await self._call(self._settler.delete, leases)
        for lease, why in zip(leases, found, strict=True):
            if why is None:
                self._finish(lease)
            else:
                self._unless_lost(lease, why)
        return found

    def _finish(self, lease: Lease) -> None:
        """Forget one that is done with, and let the next of its group have its turn."""
        following = self._groups.over(lease)
        self._forget(lease)
        if following is not None:
            self._come.put(following)

    def _copied(self, lease: Lease, why: Result) -> Result:
        if why is None:
            self._finish(lease)
        return self._unless_lost(lease, why)

    def _unless_lost(self, lease: Lease, why: Result) -> Result:
        lost = why is not None and lease.lost is not None and self._forget(lease)
        if lost and (behind := self._groups.stop(lease)):
            self._settle_soon(behind)
        return why

    def _forget(self, lease: Lease) -> bool:
        """Hold one no more; return whether it was held."""
        self._out.discard(lease)
        with self._lock:
            held = self._held.pop(lease, None) is not None
            if self._newest.get(lease.id) is lease:
                del self._newest[lease.id]
        if held:
            self._polling.add_room(1)
        return held

    def _mine(self, delivery: Delivery) -> Lease | None:
        lease = delivery.tag
        if not isinstance(lease, Lease) or lease.settling:
            return None
        with self._lock:
            if lease not in self._held:
                return None
            lease.settling = True
        return lease

    def _break(self, error: TransportError) -> None:
        self._come.broken = error
        self._come.notify()
        self._begun.set()

    def _end(self) -> None:
        self._ended.set()
        self._come.ended = True
        self._come.notify()

    def _call_soon(self, what: Callable[..., object], *values: object) -> bool:
        """Call something in the consumer's event loop; return whether it runs."""
        try:
            self._loop.call_soon_threadsafe(what, *values)
        except RuntimeError:  # it is closed
            return False
        return True


def _not_mine(delivery: Delivery) -> DeliveryLost:
    lease = delivery.tag
    why = lease.lost if isinstance(lease, Lease) and lease.lost else "it was settled before"
    return DeliveryLost(f"the delivery is not this consumer's any more: {why}")
