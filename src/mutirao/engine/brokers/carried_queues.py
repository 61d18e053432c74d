"""Serves the queues of one worker whose jobs a broker announces, by doorbells and the relay.

A worker without such queues imports nothing of doorbells and consumers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from mutirao.engine.brokers.relay import Backlog, Relay, duty_of
from mutirao.engine.claiming.producer import Producer
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.loops import LoopHealth
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.worker_row import WorkerRow
from mutirao.errors import ConfigurationError
from mutirao.model.brokers.doorbell import MAX_DOORBELLS_PER_MESSAGE, Doorbell
from mutirao.model.jobs.job import Claim
from mutirao.ports import Transport
from mutirao.ports.brokers import close_transports

if TYPE_CHECKING:
    from mutirao.engine.brokers.doorbells import Doorbells


@dataclass(frozen=True, slots=True)
class CarriedQueues:
    """The carried queues that a worker serves.

    Parameters:
        transports: their brokers, by queue.
        relay_only: whether it relays these queues, answers no doorbell and runs no job.
        doorbells_per_message: their number, if it only relays; others choose it by durations.
    """

    transports: Mapping[str, Transport] = field(default_factory=dict)
    relay_only: bool = False
    doorbells_per_message: int = 1


class Carried:
    """What a worker does for the queues that brokers carry.

    Parameters:
        row: the worker's.
        tasks: the names of those that the application has.
        producer: leaves these queues to this object; wake-ups for them are passed to the relay.
    """

    def __init__(
        self,
        row: WorkerRow,
        queues: CarriedQueues,
        settings: WorkerSettings,
        tasks: Collection[str],
        dispatcher: Dispatcher,
        producer: Producer,
    ) -> None:
        self._transports = transports = queues.transports
        self.answers, self._producer = not queues.relay_only, producer
        self.on_jobs: Callable[[], object] = lambda: None  # called when doorbells have brought jobs
        served = tasks if settings.tasks is None else settings.tasks
        self._doorbells: Mapping[str, Doorbells] = {}
        self._heard: Mapping[str, Doorbells | Backlog] = {}
        if not self.answers:
            per_message = partial(int, queues.doorbells_per_message)
            self._heard = {
                queue: Backlog(queue, transport, settings)
                for queue, transport in transports.items()
            }
        else:
            per_message = partial(_doorbells_per_message, dispatcher)
            if transports:
                from mutirao.engine.brokers.doorbells import Doorbells

                self._heard = self._doorbells = {
                    queue: Doorbells(queue, transport, settings, served, dispatcher, self._answer)
                    for queue, transport in transports.items()
                }
        duty = duty_of(transports, relay_only=queues.relay_only)
        self._relay = Relay(row, transports, self._heard, settings, per_message, duty)
        producer.leave_to(self._relay)
        # Set while this worker asks for the duties that all workers share, and for the agenda.
        # Among workers that have no other query to make, the one that relays asks for all of them.
        self.keeps_house = self._relay.holds
        if producer.has_lanes:
            self.keeps_house = asyncio.Event()
            self.keeps_house.set()

    async def _answer(self, doorbells: Sequence[Doorbell]) -> Sequence[Claim]:
        """Claim the jobs of doorbells and start them."""
        if claims := await self._producer.answer(doorbells):
            self.on_jobs()
        return claims

    def loops(self) -> Mapping[str, Callable[[LoopHealth], Coroutine[Any, Any, None]]]:
        """Return its loops by name."""
        if not self._transports:
            return {}
        heard = {f"doorbells of {queue}": each.run for queue, each in self._heard.items()}
        return heard | {"relay": self._relay.run}

    def unmended(self) -> list[str]:
        """Return what brokers refuse until a person changes something."""
        parts: list[Doorbells | Relay] = [self._relay, *self._doorbells.values()]
        found = (each.unmended for each in parts)
        return [text for text in found if text is not None]

    def comparisons(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Return comparisons of its brokers with what its queues need, by name; to be awaited."""
        if not self._transports:
            return iter(())
        from mutirao.engine.brokers.setup_differences import comparisons

        began = {queue: each.began for queue, each in self._doorbells.items()}
        return comparisons(self._transports, began)

    @property
    def duty(self) -> str | None:
        """The duty of the relay; None if there is none."""
        return self._relay.duty if self._transports else None

    def note_holder(self, held_elsewhere: float) -> None:
        """Take from a heartbeat the seconds for which another worker still holds the duty."""
        self._relay.note_holder(held_elsewhere)

    def stop(self) -> None:
        """Let the loops end: received doorbells are answered, rung ones are published."""
        for each in self._heard.values():
            each.stop()
        self._relay.stop()

    async def close(self) -> None:
        """Close the connections to the brokers."""
        await close_transports(self._transports)


def check_doorbells_per_message(number: int) -> None:
    """Raise ConfigurationError if a message cannot have this number of doorbells."""
    if not 1 <= number <= MAX_DOORBELLS_PER_MESSAGE:
        raise ConfigurationError(
            f"{number} doorbells are to be in one message; give 1 to {MAX_DOORBELLS_PER_MESSAGE}"
        )


def _doorbells_per_message(dispatcher: Dispatcher) -> int:
    """Return how many doorbells one message carries: the jobs that a slot runs in about 100 ms.

    The prefetch of a consumer is one message for each slot, so it holds no more jobs than that. It
    is one doorbell if jobs take longer, or if no duration is known yet.
    """
    return max(1, min(MAX_DOORBELLS_PER_MESSAGE, dispatcher.ahead_of_slot()))
