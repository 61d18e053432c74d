"""Doorbells of one carried queue: received from the broker, answered by a claim, acknowledged.

A doorbell is acknowledged once the job is claimed, or found to be claimed already: from then on the
heartbeat keeps the job, not the broker, however long its handler takes. If the worker is killed
between the claim and the acknowledgement, the doorbell comes again and is stale.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from time import monotonic

from mutirao.engine.dispatcher import Dispatcher
from mutirao.engine.logs import log
from mutirao.engine.pulse import MAX_REST, Pulse
from mutirao.engine.receiving import fitting_prefetch, received, wait_for_room
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.trouble import Trouble
from mutirao.model.doorbell import Doorbell
from mutirao.model.job import Claim
from mutirao.model.message import Ack, Again, Bury, Cause, Delivery, Settling
from mutirao.ports import Consumer, Transport

UNKNOWN_DELAY = 1.0  # seconds until a doorbell comes again whose task this worker does not have

# Claims jobs by their doorbells and has them started; returns what was claimed.
Answer = Callable[[Sequence[Doorbell]], Awaitable[Sequence[Claim]]]


class Doorbells:
    """The loop of one queue.

    Parameters:
        served: the names of the tasks that the worker serves.
        answer: claims the jobs of doorbells, and has them started.
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
        self._served, self._dispatcher, self._answer = served, dispatcher, answer
        self._waits_since: float | None = None
        self._stopping = asyncio.Event()
        self.reached: datetime | None = None

    @property
    def quiet_for(self) -> float:
        """The seconds for which no doorbell has come although there was room."""
        return 0.0 if self._waits_since is None else monotonic() - self._waits_since

    async def run(self, pulse: Pulse) -> None:
        """Answer until stopped; wait while the broker or the database is away."""
        what = f"cannot answer doorbells of queue {self.queue}"
        back = f"answering those of queue {self.queue} again"
        longest = self._settings.longest_wait
        trouble = Trouble(what, back, longest, who="database or broker")
        while not self._stopping.is_set():
            pulse.turn()
            try:
                await self._consume(pulse, trouble)
            except Exception as error:  # noqa: BLE001 (raised if it does not pass)
                self._waits_since = None
                await pulse.rest(trouble.met(error))

    def stop(self) -> None:
        """Answer no more; what the broker has handed out goes back to it."""
        self._stopping.set()
        self._dispatcher.changed.set()

    async def _consume(self, pulse: Pulse, trouble: Trouble) -> None:
        prefetch = self._settings.concurrency
        async with self._transport.consumer(self.queue, prefetch, _come_again) as consumer:
            trouble.over()
            while not self._stopping.is_set():
                pulse.turn()
                room = self._dispatcher.wanted()
                if not room:
                    self._waits_since = None
                    await wait_for_room(self._dispatcher, self._stopping)
                    continue
                fitting = fitting_prefetch(room, self._settings.concurrency)
                if fitting > prefetch or 4 * fitting <= prefetch:
                    prefetch = fitting
                    await consumer.resize(prefetch)
                if came := await self._receive(consumer, room):
                    await self._take(consumer, came)

    async def _receive(self, consumer: Consumer, most: int) -> list[Delivery]:
        """Wait for doorbells for a while."""
        if self._waits_since is None:
            self._waits_since = monotonic()
        if came := await received(consumer, most, MAX_REST, self._stopping):
            self._waits_since = None
        return came

    async def _take(self, consumer: Consumer, came: Sequence[Delivery]) -> None:
        settlings: list[Settling] = []
        doorbells: list[Doorbell] = []
        for delivery in came:
            settling, doorbell = self._read(delivery)
            settlings.append(settling)
            doorbells += [doorbell] if doorbell else []
        if doorbells:
            claims = await self._answer(doorbells)
            self.reached = max((claim.run_at for claim in claims), default=self.reached)
        told = await consumer.settle(settlings)
        if lost := [error for error in told if error is not None]:
            log.info("%s doorbells come again, and are stale: %s", len(lost), lost[0])

    def _read(self, delivery: Delivery) -> tuple[Settling, Doorbell | None]:
        """Return what becomes of a delivery, and its doorbell if this worker answers it."""
        message = delivery.message
        try:
            if message is None:
                raise ValueError(delivery.problem or "it cannot be read")
            doorbell = Doorbell.of(message)
        except ValueError as problem:
            log.error("a message of queue %s is dead: %s", self.queue, problem)
            return Bury(delivery, Cause(error_type="NoDoorbell", error=str(problem))), None
        if message.task not in self._served:
            return Again(delivery, message, UNKNOWN_DELAY), None
        return Ack(delivery), doorbell


def _come_again(deliveries: Sequence[Delivery]) -> None:
    """Do nothing: the jobs of doorbells that were answered are in the store."""
