"""Doorbells: a broker carries the id and the run of a job that is in a store, and nothing else.

A job whose doorbell was rung waits in a *rung* lane, which no claim reads: the lane it came from,
behind `RUNG_LANE_PREFIX`. Its `run_at` there is when the doorbell was rung. The worker that
receives the doorbell claims the job by id and run. The job is then back in its own lane, also if it
has to wait again. Doorbells of several short jobs share one message, because a message costs more
than the claim of a job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, NamedTuple

from mutirao.model.jobs.lanes import RUNG_LANE_PREFIX

if TYPE_CHECKING:
    from mutirao.model.brokers.message import Message

MAX_DOORBELLS_PER_MESSAGE = 50  # doorbells in one message
_MOST = 1 << 63  # integers of databases are below this


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
    """What a broker carries of a job: its id and run, and facts for its distribution.

    Parameters:
        id, run: the job, and its run. If it has another one by now, the doorbell is stale.
        queue: the job's queue.
        priority: the job's priority.
        task: the name of its task, so that workers without it can leave the job to others.
        group: the job's group; brokers that can keep an order keep it within the group.
    """

    id: int
    run: int
    queue: str
    priority: int
    task: str
    group: str | None = None

    def message(self) -> Message:
        """Return the message for the broker: the same whenever this run is published."""
        from mutirao.model.brokers.message import Message

        return Message(
            id=f"{self.id}.{self.run}",
            task=self.task,
            queue=self.queue,
            run=self.run,
            ordering_key=self.group,
        )


def messages_of(
    doorbells: Sequence[Doorbell], most: int
) -> Iterator[tuple[Message, Sequence[Doorbell]]]:
    """Yield the messages for the broker, each with its doorbells.

    Up to `most` doorbells of a queue and task share a message. A doorbell of a group has a message
    of its own, as brokers keep the order of messages.
    """
    kinds: dict[tuple[str, str], list[Doorbell]] = {}
    for each in doorbells:
        if each.group is None and most > 1:
            kinds.setdefault((each.queue, each.task), []).append(each)
        else:
            yield each.message(), (each,)
    for same in kinds.values():
        for first in range(0, len(same), most):
            some = same[first : first + most]
            yield (some[0].message() if len(some) == 1 else _message_of(some)), some


def doorbells_of(message: Message) -> list[Doorbell]:
    """Return the doorbells of a message: one, or several.

    Raises:
        ValueError: it is none.
    """
    if message.args == "{}":
        id, dot, run = message.id.partition(".")
        if not (dot and id.isascii() and id.isdigit() and run == str(message.run)):
            raise ValueError(f"message {message.id!r} is no doorbell")
        jobs = iter([(int(id), message.run)])
    else:
        jobs = _jobs_in(message)
    queue, task, group = message.queue, message.task, message.ordering_key
    found = [Doorbell(id, run, queue, 0, task, group) for id, run in jobs]
    if unfit := [each for each in found if not (0 <= each.id < _MOST and 0 <= each.run < _MOST)]:
        raise ValueError(f"message {message.id!r} is no doorbell: no job has the id {unfit[0].id}")
    return found


def _message_of(doorbells: Sequence[Doorbell]) -> Message:
    """Return one message for several doorbells: the same whenever these are published."""
    from mutirao.model.brokers.message import Message

    args = json.dumps({"jobs": [(each.id, each.run) for each in doorbells]}, separators=(",", ":"))
    digest = blake2s(args.encode(), digest_size=16).hexdigest()
    return Message(id=digest, task=doorbells[0].task, queue=doorbells[0].queue, args=args)


def _jobs_in(message: Message) -> Iterator[tuple[int, int]]:
    try:
        said: Any = json.loads(message.args)  # a JSONDecodeError is a ValueError
    except RecursionError as unfit:
        raise ValueError(f"message {message.id!r} is no doorbell: {unfit}") from None
    jobs = said.get("jobs") if isinstance(said, dict) else None
    if not isinstance(jobs, list) or not jobs:
        raise ValueError(f"message {message.id!r} is no doorbell: it names no jobs")
    for each in jobs:
        match each:
            case [int(id), int(run)]:
                yield id, run
            case _:
                raise ValueError(f"message {message.id!r} is no doorbell: it names {each!r}")
