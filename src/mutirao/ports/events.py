"""The port to a broker that publishes events; `mutirao_conformance.events` tests it.

Events are for people who watch. They are neither confirmed nor kept, and never slow the work: an
event without room is dropped, counted, and reported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from mutirao.errors import TransportError
from mutirao.ports.arrivals import Arrivals
from mutirao.ports.transport import Transport

if TYPE_CHECKING:
    from mutirao.model.jobs.events import EventKey, JobEvent

SAY_EVERY = 60.0  # seconds between log lines about dropped events
MAX_KEYS = 10_000  # of events whose numbers are remembered

log = logging.getLogger("mutirao")


class Dropped(NamedTuple):
    """How many events were not published lately, and when the last of them was recorded."""

    number: int
    last_at: datetime


class Drops:
    """The number of dropped events, which is logged at most once a minute.

    `where`: describes which events, for people.
    """

    def __init__(self, where: str) -> None:
        self.number = self._noted = 0
        self._where, self._said, self._said_at = where, 0, -inf

    def add(self, number: int) -> None:
        """Count `number` more."""
        self.number += number
        if number and monotonic() >= self._said_at + SAY_EVERY:
            more, self._said, self._said_at = self.number - self._said, self.number, monotonic()
            extra = {"dropped": self.number}
            log.warning("%s events were dropped %s", more, self._where, extra=extra)

    def to_note(self) -> int:
        """Return how many more there are since the last call, for a caller that records them."""
        more, self._noted = self.number - self._noted, self.number
        return more


class EventFeed:
    """The events for one listener, in its event loop.

    Publishers number the events of each key. So a gap shows how many were dropped on the way.

    Parameters:
        most: how many may wait to be taken; further ones are dropped.
    """

    def __init__(self, most: int) -> None:
        self.drops = Drops("before they were read")
        self._most, self._come = most, Arrivals["JobEvent"]()
        self._next: dict[tuple[str, EventKey], int] = {}

    def put(self, publisher: str, first: int, events: Sequence[JobEvent]) -> None:
        """Add events of one key.

        Parameters:
            publisher: the publisher, by a name that no other one ever has.
            first: the number of the first one.
        """
        key = publisher, events[0].key
        missed = max(0, first - self._next.pop(key, first))
        self._next[key] = first + len(events)
        if len(self._next) > MAX_KEYS:
            del self._next[next(iter(self._next))]
        room = max(0, self._most - len(self._come))
        self._come.put(*events[:room])
        self.drops.add(missed + len(events[room:]))

    async def take(self) -> JobEvent:
        """Wait for the next event."""
        [event] = await self._come.take(1)
        return event


@runtime_checkable
class TellsEvents(Transport, Protocol):
    """A transport that may publish events."""

    @property
    def tells(self) -> bool:
        """Whether it publishes events; otherwise nothing else here is called."""
        ...

    @property
    def events_dropped(self) -> int:
        """How many events were not published in this process."""
        ...

    async def dropped(self) -> Dropped | None:
        """Return how many events were not published within a day, by any process; None: none.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the objects for events are missing.
        """
        ...

    def tell(self, event: JobEvent) -> None:
        """Publish an event soon, to all current listeners. Called in an event loop.

        It never waits and never raises. While the broker is unavailable or too slow, events beyond
        some thousands are dropped. `aclose` publishes the remaining ones, for a moment.
        """
        ...

    def listen(
        self, filters: Sequence[EventKey], feed: EventFeed
    ) -> AbstractAsyncContextManager[asyncio.Future[TransportError]]:
        """Put events that match one of the filters into a feed, until the block is left.

        An event that is published after the block is entered comes at most once, those of one
        publisher and key in order. The future has the reason why nothing comes any more.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the objects for events are missing, or may not be used.
        """
        ...


def published(task: str, queue: str, job: str) -> JobEvent:
    """Return the event that the broker of its queue has confirmed a job."""
    from mutirao.model.jobs.events import EventKind, JobEvent

    now = datetime.now(UTC)
    return JobEvent(kind=EventKind.PUBLISHED, task=task, queue=queue, job=job, at=now)


def event_transport(transport: object) -> TellsEvents | None:
    """Return a transport if it publishes events."""
    if not getattr(transport, "tells", False):  # first: what follows took 67 µs, under load
        return None
    return transport if isinstance(transport, TellsEvents) else None
