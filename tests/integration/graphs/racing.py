"""A process that claims and settles the steps of graphs as fast as it can.

It says which step it has begun, and when it has settled it: what is cut off was never said.
"""

from __future__ import annotations

import asyncio
import os
import sys
from time import monotonic

from mutirao.model.jobs.outcome import SUCCEEDED, Settlement
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import newcomer


async def race(url: str, kill_after: int) -> None:
    """Begin when told to, by a line; end when nothing is left, or by SIGKILL after so many."""
    store = SqlStore(url)
    worker = await store.register(newcomer(), expiry=3_600.0)
    print("ready", worker, flush=True)  # noqa: T201
    await asyncio.to_thread(sys.stdin.readline)
    done, vain = 0, 0
    while vain < 40:
        lanes = [head.lane for head in await store.lanes(None) if head.due_in <= 0]
        claims = await store.claim(worker, lanes, 3) if lanes else []
        vain = 0 if claims else vain + 1
        await asyncio.sleep(0 if claims else 0.02)
        began = monotonic()
        for claim in claims:
            print("began", claim.id, flush=True)  # noqa: T201
        if claims and done >= kill_after:
            os.kill(os.getpid(), 9)
        batch = [
            Settlement(c.id, c.run, SUCCEEDED, monotonic() - began, linked=True) for c in claims
        ]
        for id in await store.settle(worker, batch):
            print("settled", id, flush=True)  # noqa: T201
        done += len(claims)
    await store.close()


if __name__ == "__main__":
    asyncio.run(race(sys.argv[1], int(sys.argv[2])))
