"""A worker like others: `works URL`; jobs wait until the file in the job's arguments exists."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mutirao import Job, Mutirao
from tests.support.waiting import until

app = Mutirao(sys.argv[1])


@app.task
async def step(gate: str) -> None:
    """End when the gate is open."""
    await until(lambda: Path(gate).exists())


@app.task
async def hang_once(job: Job) -> None:
    """Never end in the first attempt; tell that it has begun."""
    print(job.attempt, flush=True)
    if job.attempt == 1:
        await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(app.run_worker(heartbeat=0.5, expiry=3.0, poll=0.2))
