"""A process that lets schedules tick as fast as it can, with nobody deciding whose turn it is."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from mutirao.sql.store.jobs import SqlStore


async def race(url: str, wrong: float) -> None:
    """Tick until there will be no more, by a clock that is wrong by so many seconds."""
    store = SqlStore(url)
    while True:
        now = datetime.now(UTC) + timedelta(seconds=wrong)
        for each in await store.schedules.tick(3, now=now):
            if each.error is not None:
                raise each.error
        agenda = await store.schedules.agenda(now=now)
        if not agenda.due and agenda.next_in is None:
            break
    await store.close()


if __name__ == "__main__":
    asyncio.run(race(sys.argv[1], float(sys.argv[2])))
