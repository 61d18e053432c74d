"""Threads for plain functions, and which of them count as stuck."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar
from functools import partial

import pytest

from mutirao.engine.threads import Threads
from tests.support.waiting import soon, until, wait_until

NAME: ContextVar[str] = ContextVar("name", default="")


@pytest.fixture
async def threads() -> AsyncIterator[Threads]:
    """A pool without threads yet."""
    pool = Threads()
    yield pool
    pool.close()


def fail(error: BaseException) -> None:
    """Raise."""
    raise error


async def test_results_and_errors_come_back(threads: Threads) -> None:
    """As they are."""
    assert await threads.run(lambda: 7) == 7
    error = ValueError("x")
    with pytest.raises(ValueError, match="x") as raised:
        await threads.run(lambda: fail(error))
    assert raised.value is error


async def test_as_many_threads_as_calls(threads: Threads) -> None:
    """And they are used again."""
    together, used = threading.Barrier(4), set[int]()

    def call() -> None:
        used.add(threading.get_ident())
        together.wait(100)

    for _ in range(3):
        await soon(asyncio.gather(*(threads.run(call) for _ in range(4))))
    assert len(used) == 4


async def test_a_bunch_of_results(threads: Threads) -> None:
    """Each call gets its own."""
    results = await soon(asyncio.gather(*(threads.run(partial(int, n)) for n in range(200))))
    assert results == list(range(200))


async def test_the_caller_s_context(threads: Threads) -> None:
    """Is what the function sees; what it sets there stays in the thread."""

    def rename() -> str:
        found = NAME.get()
        NAME.set("theirs")
        return found

    NAME.set("ours")
    assert await threads.run(rename) == "ours"
    assert await threads.run(rename) == "ours"
    assert NAME.get() == "ours"


async def test_a_cancelled_call_is_stuck_until_it_returns() -> None:
    """And then it is told, once."""
    told: list[int] = []
    pool = Threads(lambda: told.append(pool.stuck))
    enough, began = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        enough.wait(100)

    call = asyncio.create_task(pool.run(work))
    await until(began.is_set)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (pool.stuck, told) == (1, [])
    assert await soon(pool.run(lambda: 7)) == 7
    enough.set()
    await until(lambda: told)
    assert (pool.stuck, told) == (0, [0])
    pool.close()


@pytest.mark.parametrize("error", [asyncio.CancelledError(), asyncio.CancelledError("own")])
async def test_a_function_that_raises_cancelled_error(
    threads: Threads, error: BaseException
) -> None:
    """Has returned: nothing is stuck."""
    with pytest.raises(asyncio.CancelledError):
        await threads.run(lambda: fail(error))
    assert threads.stuck == 0
    assert await threads.run(lambda: 7) == 7


async def test_cancelled_in_the_round_in_which_it_returns(threads: Threads) -> None:
    """Nothing is stuck for ever, and neighbours get their results."""
    both = threading.Barrier(3)

    def work() -> int:
        both.wait(100)
        return 7

    first, second = (asyncio.create_task(threads.run(work)) for _ in range(2))
    await asyncio.sleep(0)
    both.wait(100)
    wait_until(lambda: len(threads._returned) == 2)  # while the loop does not run
    first.cancel()
    assert await soon(second) == 7
    with pytest.raises(asyncio.CancelledError):
        await first
    assert threads.stuck == 0


async def test_what_futures_cannot_carry(threads: Threads) -> None:
    """Is told in other words."""
    for error in (StopIteration("over"), GeneratorExit("over")):
        with pytest.raises(RuntimeError, match=f"raised {type(error).__name__}: over"):
            await threads.run(partial(fail, error))


async def test_closing_lets_threads_end() -> None:
    """Idle ones now, others when they return; a closed pool can be used again."""
    threads = Threads()
    before = set(threading.enumerate())
    await threads.run(lambda: None)
    threads.close()
    await until(lambda: set(threading.enumerate()) <= before)
    assert await threads.run(lambda: 7) == 7
    threads.close()
    await until(lambda: set(threading.enumerate()) <= before)
