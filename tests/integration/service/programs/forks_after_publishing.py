"""A program that forks when it has enqueued to RabbitMQ: `forks_after_publishing URL WHAT [loop]`.

As `forks_after_use` does with a database, with children that end likewise. What a child enqueues
arrives, too.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from uuid import uuid4

from mutirao import Mutirao
from mutirao.transports.rabbitmq import RabbitMQ
from tests.integration.service.programs.child_process import run_in_child

url, what = sys.argv[1:3]
in_loop = sys.argv[3:] == ["loop"]
broker = RabbitMQ(url, prefix=f"forks-{uuid4().hex[:8]}")
app = Mutirao(transports={"mail": broker})


@app.task(queue="mail")
async def step() -> None:
    """Wait, as no worker serves this queue."""


def connections() -> set[int]:
    """Return which open connections this process has."""
    open_ones = (
        each for links in broker._links.values() for each in links._connections.values()
        if each.is_opened and not each.is_closed
    )  # fmt: skip
    return {id(each) for each in open_ones}


async def use_in_loop() -> None:
    """Enqueue in an event loop, and close what that has opened."""
    await step.aenqueue()
    await app.aclose()


def child() -> None:
    """What the child does."""
    if what == "uses":
        asyncio.run(use_in_loop()) if in_loop else step.enqueue()
        app.close()
        asyncio.run(app.aclose())
    if what == "collects":
        app.__dict__.clear()
        broker.__dict__.clear()
    gc.collect()


def fork(again: Callable[[], object]) -> None:
    """Let a child do it; the parent does the same again, by the connections that it had."""
    before = connections()
    run_in_child(child, ends_at_once=in_loop)
    for _ in range(3):
        again()
    assert connections() == before


async def count() -> int:
    """Return how many wait, in a queue that is there after that; close what asked."""
    await broker.declare(["mail"])
    waiting = await broker.waiting("mail")
    await broker.aclose()
    return waiting


assert asyncio.run(count()) == 0
if in_loop:
    with asyncio.Runner() as runner:
        runner.run(step.aenqueue())
        fork(lambda: runner.run(asyncio.wait_for(step.aenqueue(), 60)))
        runner.run(app.aclose())
else:
    step.enqueue()
    fork(step.enqueue)
    app.close()
assert asyncio.run(count()) == 4 + (what == "uses")
print("all is well")
