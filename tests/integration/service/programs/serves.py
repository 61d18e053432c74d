"""A server with a worker in its lifespan: `serves URL`; it ends when its standard input does.

Prints its worker's id, and then `begun` when a job has begun; jobs end when a line is read.
"""

from __future__ import annotations

import asyncio
import sys

from mutirao import Mutirao

app = Mutirao(sys.argv[1])
go_on = asyncio.Event()


@app.task
async def serve() -> None:
    """Run until told to go on."""
    print("begun", flush=True)
    await go_on.wait()


async def main() -> None:
    """Serve."""
    async with app.worker(heartbeat=0.2, expiry=2.0, poll=60, concurrency=1, grace=0.1):
        print("started", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            go_on.set()
    print("stopped", flush=True)


asyncio.run(main())
