"""Job events of the broker in memory: each goes to its listeners at once."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import uuid4

from mutirao.errors import TransportError, TransportUnavailable
from mutirao.model.jobs.events import EventKey, JobEvent
from mutirao.ports.events import Dropped, EventFeed


class _Hearer(NamedTuple):
    loop: asyncio.AbstractEventLoop
    filters: Sequence[EventKey]
    feed: EventFeed
    ended: "asyncio.Future[TransportError]"

    def call(self, what: Callable[..., object], *args: object) -> None:
        """Call something in its event loop, if that is still open."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(what, *args)


class MemoryEvents:
    """The part of `MemoryTransport` that publishes job events. `tells`: whether it does."""

    available: bool
    events_dropped = 0  # there is nothing on the way

    def __init__(self, tells: bool) -> None:
        self.tells, self._publisher = tells, uuid4().hex
        self._published: Counter[EventKey] = Counter()
        self._hearers: list[_Hearer] = []
        self._events_lock = threading.Lock()

    async def dropped(self) -> Dropped | None:
        """Return how many events were not published; see `TellsEvents.dropped`."""
        return None

    def tell(self, event: JobEvent) -> None:
        """Publish an event at once; see `TellsEvents.tell`."""
        key = event.key
        with self._events_lock:
            number, self._published[key] = self._published[key], self._published[key] + 1
            for each in self._hearers:
                if any(wish.fits(key) for wish in each.filters):
                    each.call(each.feed.put, self._publisher, number, [event])

    @asynccontextmanager
    async def listen(
        self, filters: Sequence[EventKey], feed: EventFeed
    ) -> AsyncIterator["asyncio.Future[TransportError]"]:
        """Put events into a feed; see `TellsEvents.listen`."""
        if not self.available:
            raise TransportUnavailable("the broker in memory is away; try again")
        loop = asyncio.get_running_loop()
        hearer = _Hearer(loop, filters, feed, loop.create_future())
        with self._events_lock:
            self._hearers.append(hearer)
        try:
            yield hearer.ended
        finally:
            with self._events_lock:
                self._hearers.remove(hearer)

    def lose_hearers(self) -> None:
        """Break the connections of all listeners, as a broker that restarts does."""
        gone = TransportUnavailable("the connection to the broker in memory is broken")
        with self._events_lock:
            for each in self._hearers:
                each.call(each.ended.set_result, gone)
