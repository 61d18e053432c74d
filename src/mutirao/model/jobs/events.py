"""Life-cycle events that a broker publishes about the jobs of its queues."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import product
from typing import NamedTuple


class EventKind(StrEnum):
    """What has happened."""

    PUBLISHED = "published"  # the broker has confirmed it
    STARTED = "started"
    HEARTBEAT = "heartbeat"  # it still runs
    SUCCEEDED = "succeeded"
    RETRIED = "retried"  # it comes again: it failed, was snoozed, or was given back
    DEAD = "dead"
    LOST = "lost"  # the worker that ran it vanished; published by the next worker that starts it
    STOPPED = "stopped"  # it was cancelled; if a schedule made it, that has stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One event of a job.

    Attributes:
        task: its name; "" if the message cannot be read.
        job: its id for people; of an unreadable message the publisher's id, or "".
        at: when it happened, by the clock of the publisher.
        attempt: which one; 0: none yet.
        worker: the name of the worker that publishes it; None: no worker does.
        duration: of an attempt that has ended, in seconds.
        error: why it is retried or dead: the type and the first line of the error.
    """

    kind: EventKind
    task: str
    queue: str
    job: str
    at: datetime
    attempt: int = 0
    worker: str | None = None
    duration: float | None = None
    error: str | None = None

    @property
    def key(self) -> "EventKey":
        """The key by which listeners filter it."""
        return EventKey(self.kind, self.task, self.queue)


class EventKey(NamedTuple):
    """A kind, a task and a queue; as a filter, None stands for any."""

    kind: str | None
    task: str | None
    queue: str | None

    def fits(self, event: "EventKey") -> bool:
        """Return whether an event with this key passes the filter."""
        return all(wish is None or wish == found for wish, found in zip(self, event, strict=True))


def filters_of(
    kinds: Collection[EventKind] | None,
    tasks: Collection[str] | None,
    queues: Collection[str] | None,
) -> list[EventKey]:
    """Return filters of which one matches events of such kinds, tasks and queues; None: any."""
    wishes = [[None] if each is None else sorted(set(each)) for each in (kinds, tasks, queues)]
    return [EventKey(*each) for each in product(*wishes)]
