"""Events: the contract of a transport that publishes them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from mutirao.errors import TransportUnavailable
from mutirao.model.jobs.events import EventKey, EventKind, JobEvent
from mutirao.ports.events import EventFeed, TellsEvents
from mutirao_conformance.kit import deadline

MOMENT = datetime(2026, 2, 28, 23, 59, 58, 250_000, tzinfo=UTC)
ALL = [EventKey(None, None, None)]


def event(job: str = "7", **options: Any) -> JobEvent:
    """Return an event."""
    usual = {"kind": EventKind.STARTED, "task": "shop.greet", "queue": "mail é", "at": MOMENT}
    return JobEvent(**{**usual, "job": job, **options})


@asynccontextmanager
async def listening(
    transport: TellsEvents, filters: Sequence[EventKey] = ALL, most: int = 100
) -> AsyncIterator[EventFeed]:
    """Listen to a transport; nothing may break meanwhile."""
    feed = EventFeed(most)
    async with deadline(), transport.listen(filters, feed) as ended:
        yield feed
        assert not ended.done()


@pytest.mark.asyncio
class EventsContract:
    """The contract of every transport that publishes events. A backend gives two fixtures.

    `transport`: one that publishes, with its exchanges or topics declared. `unreachable`: one whose
    broker is away.
    """

    async def test_everything_comes(self, transport: TellsEvents) -> None:
        """As it was published, to each listener."""
        assert transport.tells
        published = event(
            kind=EventKind.DEAD,
            attempt=3,
            worker="host:1",
            duration=0.5,
            error="ValueError: é \U0001f600",
        )
        async with listening(transport) as one, listening(transport) as other:
            transport.tell(published)
            assert await one.take() == await other.take() == published

    async def test_of_no_task(self, transport: TellsEvents) -> None:
        """An unreadable job has none; it is of its kind and queue all the same."""
        kinds = [EventKey("dead", None, "mail é")]
        async with listening(transport, kinds) as feed:
            transport.tell(event(kind=EventKind.DEAD, task=""))
            assert (await feed.take()).task == ""

    async def test_in_order(self, transport: TellsEvents) -> None:
        """Those of one key."""
        jobs = [str(n) for n in range(700)]
        async with listening(transport, most=1_000) as feed:
            for job in jobs:
                transport.tell(event(job))
            assert [(await feed.take()).job for _ in jobs] == jobs
            assert feed.drops.number == 0

    async def test_filters(self, transport: TellsEvents) -> None:
        """By kind, task and queue, whatever is in the names; each comes once."""
        long = "x" * 200
        filters = [
            EventKey("dead", None, None),
            EventKey(None, "shop.greet", "mail é"),
            EventKey(None, None, long),
        ]
        async with listening(transport, filters) as feed:
            transport.tell(event("no", task="shop", queue="greet.mail é"))
            transport.tell(event("no", task="shop.greet.x"))
            transport.tell(event("no", task="*"))
            transport.tell(event("dead", kind=EventKind.DEAD))
            transport.tell(event("long", task="#", queue=long))
            transport.tell(event("exact"))
            assert {(await feed.take()).job for _ in range(3)} == {"dead", "long", "exact"}

    async def test_nobody_listens(self, transport: TellsEvents) -> None:
        """Then an event is gone; and events from before the block are not received."""
        async with listening(transport) as feed:
            transport.tell(event("before"))
            await feed.take()
        transport.tell(event("between"))
        await transport.aclose()
        async with listening(transport) as feed:
            transport.tell(event("after"))
            assert (await feed.take()).job == "after"

    async def test_what_nobody_reads(self, transport: TellsEvents) -> None:
        """It is dropped beyond a bound, and counted."""
        async with listening(transport, most=2) as feed:
            for n in range(5):
                transport.tell(event(str(n)))
            while feed.drops.number < 3:  # noqa: ASYNC110 (nothing announces them)
                await asyncio.sleep(0)
            assert [(await feed.take()).job for _ in range(2)] == ["0", "1"]

    async def test_the_broker_is_away(self, unreachable: TellsEvents) -> None:
        """Publishing does not wait; listening raises an error."""
        unreachable.tell(event())
        with pytest.raises(TransportUnavailable):
            async with unreachable.listen(ALL, EventFeed(9)):
                raise AssertionError("nobody is there")
        await unreachable.aclose()
