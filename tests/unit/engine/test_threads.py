"""Threads for plain functions, and which of them count as stuck."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar
from functools import partial

import pytest

from mutirao.engine.calls.threads import Threads
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
    received: list[int] = []
    pool = Threads(lambda: received.append(pool.stuck))
    enough, began = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        enough.wait(100)

    call = asyncio.create_task(pool.run(work))
    await until(began.is_set)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (pool.stuck, received) == (1, [])
    assert await soon(pool.run(lambda: 7)) == 7
    enough.set()
    await until(lambda: received)
    assert (pool.stuck, received) == (0, [0])
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


class Limited:
    """A system that gives no more threads than it says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        start = threading.Thread.start

        def limited(thread: threading.Thread) -> None:
            if self.left == 0:
                raise RuntimeError("can't start new thread")
            self.left -= 1
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", limited)


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Limited:
    """No thread can be started."""
    return Limited(monkeypatch)


async def test_no_thread_at_all(threads: Threads, limited: Limited) -> None:
    """The call fails, and its function is not called, then or later."""
    called: list[int] = []
    for number in range(3):
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await threads.run(partial(called.append, number))
    limited.left = 1
    await soon(threads.run(partial(called.append, 7)))
    assert called == [7]
    assert (threads._threads, threads._open_calls, len(threads._calls)) == (1, 0, 0)


async def test_fewer_threads_than_calls(threads: Threads, limited: Limited) -> None:
    """Calls wait for those there are, and each runs once."""
    began, enough, called = threading.Event(), threading.Event(), list[int]()

    def work() -> None:
        began.set()
        enough.wait(100)

    limited.left = 1
    first = asyncio.create_task(threads.run(work))
    await until(began.is_set)
    others = [asyncio.create_task(threads.run(partial(called.append, n))) for n in range(3)]
    await asyncio.sleep(0)
    assert (threads._threads, threads._open_calls) == (1, 4)
    enough.set()
    await soon(asyncio.gather(first, *others))
    assert sorted(called) == [0, 1, 2]
    assert (threads._threads, threads._open_calls) == (1, 0)


async def test_more_threads_again(threads: Threads, limited: Limited) -> None:
    """All that wait get one, not only the call that comes then."""
    together = threading.Barrier(3)
    began = threading.Event()

    def work() -> None:
        began.set()
        together.wait(100)

    limited.left = 1
    calls = [asyncio.create_task(threads.run(work)) for _ in range(2)]
    await until(began.is_set)
    limited.left = 2
    calls.append(asyncio.create_task(threads.run(work)))
    await soon(asyncio.gather(*calls))
    assert (threads._threads, threads._open_calls) == (3, 0)


async def test_all_threads_are_stuck(threads: Threads, limited: Limited) -> None:
    """Nobody knows whether they return: the call fails, and its function is not called."""
    began, enough, called = threading.Event(), threading.Event(), list[int]()

    def work() -> None:
        began.set()
        enough.wait(100)

    limited.left = 1
    first = asyncio.create_task(threads.run(work))
    await until(began.is_set)
    first.cancel()
    await asyncio.wait([first])
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await threads.run(partial(called.append, 1))
    enough.set()
    await until(lambda: threads.stuck == 0)
    await soon(threads.run(partial(called.append, 2)))
    assert called == [2]


async def test_cancelled_before_a_thread_took_it(threads: Threads, limited: Limited) -> None:
    """Nothing is stuck, and the function is not called."""
    began, enough, called = threading.Event(), threading.Event(), list[int]()

    def work() -> None:
        began.set()
        enough.wait(100)

    limited.left = 1
    first = asyncio.create_task(threads.run(work))
    await until(began.is_set)
    waiting = asyncio.create_task(threads.run(partial(called.append, 1)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (threads.stuck, threads._open_calls) == (0, 1)
    enough.set()
    await soon(first)
    await soon(threads.run(partial(called.append, 2)))
    assert called == [2]


@pytest.mark.parametrize("error", [None, ValueError("hastened")])
async def test_a_call_that_can_be_hastened(error: BaseException | None) -> None:
    """Is waited for when cancelled: it is never stuck."""
    received: list[int] = []
    pool = Threads(lambda: received.append(pool.stuck))
    began, hurry, over = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        hurry.wait(100)
        over.set()
        if error is not None:
            raise error

    call = asyncio.create_task(pool.run(work, hurry.set))
    await until(began.is_set)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(call)
    assert over.is_set()
    assert (pool.stuck, pool._open_calls, received) == (0, 0, [])
    pool.close()


async def test_a_call_that_is_not_hastened_after_all() -> None:
    """Cancelled again, nobody waits for it any more: it is stuck until it returns."""
    pool, asked = Threads(), threading.Event()
    began, enough = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        enough.wait(100)

    call = asyncio.create_task(pool.run(work, asked.set))
    await until(began.is_set)
    call.cancel()
    await until(asked.is_set)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(call)
    assert pool.stuck == 1
    enough.set()
    await until(lambda: pool.stuck == 0)
    pool.close()
