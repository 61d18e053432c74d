"""A script that starts a worker and just ends: `ends URL`."""

from __future__ import annotations

import asyncio
import sys
import threading

from mutirao import Mutirao

app = Mutirao(sys.argv[1])
begun = threading.Event()


@app.task
async def never_ends() -> None:
    """Be at work when the script ends."""
    begun.set()
    await asyncio.Event().wait()


app.worker(grace=0.1, concurrency=2).start()
app.enqueue_many([never_ends.job() for _ in range(10)])
begun.wait()
