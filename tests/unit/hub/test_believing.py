"""When a worker believes a hub that it looks at the database, and polls seldom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from mutirao.engine.settings import WorkerSettings
from mutirao.hub.address import parse_address
from mutirao.hub.protocol import PING, LooksLine, line_of
from mutirao.model.jobs.job import Wake
from mutirao.notifiers import hub as notifiers
from mutirao.notifiers.hub import HubNotifier
from mutirao_conformance.notifier import listening
from tests.support.engine import SELDOM, Hearing
from tests.support.waiting import soon, until

POLL = 0.1  # seconds; so it pings ten times as often


class Claiming:
    """A hub that says how often it looks, and counts looks as it is told to."""

    def __init__(self, *, counts: bool) -> None:
        self.every: float | None = 0.01
        self.counts, self.looked, self.pings = counts, 7, 0
        self.serving: asyncio.Task[object] | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a greeting, and pings."""
        self.serving = asyncio.current_task()
        while await reader.readline():
            writer.write(line_of(LooksLine(self.every, self.looked)) + PING * bool(self.pings))
            self.pings += 1
            self.looked += self.counts
        writer.close()
        await writer.wait_closed()

    @asynccontextmanager
    async def heard(self) -> AsyncIterator[tuple[HubNotifier, AsyncIterator[Wake]]]:
        """Listen to it."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        place = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        notifier = HubNotifier(parse_address(place), "shop", poll=POLL)
        async with listening(notifier) as wakes:
            yield notifier, wakes
        server.close()
        if self.serving is not None:
            await self.serving

    async def pinged(self, times: int = 5) -> None:
        """Wait until it was pinged some times more."""
        enough = self.pings + times
        await until(lambda: self.pings >= enough)


def poll_of(notifier: HubNotifier) -> Callable[[], float]:
    """Return what tells how often a worker polls."""
    hearing = Hearing(notifier, WorkerSettings(poll=POLL))
    return lambda: hearing.poll


async def test_one_that_only_says_so() -> None:
    """The worker polls as before."""
    hub = Claiming(counts=False)
    async with hub.heard() as (notifier, wakes):
        poll, woken = poll_of(notifier), asyncio.ensure_future(anext(wakes))
        await hub.pinged()
        assert (notifier.said, notifier.complete, poll()) == (0.01, False, POLL)
        assert not woken.done()
        woken.cancel()
        await asyncio.wait([woken])


async def test_one_whose_looks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is believed as long as they go on; the worker looks whenever that changes."""
    monkeypatch.setattr(notifiers, "PATIENCE", 0.2)
    hub = Claiming(counts=True)
    async with hub.heard() as (notifier, wakes):
        poll = poll_of(notifier)
        assert await soon(anext(wakes)) == Wake()
        assert (notifier.complete, poll()) == (True, POLL * SELDOM)
        woken = asyncio.ensure_future(anext(wakes))
        await hub.pinged()
        assert (notifier.complete, woken.done()) == (True, False)
        hub.counts = False
        assert await soon(woken) == Wake()
        assert (notifier.complete, poll()) == (False, POLL)
        hub.counts = True
        assert await soon(anext(wakes)) == Wake()
        hub.every = None
        assert await soon(anext(wakes)) == Wake()
        assert (notifier.complete, poll()) == (False, POLL)
