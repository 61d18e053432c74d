"""Doorbells: a broker carries the id and the run of a job that is in a store, and nothing else.

A job whose doorbell was rung waits in a *rung* lane, which no claim reads: the lane it came from,
behind `RUNG_LANE_PREFIX`. Its `run_at` there is when the doorbell was rung. Whoever receives the
doorbell claims the job by id and run, which brings it back to its own lane.
"""

from typing import NamedTuple, Self

from mutirao.model.lanes import RUNG_LANE_PREFIX
from mutirao.model.message import Message


def rung_lane(lane: str) -> str:
    """Return the lane in which a job of this lane waits once its doorbell was rung."""
    return RUNG_LANE_PREFIX + lane


def is_rung(lane: str) -> bool:
    """Return whether jobs of this lane wait for their doorbells to be answered."""
    return lane.startswith(RUNG_LANE_PREFIX)


def unrung_lane(lane: str) -> str:
    """Return the lane from which the jobs of a rung lane came."""
    return lane.removeprefix(RUNG_LANE_PREFIX)


class Doorbell(NamedTuple):
    """What a broker carries of a job: its id and run, and what helps to hand it out.

    Parameters:
        id, run: the job, and its run. If it has another one by now, the doorbell is stale.
        queue: the job's queue.
        priority: the job's priority.
        task: the name of its task, so that who does not have it can leave it to others.
        group: the job's group, within which brokers that can keep an order.
    """

    id: int
    run: int
    queue: str
    priority: int
    task: str
    group: str | None = None

    def message(self) -> Message:
        """Return the message that a broker carries: the same whenever this run is published."""
        return Message(
            id=f"{self.id}.{self.run}",
            task=self.task,
            queue=self.queue,
            run=self.run,
            ordering_key=self.group,
        )

    @classmethod
    def of(cls, message: Message) -> Self:
        """Return the doorbell that a message is.

        Raises:
            ValueError: it is none.
        """
        id, dot, run = message.id.partition(".")
        if not (dot and id.isascii() and id.isdigit() and run == str(message.run)):
            raise ValueError(f"message {message.id!r} is no doorbell")
        return cls(int(id), message.run, message.queue, 0, message.task, message.ordering_key)
