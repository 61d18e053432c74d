"""Life-cycle events for an application, as an asynchronous iterator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Self

from mutirao.errors import ConfigurationError, TransportError
from mutirao.ports import Transport
from mutirao.ports.brokers import grouped
from mutirao.ports.events import EventFeed, TellsEvents, event_transport

if TYPE_CHECKING:
    from mutirao.model.jobs.events import EventKey, EventKind, JobEvent

MOST_WAITING = 10_000  # events that wait to be read, unless chosen otherwise
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between tries while a broker is away

log = logging.getLogger("mutirao")


class Events:
    """Events from all brokers, as they come. Events that were dropped on the way are counted."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed

    @property
    def dropped(self) -> int:
        """How many are missing: dropped by their publisher, by the broker, or unread.

        A gap is noticed with the next event of the same publisher, kind, task and queue.
        """
        return self._feed.drops.number

    def __aiter__(self) -> Self:
        """Return this."""
        return self

    async def __anext__(self) -> JobEvent:
        """Wait for the next event."""
        return await self._feed.take()


class Listening:
    """The part of an application that listens to events."""

    transports: Mapping[str, Transport]

    @asynccontextmanager
    async def events(
        self,
        *,
        kinds: Collection[EventKind | str] | None = None,
        tasks: Collection[str] | None = None,
        queues: Collection[str] | None = None,
        most: int = MOST_WAITING,
    ) -> AsyncIterator[Events]:
        """Listen to published events of jobs, until the block is left.

            async with app.events(kinds=["dead"]) as events:
                async for event in events: ...

        An event after the block is entered comes once or, rarely, not at all: events are neither
        kept nor confirmed, and never slow the work. `Events.dropped` counts missing ones. If a
        broker becomes unavailable later, this waits for it and logs that.

        Parameters:
            kinds: such as "started" or "dead"; None: all.
            tasks: the names of tasks; None: all.
            queues: the names of queues; None: all whose brokers publish events.
            most: how many may wait to be read; more are dropped.

        Raises:
            ConfigurationError: no broker of these queues publishes events, a kind is unknown, or a
                parameter has another type.
            TransportUnavailable: a broker is away.
            TransportMismatch: the broker lacks what `mutirao transports declare` makes.
        """
        from mutirao.model.jobs.events import EventKind, filters_of

        _check(most, kinds=kinds, tasks=tasks, queues=queues)
        try:
            wanted = None if kinds is None else [EventKind(each) for each in kinds]
        except ValueError as unknown:
            known = ", ".join(EventKind)
            raise ConfigurationError(f"{unknown} of events; give some of {known}") from None
        publishing = _publishing(self.transports, queues)
        feed = EventFeed(most)
        async with AsyncExitStack() as stack:
            for transport, its in grouped(publishing, publishing.__getitem__):
                listener = _Listener(transport, filters_of(wanted, tasks, its), feed)
                stack.push_async_callback(listener.stop)
                await listener.start()
            yield Events(feed)


class _Listener:
    """Listens to one broker, and again after that was unavailable."""

    def __init__(
        self, transport: TellsEvents, filters: Sequence[EventKey], feed: EventFeed
    ) -> None:
        self._transport, self._filters, self._feed = transport, filters, feed
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to listen; raises what `TellsEvents.listen` does."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._listen(begun))
        await begun

    async def stop(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _listen(self, begun: asyncio.Future[None]) -> None:
        wait = FIRST_WAIT
        while True:
            try:
                async with self._transport.listen(self._filters, self._feed) as ended:
                    if begun.done():
                        log.warning("events of %s come again", self._transport.name)
                    else:
                        begun.set_result(None)
                    wait = FIRST_WAIT
                    error = await ended
            except TransportError as met:
                error = met
            if not begun.done():
                begun.set_exception(error)
                return
            if wait == FIRST_WAIT:
                log.warning("no events of %s come: %s; trying again", self._transport.name, error)
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)


def _check(most: object, **lists: object) -> None:
    for what, given in lists.items():
        if isinstance(given, str):  # which is a collection, too: of letters
            raise ConfigurationError(f"{what} is {str(given)!r}; give a list, [{str(given)!r}]")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ConfigurationError(f"most is {most!r}; give a whole number, from 1")


def _publishing(
    transports: Mapping[str, Transport], queues: Collection[str] | None
) -> dict[str, TellsEvents]:
    """Return the transports of queues that publish events; all named ones must publish them."""
    found: dict[str, TellsEvents] = {}
    for queue, transport in transports.items():
        if (queues is None or queue in queues) and (
            events := event_transport(transport)
        ) is not None:
            found[queue] = events
    if silent := {*(queues or ())} - found.keys():
        raise ConfigurationError(
            f"no events are published of queue {', '.join(sorted(silent))}: its transport must be"
            " RabbitMQ(…, events=True); Amazon SQS and databases have no events"
        )
    if not found:
        raise ConfigurationError(
            "no broker of this application publishes events; give RabbitMQ(…, events=True) in"
            " transports; Amazon SQS and databases have no events"
        )
    return found
