"""A worker like others: `works URL`; jobs wait until the file in the job's arguments exists."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mutirao import Job, Mutirao
from tests.support.waiting import until

app = Mutirao(sys.argv[1])


def write_down(starts: str, id: int) -> None:
    """Add a line at once and whole."""
    with Path(starts).open("a") as file:
        file.write(f"{id}\n")


@app.task
async def step(gate: str) -> None:
    """End when the gate is open."""
    await until(lambda: Path(gate).exists())


@app.task
async def note(job: Job, starts: str, gate: str) -> None:
    """Write down that it has begun, and end when the gate is open."""
    write_down(starts, job.id)
    await until(lambda: Path(gate).exists())


@app.task
async def hang_once(job: Job) -> None:
    """Never end in the first attempt; tell that it has begun."""
    print(job.attempt, flush=True)
    if job.attempt == 1:
        await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(app.run_worker(heartbeat=0.5, expiry=3.0, poll=0.2))
