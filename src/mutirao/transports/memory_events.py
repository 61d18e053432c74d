"""Events of a broker in memory: each goes at once to whoever listens."""

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
    """The part of `MemoryTransport` that tells of events. `tells`: whether it is to."""

    available: bool
    events_dropped = 0  # there is nothing on the way

    def __init__(self, tells: bool) -> None:
        self.tells, self._teller = tells, uuid4().hex
        self._told: Counter[EventKey] = Counter()
        self._hearers: list[_Hearer] = []
        self._telling = threading.Lock()

    async def dropped(self) -> Dropped | None:
        """Return what was not told; see `TellsEvents.dropped`."""
        return None

    def tell(self, event: JobEvent) -> None:
        """Tell an event at once; see `TellsEvents.tell`."""
        key = event.key
        with self._telling:
            number, self._told[key] = self._told[key], self._told[key] + 1
            for each in self._hearers:
                if any(wish.fits(key) for wish in each.filters):
                    each.call(each.feed.put, self._teller, number, [event])

    @asynccontextmanager
    async def listen(
        self, filters: Sequence[EventKey], feed: EventFeed
    ) -> AsyncIterator["asyncio.Future[TransportError]"]:
        """Have events come into a feed; see `TellsEvents.listen`."""
        if not self.available:
            raise TransportUnavailable("the broker in memory is away; try again")
        loop = asyncio.get_running_loop()
        hearer = _Hearer(loop, filters, feed, loop.create_future())
        with self._telling:
            self._hearers.append(hearer)
        try:
            yield hearer.ended
        finally:
            with self._telling:
                self._hearers.remove(hearer)

    def lose_hearers(self) -> None:
        """Break the connections of whoever listens, as a broker that restarts does."""
        gone = TransportUnavailable("the connection to the broker in memory is broken")
        with self._telling:
            for each in self._hearers:
                each.call(each.ended.set_result, gone)
