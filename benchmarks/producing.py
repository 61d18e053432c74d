"""Enqueueing one by one, each job in a commit of its own, by several producers at once."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from benchmarks.load import Load

Producer = Literal["asyncio", "plain"]


async def one_by_one(
    load: Load, jobs: int, *, producer: Producer, producers: int, payload: str = ""
) -> None:
    """Enqueue jobs that do nothing, shared out evenly.

    Parameters:
        load: whose jobs.
        jobs: how many in all.
        producer: "asyncio" for coroutines of one event loop, "plain" for threads.
        producers: how many of them at once.
        payload: the argument of each job.
    """
    shares = [len(range(n, jobs, producers)) for n in range(producers)]
    if producer == "asyncio":
        await asyncio.gather(*(_acalls(load, payload, share) for share in shares))
        return
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(producers) as threads:
        await asyncio.gather(
            *(loop.run_in_executor(threads, _calls, load, payload, share) for share in shares)
        )


async def _acalls(load: Load, payload: str, count: int) -> None:
    for _ in range(count):
        await load.coroutine.aenqueue(payload=payload)


def _calls(load: Load, payload: str, count: int) -> None:
    for _ in range(count):
        load.coroutine.enqueue(payload=payload)
