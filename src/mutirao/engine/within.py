"""A step of stopping a worker, within a time."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from mutirao.log import log
from mutirao.ports import Store

OPTIONAL_WRITES_LIMIT = 1.0  # seconds to write what is not essential, however short the grace is


async def within(
    store: Store, seconds: float, what: str, step: Coroutine[Any, Any, object]
) -> bool:
    """Run a step of stopping without delaying the others; return whether it succeeded."""
    task = asyncio.create_task(step)
    if not (await asyncio.wait((task,), timeout=seconds))[0]:
        store.cut()
        await asyncio.wait((task,), timeout=OPTIONAL_WRITES_LIMIT)
    if not task.done():
        task.cancel()
        log.warning("could not %s within %g s", what, seconds)
        return False
    if task.cancelled() or (error := task.exception()) is not None:
        log.warning("could not %s: %s", what, "cancelled" if task.cancelled() else error)
        return False
    return True
