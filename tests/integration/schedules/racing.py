"""A process that lets a schedule tick as fast as it can, with nobody deciding whose turn it is."""

from __future__ import annotations

import asyncio
import sys

from mutirao.model import schedule_rules
from mutirao.sql.store import SqlStore


async def race(url: str, name: str) -> None:
    """Tick until there will be no more."""
    store = SqlStore(url)
    state = (await store.amend_schedule(name, schedule_rules.tick)).state
    while state is not None and state.next_at is not None:
        state = (await store.amend_schedule(name, schedule_rules.tick)).state
    await store.close()


if __name__ == "__main__":
    asyncio.run(race(*sys.argv[1:]))
