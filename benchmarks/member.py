"""A worker process of a benchmark: does as it is told through a pipe, and says what it spent."""

import asyncio
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from enum import Enum
from multiprocessing.connection import Connection
from pathlib import Path
from resource import getpagesize
from time import process_time
from typing import Any, NamedTuple

from benchmarks.board import Board
from benchmarks.load import Load
from benchmarks.spent import Spent, counted, counted_claims
from mutirao.app import Mutirao

Prepare = Callable[[Mutirao], None]
_OWN_MEMORY = Path("/proc/self/statm")


class Order(Enum):
    """What a member is told."""

    START = "start"  # run a worker
    TELL = "tell"
    STOP = "stop"  # the worker, gracefully; then end


class Share(NamedTuple):
    """What a member spent since it started its worker, in seconds and statements.

    `memory` is what it holds now, in bytes; None where the system does not tell. `claims` are calls
    of the store, whatever they found.
    """

    cpu: float = 0.0
    statements: int = 0
    memory: int | None = None
    claims: int = 0


def work(
    url: str,
    settings: Mapping[str, Any],
    board: Board,
    slot: int,
    pipe: "Connection[Share, Order]",
    each: int = 1,
    prepare: Prepare | None = None,
) -> None:
    """Be a member: the process's whole life. Says a first word when everything is imported."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the benchmark, which ends us
    load = Load(url, board.writer(slot))
    if prepare is not None:
        prepare(load.app)
    pipe.send(Share())
    asyncio.run(_obey(load, settings, pipe, each))


async def _obey(
    load: Load, settings: Mapping[str, Any], pipe: "Connection[Share, Order]", each: int
) -> None:
    spent, cpu = Spent(), process_time()

    def share() -> Share:
        return Share(process_time() - cpu, spent.statements, memory_held(), spent.claims)

    with counted(spent), counted_claims(spent):
        async with AsyncExitStack() as workers:
            while (order := await asyncio.to_thread(pipe.recv)) is not Order.STOP:
                if order is Order.START:
                    cpu = process_time()
                    for _ in range(each):
                        await workers.enter_async_context(load.app.worker(**settings))
                pipe.send(share())
        await load.app.aclose()
        pipe.send(share())


def memory_held() -> int | None:
    """Return the bytes that this process holds; None where the system does not tell."""
    if not _OWN_MEMORY.exists():
        return None
    return int(_OWN_MEMORY.read_text().split()[1]) * getpagesize()
