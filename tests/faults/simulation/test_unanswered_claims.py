"""When a worker looks for what it holds without knowing, in virtual time: soon, not too often."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from mutirao.engine.settings import WorkerSettings, identity
from tests.faults.simulation.fleet import patched
from tests.faults.simulation.world import World
from tests.support.engine import LoopHealth, WorkerRow, unanswered_claims

NOBODY: Any = SimpleNamespace(holds=set, unsettled=set)  # a dispatcher that knows of no job


class Server:
    """Holds a job for worker 1 from some moment on, and is asked about it for some seconds.

    `asked` and `released` are the moments when that was done.
    """

    def __init__(self, world: World, claimed_at: float, takes: float) -> None:
        self._world, self._claimed_at, self._takes = world, claimed_at, takes
        self.asked: list[float] = []
        self.released: list[float] = []

    async def held(self, worker: int) -> list[tuple[int, int]]:
        """Return what the worker holds."""
        self.asked.append(self._world.now)
        await asyncio.sleep(self._takes)
        there = self._world.now >= self._claimed_at and not self.released
        return [(7, 1)] if there else []

    async def release(self, jobs: object) -> None:
        """Take a job back."""
        self.released.append(self._world.now)


@contextmanager
def in_doubt(claimed_at: float, takes: float = 0.0, claims_until: float = 0.0) -> Iterator[Server]:
    """Let a worker be in doubt at 0, of what it holds from then on; another claim hangs so long."""
    world = World(1)
    server: Any = Server(world, claimed_at, takes)

    async def look() -> None:
        claiming = asyncio.Lock()
        await claiming.acquire()
        asyncio.get_running_loop().call_later(claims_until, claiming.release)
        row = WorkerRow(server, identity(WorkerSettings(), ""), 1)
        unanswered = unanswered_claims.UnansweredClaims(row, NOBODY, claiming, 5.0)
        unanswered.doubt()
        await unanswered.run(LoopHealth("unanswered claims", 1_000.0))

    patch = patched(world)
    process = world.spawn("p")
    process.run(look(), lambda error: None)
    try:
        world.run(1_000.0)
        yield server
    finally:
        world.bury(process)
        patch.undo()


@pytest.mark.parametrize("claimed_at", [0.0, 4.9, 11.0, 35.0, 59.0])
def test_a_claim_that_the_server_commits_late(claimed_at: float) -> None:
    """As when the network was silent for so long: its jobs are given back within seconds."""
    with in_doubt(claimed_at) as server:
        [released] = server.released
    assert released - claimed_at <= 5.0


def test_one_that_comes_very_late() -> None:
    """Is found, too, some time."""
    with in_doubt(61.0) as server:
        assert len(server.released) == 1


def test_looks_that_take_long() -> None:
    """They go through all that is due: a sixth of the time is enough."""
    with in_doubt(50.0, takes=1.5) as server:
        busy = 1.5 * sum(at <= 60.0 for at in server.asked)
        [released] = server.released
    assert busy <= 60.0 / 6 + 1.5
    assert released <= 50.0 + 6 * 1.5


def test_one_that_took_very_long() -> None:
    """As while the server was silent: the next one comes soon all the same."""
    with in_doubt(6.0, takes=5.0) as server:
        [released] = server.released
    assert released <= 6.0 + 5.0 + 10.0


def test_a_claim_that_hangs_meanwhile() -> None:
    """The jobs that it may get are waited for, and that says nothing of how long a look takes."""
    with in_doubt(6.0, claims_until=5.0) as server:
        [released] = server.released
    assert released <= 6.0 + 5.0
