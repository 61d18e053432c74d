"""Consumes the doorbells of one queue: a message names jobs, which are claimed in the database.

A doorbell is acknowledged once its job is claimed, or was found to be claimed already. From then on
the heartbeat keeps the job, not the broker, however long its handler takes. If the worker is killed
between the claim and the acknowledgement, the broker delivers a doorbell that is stale.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from time import monotonic

from mutirao.engine.brokers.consumer import fitting_prefetch, received, wait_for_room
from mutirao.engine.calls import outcomes
from mutirao.engine.dispatch.admission import MOST_LOGGED, ServedTasks
from mutirao.engine.dispatch.attempt_events import publish_buried
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.loops import MAX_REST, LoopHealth, LoopRetry, forever
from mutirao.engine.settings import WorkerSettings
from mutirao.log import log
from mutirao.model.brokers.doorbell import Doorbell, doorbells_of
from mutirao.model.brokers.message import Ack, Again, Bury, Cause, Delivery, Message, Settling
from mutirao.model.jobs.job import Claim
from mutirao.ports import Consumer, Transport
from mutirao.ports.transport import is_for_people

# Seconds until a doorbell comes again whose task this worker does not have: at first, and at most.
UNKNOWN_FIRST, UNKNOWN_LONGEST = 1.0, 30.0

# Claims jobs by their doorbells and has them started; returns what was claimed.
Answer = Callable[[Sequence[Doorbell]], Awaitable[Sequence[Claim]]]

Read = tuple[Settling, list[Doorbell]]  # how a delivery is settled, and its doorbells


class Doorbells:
    """The loop that answers the doorbells of one queue.

    Parameters:
        served: the names of the tasks that the worker serves.
        answer: claims the jobs of doorbells and starts them.
    """

    def __init__(
        self,
        queue: str,
        transport: Transport,
        settings: WorkerSettings,
        served: Collection[str],
        dispatcher: Dispatcher,
        answer: Answer,
    ) -> None:
        self.queue, self._transport, self._settings = queue, transport, settings
        self._served = ServedTasks(served, most=MOST_LOGGED)
        self._dispatcher, self._answer = dispatcher, answer
        self._waits_since: float | None = None
        self._prefetch, self._size = settings.concurrency, 1  # messages; doorbells in each, lately
        self._left: deque[Read] = deque()  # received, and waiting for room
        self._stopping = asyncio.Event()
        what = f"cannot answer doorbells of queue {queue}"
        back, longest = f"answering those of queue {queue} again", settings.longest_wait
        self._trouble = LoopRetry(what, back, longest, who="database or broker", once="text")
        self._consumer: Consumer | None = None
        self.began = asyncio.Event()
        self.reached: datetime | None = None

    @property
    def quiet_for(self) -> float:
        """The seconds for which no doorbell has come although there was room."""
        return 0.0 if self._waits_since is None else monotonic() - self._waits_since

    @property
    def unmended(self) -> str | None:
        """What the broker refuses until a person changes something; None: nothing."""
        paused = None if self._consumer is None else self._consumer.paused
        if self._trouble.unmended or paused is None or not is_for_people(paused):
            return self._trouble.unmended
        return f"queue {self.queue!r}: {paused}"

    async def run(self, pulse: LoopHealth) -> None:
        """Answer until stopped; wait while the broker or the database is away."""
        await forever(partial(self._turns, pulse), pulse, self._trouble, stopping=self._stopping)

    def stop(self) -> None:
        """Answer no more; unanswered messages go back to the broker."""
        self._stopping.set()
        self._dispatcher.changed.set()

    async def _turns(self, pulse: LoopHealth) -> float:
        try:
            await self._consume(pulse)
        except Exception:
            self._waits_since = None
            raise
        return 0.0

    async def _consume(self, pulse: LoopHealth) -> None:
        self._prefetch, self._size = self._settings.concurrency, 1
        self._left.clear()
        consuming = self._transport.consumer(
            self.queue, self._prefetch, _come_again, grace=self._settings.grace
        )
        async with consuming as consumer:
            self._consumer = consumer
            self._trouble.over()
            self.began.set()
            while not self._stopping.is_set():
                pulse.turn()
                room = self._dispatcher.wanted()
                if not room:
                    self._waits_since = None
                    await wait_for_room(self._dispatcher, self._stopping)
                    continue
                await self._resize(consumer, room)
                if came := await self._receive(consumer, room):
                    await self._take(consumer, came)

    async def _resize(self, consumer: Consumer, room: int) -> None:
        """Set the prefetch to the number of messages whose jobs fit."""
        least = self._messages(self._settings.concurrency)
        fitting = fitting_prefetch(self._messages(min(room, self._dispatcher.most())), least)
        if fitting > self._prefetch or 4 * fitting <= self._prefetch:
            self._prefetch = fitting
            await consumer.resize(fitting)

    def _messages(self, jobs: int) -> int:
        """Return how many messages bring this number of jobs."""
        return max(1, -(-jobs // self._size))

    async def _receive(self, consumer: Consumer, room: int) -> list[Read]:
        """Wait for doorbells for a while; return those for which there is room.

        At least one message is returned. It may bring more jobs than there is room for; these wait
        for a slot.
        """
        if not self._left:
            if self._waits_since is None:
                self._waits_since = monotonic()
            if not (came := await received(consumer, room, MAX_REST, self._stopping)):
                return []
            self._waits_since = None
            self._left.extend(self._read(each) for each in came)
            self._size = max(1, sum(len(bells) for _, bells in self._left) // len(came))
        return self._fitting(room)

    def _fitting(self, room: int) -> list[Read]:
        fitting = [self._left.popleft()]
        room -= len(fitting[0][1])
        while self._left and (size := len(self._left[0][1])) <= room:
            fitting.append(self._left.popleft())
            room -= size
        return fitting

    async def _take(self, consumer: Consumer, came: Sequence[Read]) -> None:
        if doorbells := [bell for _, bells in came for bell in bells]:
            claims = await self._answer(doorbells)
            self.reached = max((claim.run_at for claim in claims), default=self.reached)
        results = await consumer.settle([settling for settling, _ in came])
        if lost := [error for error in results if error is not None]:
            log.info("%s messages of doorbells come again, and are stale: %s", len(lost), lost[0])

    def _read(self, delivery: Delivery) -> Read:
        """Return how a delivery is settled, and its doorbells if this worker answers them."""
        message = delivery.message
        try:
            if message is None:
                raise ValueError(delivery.problem or "it cannot be read")
            doorbells = doorbells_of(message)
        except ValueError as problem:
            error = outcomes.shortened(str(problem))
            log.error("a message of queue %s is dead: %s", self.queue, error)
            buried = Bury(delivery, Cause(error_type="NoDoorbell", error=error))
            publish_buried(self._transport, self.queue, buried, message)
            return buried, []
        if message.task not in self._served.names:
            return self._leave_to_others(delivery, message), []
        return Ack(delivery), doorbells

    def _leave_to_others(self, delivery: Delivery, message: Message) -> Settling:
        """Return a doorbell to the broker, for workers that have its task.

        It waits for longer each time. After the grace period it is dropped: the relay then takes
        the job for lost and rings again. Without the drop, a job would have more and more
        doorbells.
        """
        self._served.leave([message.task], f"jobs of queue {self.queue} left to others")
        wait, waited = UNKNOWN_FIRST, 0.0
        for _ in range(1, message.attempt):
            waited, wait = waited + wait, min(2 * wait, UNKNOWN_LONGEST)
            if waited >= self._settings.doorbell_grace:
                return Ack(delivery)
        return Again(delivery, replace(message, attempt=message.attempt + 1), wait)


def _come_again(deliveries: Sequence[Delivery]) -> None:
    """Do nothing: the jobs of doorbells that were answered are in the store."""
