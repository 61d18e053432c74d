"""Those who use the database at the same time: each has a connection, dice, and what all know."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from mutirao import Mutirao, NewJob
from tests.faults.hammer import app


@dataclass
class Known:
    """What everybody knows: which jobs and graphs there are, the newest ones."""

    jobs: deque[int] = field(default_factory=lambda: deque(maxlen=300))
    graphs: deque[int] = field(default_factory=lambda: deque(maxlen=20))
    crowded: bool = False


@dataclass(frozen=True)
class Hand:
    """One of them. `enqueuer` writes jobs, `commander` gives orders: each as a user of its own.
    `threads`: the driver has a synchronous form.
    """

    dice: Random
    engine: AsyncEngine
    enqueuer: Mutirao
    commander: Mutirao
    known: Known
    threads: bool

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Lend a connection of our own; commit at the end."""
        async with self.engine.begin() as connection:
            yield connection

    def without_key(self) -> NewJob:
        """Return a job without a key that the driver can do."""
        return app.without_key(self.dice, self.threads)

    def some_jobs(self, most: int) -> Sequence[int]:
        """Return ids of jobs that there are, or were, in any order; at least one."""
        there = list(self.known.jobs) or [1]
        return self.dice.sample(there, min(len(there), self.dice.randint(1, most)))
