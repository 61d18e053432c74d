"""Consumes one queue of a broker: receives, runs and settles its jobs.

A delivery becomes a claim and is processed like every claim: slots, executor, outcome. It is
received only when there is room; only the prefetch limits how many are held.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from logging import ERROR
from time import monotonic
from typing import Protocol

from mutirao.aio import Backoff, wait_for
from mutirao.engine.brokers.decoding import Expired, Reader, Undecodable
from mutirao.engine.brokers.redelivered import Suspects
from mutirao.engine.brokers.settling import DeliverySettler, Key, LateStore, Overflow
from mutirao.engine.calls import outcomes
from mutirao.engine.calls.attempt import Begin
from mutirao.engine.dispatch.admission import MOST_LOGGED, ServedTasks, SuspectTurn
from mutirao.engine.dispatch.attempt_events import publish_buried, publish_lost
from mutirao.engine.dispatch.attempt_log import can_be_written
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.dispatch.executor import MAX_LOST_RUNS, Executor
from mutirao.engine.dispatch.slots import Slots
from mutirao.engine.loops import MAX_REST, LoopHealth, LoopRetry, forever
from mutirao.engine.measurement_listeners import Listeners
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import SettlingFailed, TransportError
from mutirao.log import log
from mutirao.model.brokers.message import Ack, Again, Bury, Cause, Delivery, Message
from mutirao.model.jobs.job import Claim, NewJob
from mutirao.ports import Consumer
from mutirao.ports.events import event_transport, published
from mutirao.ports.transport import OnLost, is_for_people
from mutirao.tasks import job_messages


def fitting_prefetch(most: int, least: int) -> int:
    """Return the prefetch for up to `most` deliveries: more of short jobs, fewer of long ones.

    A power of two, so that it does not change with every job. At least one for each slot, so a
    worker that holds few deliveries can receive more.
    """
    return least if most <= least else 1 << most.bit_length()


async def received(
    consumer: Consumer, most: int, seconds: float, stopping: asyncio.Event
) -> list[Delivery]:
    """Wait for deliveries for a while, or until stopped; cancelling loses none."""
    receiving = asyncio.ensure_future(consumer.receive(most))
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait(
            (receiving, stopped), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        stopped.cancel()
        receiving.cancel()
    with suppress(asyncio.CancelledError):
        return await receiving
    return []


async def wait_for_room(dispatcher: Dispatcher, stopping: asyncio.Event) -> None:
    """Wait for a change of what the slots want, for a while."""
    dispatcher.changed.clear()
    if not dispatcher.wanted() and not stopping.is_set():
        await wait_for(dispatcher.changed, min(MAX_REST, dispatcher.patience()))


UNKNOWN_DELAY, MAX_TIMES_UNKNOWN = 5.0, 120  # seconds; ten minutes for workers that have the task
RETURNED_OFTEN = 5  # times, after which a message is published again: brokers limit returns
# The prefetch grows by steps, each after as many jobs have run as were held: the first handlers may
# be shorter than the rest, and no other worker can run what the broker has handed out.
GROWTH, SHRINK_EVERY = 4, 1.0  # factor; seconds
# Seconds after the start of a suspect in which nothing is received: what ends its worker does so
# soon, mostly, and suspects that are published again at that moment exist twice after it.
QUIET = 1.0
_RUNS = count(1)  # distinguishes deliveries of the same message, in this process


class Source(Protocol):
    """The part of a `Transport` that a consumer uses."""

    @property
    def longest_delay(self) -> float:
        """The maximum delay of a published message, in seconds."""
        ...

    @property
    def longest_again(self) -> float:
        """The maximum delay of a returned message, in seconds since it was received."""
        ...

    def consumer(
        self, queue: str, prefetch: int, on_lost: OnLost, *, grace: float = ...
    ) -> AbstractAsyncContextManager[Consumer]:
        """Consume a queue; see `Transport.consumer`."""
        ...

    async def publish(self, messages: Sequence[Message]) -> list[TransportError | None]:
        """Publish messages; see `Transport.publish`."""
        ...


@dataclass(frozen=True, slots=True)
class ConsumedQueue:
    """One queue of a broker, and how it is consumed.

    Parameters:
        reader: reads what other programs published.
        begun: the log line for the start of consuming.
    """

    name: str
    transport: Source
    reader: Reader
    begun: str


@dataclass(frozen=True, slots=True)
class Handlers:
    """How a worker runs received jobs.

    Parameters:
        tasks: the names of the tasks that it serves.
        begin: opens the transactions of handlers.
        listeners: measure the worker; None: nothing does.
    """

    tasks: Collection[str]
    executor: Executor
    slots: Slots
    begin: Begin
    listeners: Listeners | None = None


class Receiver:
    """The loop that consumes one queue.

    Parameters:
        late: takes jobs that must wait for longer than the broker can hold them.
    """

    def __init__(
        self,
        queue: ConsumedQueue,
        settings: WorkerSettings,
        handlers: Handlers,
        pulse: LoopHealth,
        late: LateStore,
    ) -> None:
        self._begun: str | None = queue.begun
        self.queue, self._transport, self._settings = queue.name, queue.transport, settings
        self._served = ServedTasks(handlers.tasks, most=MOST_LOGGED)
        self._pulse, self._reader = pulse, queue.reader
        longest, in_order = queue.transport.longest_again, not queue.transport.longest_delay
        overflow = Overflow(longest, in_order, handlers.executor.most_attempts, late)
        self._returns = DeliverySettler(
            settings.linger, overflow, self._follow, self._settled, self._publish_dead
        )
        self._returns.listeners = handlers.listeners
        self.dispatcher = Dispatcher(
            settings, handlers.executor, self._returns, handlers.slots, handlers.begin
        )
        self.dispatcher.suspect_from, self.dispatcher.note_start = 1, self._clear_the_way
        self._clearing = 0  # suspects that are about to start
        self._quiet_until = 0.0
        self._later = 0  # suspects that were delayed since one started
        what, back = f"cannot consume queue {queue.name!r}", f"consuming queue {queue.name!r} again"
        longest = settings.longest_wait
        self._trouble = LoopRetry(what, back, longest, who="broker", once="text")
        self._refused: TransportError | None = None
        self._consumer: Consumer | None = None
        self._said: set[str] = set()
        self._suspects = Suspects()
        self._prefetch, self._received, self._shrink_at = 0, 0, 0.0
        self._stopping = asyncio.Event()
        self._settled_all = asyncio.Event()
        self.began = asyncio.Event()
        self.consumes = asyncio.Event()  # set once it has begun, or could not

    @property
    def works(self) -> bool:
        """Whether it consumes, as far as it knows."""
        return self._begun is None and not self._trouble.failing

    @property
    def refused(self) -> TransportError | None:
        """What the broker refuses until a person changes something; None: nothing."""
        if self._trouble.unmended:
            return self._refused
        paused = None if self._consumer is None else self._consumer.paused
        return paused if paused is not None and is_for_people(paused) else None

    async def run(self) -> None:
        """Consume until stopped, and until all that was received is settled."""
        await forever(
            self._turns,
            self._pulse,
            self._trouble,
            stopping=self._stopping,
            waits_out=TransportError,
        )
        self.consumes.set()

    def stop(self) -> None:
        """Receive no more and start no more; running handlers continue."""
        self.dispatcher.close()
        self._stopping.set()
        self.dispatcher.changed.set()

    def finish(self) -> None:
        """Make `run` end once all that has ended is settled: no handler runs any more."""
        self._settled_all.set()

    def cut(self) -> None:
        """Settle no more: the broker delivers again what is not settled."""
        self._returns.cancel()

    async def _turns(self) -> float:
        try:
            await self._consume()
        except TransportError as error:
            self._refused = error
            self.consumes.set()
            raise
        return 0.0

    async def _consume(self) -> None:
        self._prefetch, self._received = self._settings.concurrency, 0
        self._shrink_at = monotonic() + SHRINK_EVERY
        consuming = self._transport.consumer(
            self.queue, self._prefetch, self._lost, grace=self._settings.grace
        )
        async with consuming as self._consumer:
            self._back()
            while not self._stopping.is_set():
                await self._turn(self._consumer)
            await self._drain(self._consumer)

    async def _drain(self, consumer: Consumer) -> None:
        """Give back what has not started, and wait until the rest is settled."""
        await consumer.stop()
        with suppress(TransportError):
            while came := await consumer.receive(self._settings.batch):
                for each in came:
                    self._give_back(consumer, each)
        self._returns.give_back(self.dispatcher.drop_unstarted())
        await self._resting(self._settled_all)
        await self._returns.idle()

    async def _resting(self, event: asyncio.Event) -> None:
        while not event.is_set():
            self._pulse.turn()
            await wait_for(event, MAX_REST)

    async def _turn(self, consumer: Consumer) -> None:
        self._pulse.turn()
        if (failure := self._returns.failure) is not None:
            raise SettlingFailed(
                f"a message of queue {self.queue!r} can never be settled: {failure}"
            ) from failure
        dispatcher = self.dispatcher
        if stalled := dispatcher.drop_stalled():
            log.info("handlers take longer than before; giving back %s jobs", len(stalled))
            self._returns.give_back(stalled)
        await self._resize(consumer)
        if (quiet := self._quiet()) > 0:
            dispatcher.changed.clear()
            await wait_for(dispatcher.changed, min(MAX_REST, quiet))
            return
        if not (wanted := dispatcher.wanted()):
            await wait_for_room(dispatcher, self._stopping)
            return
        seconds = max(0.0, min(MAX_REST, dispatcher.patience()))
        if came := await received(consumer, wanted, seconds, self._stopping):
            self._received += len(came)
            dispatcher.feed(await self._sure(self._claims(consumer, came)))
            await asyncio.sleep(0)
        else:
            dispatcher.expect_none()

    async def _resize(self, consumer: Consumer) -> None:
        """Have the broker hand out what the slots need: more of short jobs, fewer of long ones."""
        fitting = fitting_prefetch(self.dispatcher.most(), self._settings.concurrency)
        now, held = monotonic(), self._prefetch
        grows = fitting > held and self._received >= 2 * held
        if grows or (2 * fitting <= held and now >= self._shrink_at):
            self._prefetch, self._received = min(fitting, GROWTH * held), 0
            self._shrink_at = now + SHRINK_EVERY
            await consumer.resize(self._prefetch)

    def _claims(self, consumer: Consumer, came: Sequence[Delivery]) -> list[Claim]:
        """Return the claims of deliveries that this worker runs; settle the other deliveries."""
        claims, now = [], datetime.now(UTC)
        turn = SuspectTurn(self.dispatcher.has_suspect(), self._later)
        for delivery in came:
            run = next(_RUNS)
            message = self._read(consumer, delivery, run, now)
            if message is None:
                continue
            try:
                claim = job_messages.claim_of(message, run, now)
            except Exception as why:  # noqa: BLE001 (it is the end of one message)
                self._bury(consumer, delivery, run, why)
                continue
            key = claim.id, run
            self._returns.hold(key, consumer, delivery, message)
            if claim.task not in self._served.names:
                self._leave_to_others(key, delivery, message)
            elif message.delay:
                wait = min(message.delay, self._transport.longest_delay)
                self._returns.settle(key, Again(delivery, message, wait))
            elif (again := self._not_now(delivery, message, turn)) is not None:
                self._returns.settle(key, again)
            else:
                claims.append(claim)
        self._later = turn.later
        return claims

    async def _sure(self, claims: list[Claim]) -> list[Claim]:
        """Wait until suspects that came with these claims are published again.

        Each claim may end the process. Return them without those that were lost meanwhile.
        """
        if not claims or not self._returns.sends_suspects():
            return claims
        sent = asyncio.ensure_future(self._returns.sent())
        try:
            while not sent.done() and not self._stopping.is_set():
                self._pulse.turn()
                await asyncio.wait([sent], timeout=MAX_REST)
        finally:
            sent.cancel()
        return [claim for claim in claims if self._returns.holds((claim.id, claim.run))]

    def _not_now(self, delivery: Delivery, message: Message, turn: SuspectTurn) -> Again | None:
        """Return how a message that is not run now is delivered again; None: it is run now.

        The start of a suspect is noted in its message first. It runs only while no other suspect
        does.
        """
        if not message.suspect:
            if delivery.returned:
                publish_lost(self._transport, message)
            often = delivery.returned >= RETURNED_OFTEN  # a broker gives it up in the end
            return Again(delivery, message, anew=True) if often else None
        if message.noted:
            self._suspects.came_back()
        if message.lost + 1 >= MAX_LOST_RUNS:  # it is marked dead and not run
            return None
        if turn.take():
            if message.noted:
                turn.later = 0
                return None
            if self._suspects.may_note():
                self._suspects.noting()
                return Again(delivery, replace(message, noted=True), anew=True)
        return Again(delivery, message, turn.wait(), anew=True)

    async def _clear_the_way(self, suspect: Claim) -> bool:
        """Wait until republished messages are settled, so that a suspect can start.

        Nothing is received meanwhile, nor soon after. A suspect may end this process at once:
        messages that were published again and not acknowledged would then exist twice, the
        suspect's own among them.
        """
        self._clearing += 1
        try:
            await self._returns.sent()
        finally:
            self._clearing -= 1
            self._quiet_until = monotonic() + QUIET
            self.dispatcher.changed.set()
        return True

    def _quiet(self) -> float:
        """Return the seconds for which nothing is received, as a suspect starts; 0: none does."""
        if self._clearing:
            return MAX_REST
        left = self._quiet_until - monotonic()
        return left if left > 0 and self.dispatcher.holds_suspect() else 0.0

    def _read(
        self, consumer: Consumer, delivery: Delivery, run: int, now: datetime
    ) -> Message | None:
        """Return the message of a delivery; None if it was settled because none is to run it."""
        try:
            message = self._reader.read(delivery, now)
            return self._suspects.judged(message, delivery.returned)
        except Expired as why:
            log.info("a message of queue %r is dropped: %s", self.queue, why)
            self._returns.hold((0, run), consumer, delivery, None)
            self._returns.settle((0, run), Ack(delivery))
        except Undecodable as why:
            self._bury(consumer, delivery, run, why, why.kind)
        return None

    def _bury(
        self,
        consumer: Consumer,
        delivery: Delivery,
        run: int,
        why: Exception,
        kind: str | None = None,
    ) -> None:
        """Bury a message that cannot be read: it would be delivered again and again."""
        cause = why.__cause__ if delivery.foreign is not None else None
        if cause is not None and not can_be_written(cause):
            cause = None
        now, error = datetime.now(UTC), outcomes.shortened(str(why))
        self._say(f"a message of queue {self.queue!r} is dead: {error}", kind, cause)
        buried = Cause(error_type="Unreadable", error=error, first_at=now, last_at=now)
        self._returns.hold((0, run), consumer, delivery, None)
        self._returns.bury((0, run), buried)

    def _leave_to_others(self, key: Key, delivery: Delivery, message: Message) -> None:
        """Leave a message to workers that have its task; bury it if none takes it for long."""
        task = message.task
        if job_messages.times_unknown(message) >= MAX_TIMES_UNKNOWN:
            reason = f"no worker had its task {task!r} for a long time; register it, then return it"
            dead = outcomes.dead("UnknownTask", reason)
            log.error("job %s is dead: %s", key[0], reason)
            cause = job_messages.cause_of(message, dead, datetime.now(UTC))
            self._returns.bury(key, cause)
            return
        then = (
            f"jobs of queue {self.queue} left to others; without any for ten minutes, they are dead"
        )
        self._served.leave([task], then, ERROR)
        again = Again(delivery, job_messages.met_unknown(message), UNKNOWN_DELAY, anew=True)
        self._returns.settle(key, again)

    def _give_back(self, consumer: Consumer, delivery: Delivery) -> None:
        run = next(_RUNS)
        message = self._read(consumer, delivery, run, datetime.now(UTC))
        if message is not None:
            self._returns.hold((0, run), consumer, delivery, message)
            self._returns.give_back([(0, run)])

    def _lost(self, deliveries: Sequence[Delivery]) -> None:
        """End attempts whose deliveries this worker has lost: other workers receive them again."""
        self._suspects.cut(self._returns.ids(deliveries))
        self.dispatcher.lose(self._returns.lose(deliveries))

    def _publish_dead(self, settling: Bury, message: Message | None) -> None:
        publish_buried(self._transport, self.queue, settling, message)

    def _settled(self) -> None:
        self.dispatcher.notify_if_room()

    async def _follow(self, job: NewJob) -> None:
        """Publish the on_dead job of a dead job, until the broker confirms it."""
        message = job_messages.message_of(job, job_messages.new_id(), 0.0)
        backoff = Backoff(self._settings.longest_wait)
        while (error := (await self._transport.publish([message]))[0]) is not None:
            wait = backoff.next()
            log.error("the on_dead job of a dead one waits: %s; again in %.1f s", error, wait)
            await asyncio.sleep(wait)
        if (events := event_transport(self._transport)) is not None:
            events.tell(published(job.task, job.queue, message.id))

    def _back(self) -> None:
        if self._begun is None:
            self._suspects.connected_again()
            self._trouble.over()
        else:
            self._trouble.forget()
            log.info("%s", self._begun)
            self._begun = None
        self.began.set()
        self.consumes.set()

    def _say(self, what: str, kind: str | None = None, error: BaseException | None = None) -> None:
        """Log once what applies to many messages."""
        if (subject := kind or what) not in self._said:
            self._said.add(subject)
            log.error("%s", what, exc_info=error)
