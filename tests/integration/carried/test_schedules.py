"""Schedules of carried queues: SQL makes their jobs, the broker rings for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise

from mutirao import Job, Mutirao
from mutirao.errors import TransportError
from mutirao.model.brokers.message import Message
from mutirao.transports.memory import MemoryTransport
from tests.support.waiting import until


class Forgetful(MemoryTransport):
    """A broker that loses the first message that it has confirmed."""

    lost = 0

    async def publish(self, messages: Sequence[Message]) -> list[TransportError | None]:
        """Publish all but the first."""
        kept = messages[1:] if not self.lost else messages
        self.lost = 1
        await super().publish(kept)
        return [None] * len(messages)


async def test_one_loop_whatever_the_broker_loses(migrated_sqlite_url: str) -> None:
    """Phases do not overlap, each tick has one, and a doorbell that is lost is rung again."""
    broker = Forgetful("carried")
    await broker.declare(["feeds"])
    app = Mutirao(migrated_sqlite_url, transports={"feeds": broker})
    phases: list[tuple[float, float, object]] = []

    @app.schedule(every=0.3, overlap="skip")
    @app.task(queue="feeds")
    async def pull(job: Job) -> None:
        began = time.monotonic()
        await asyncio.sleep(0.1)
        phases.append((began, time.monotonic(), job.metadata["tick"]))

    async with app.worker(poll=0.05, doorbell_grace=0.3):
        await until(lambda: len(phases) >= 4)
    assert broker.lost
    assert all(end <= began for (_, end, _), (began, *_) in pairwise(phases))
    assert len({tick for *_, tick in phases}) == len(phases)
    await app.aclose()
