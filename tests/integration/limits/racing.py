"""A process that works under limits, to be killed at any moment."""

from __future__ import annotations

import asyncio
import os

from mutirao import Mutirao, Retry

app = Mutirao(os.environ.get("RACE_DATABASE", "sqlite:///race.db"))


@app.task(retry=Retry.fixed(3, interval=0.05))
async def call(tenant: str, n: int) -> None:
    """Take a moment."""
    await asyncio.sleep(0.002 * (n % 5))
    if n % 11 == 0:
        raise ValueError("once more")


@app.task
def compute(tenant: str, n: int) -> None:
    """Take none."""


@app.task(fair_by="tenant")
async def turn(tenant: str, n: int) -> None:
    """Take a turn."""


if __name__ == "__main__":
    raise SystemExit(app.run_worker(concurrency=30, heartbeat=0.5, expiry=2))
