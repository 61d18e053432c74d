"""Waits in tests until a condition is true, never for time to pass.

Every wait has a deadline that only a failure reaches, and says what it waited for.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

DEADLINE = 100.0  # seconds; a busy machine may hang for tens of them
PACE, SLOWER = 0.01, 0.03  # seconds between two looks: at first, and after a while
A_WHILE = 0.2  # seconds; what takes longer is a process, mostly, which needs the processor itself


@overload
async def until(
    condition: Callable[[], Awaitable[T | None]], *, deadline: float = DEADLINE
) -> T: ...
@overload
async def until(condition: Callable[[], T | None], *, deadline: float = DEADLINE) -> T: ...
async def until(condition: Callable[[], Any], *, deadline: float = DEADLINE) -> Any:
    """Return what `condition` returns once that is true; it may be a coroutine function.

    Raises TimeoutError with its source and its last answer.
    """
    began = time.monotonic()
    while True:
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if (waited := time.monotonic() - began) > deadline:
            raise TimeoutError(f"still {answer!r} after {deadline} s: {_source(condition)}")
        await asyncio.sleep(PACE if waited < A_WHILE else SLOWER)


def wait_until(condition: Callable[[], T], *, deadline: float = DEADLINE) -> T:
    """As `until`, in a thread; `condition` is a plain function."""
    began = time.monotonic()
    while not (answer := condition()):
        if (waited := time.monotonic() - began) > deadline:
            raise TimeoutError(f"still {answer!r} after {deadline} s: {_source(condition)}")
        time.sleep(PACE if waited < A_WHILE else SLOWER)
    return answer


async def soon(awaitable: Awaitable[T], *, deadline: float = DEADLINE) -> T:
    """Await something that must happen. Raises TimeoutError if it does not."""
    async with asyncio.timeout(deadline):
        return await awaitable


def _source(condition: Callable[..., Any]) -> str:
    try:
        return " ".join(inspect.getsource(condition).split())
    except OSError:
        return repr(condition)
