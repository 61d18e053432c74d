"""Calls plain functions in the caller's own thread, while no event loop runs there.

Frameworks refuse synchronous database calls beside a running event loop, as Django does. So the
loop that drives a drain stops for each call, and continues when that has returned.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar

from mutirao.engine.calls.threads import ThreadCall, Threads, perform
from mutirao.engine.duties.schedules import Pauser
from mutirao.testing.memory import at_once

P = ParamSpec("P")
R = TypeVar("R")


class CallersThread(Threads):
    """In the place of threads; the thread that has called `drive` calls the functions."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: deque[Callable[[asyncio.AbstractEventLoop], None]] = deque()

    def submit(
        self,
        function: Callable[[], Any],
        on_end: Callable[[ThreadCall], None],
        succeed: Callable[[], ThreadCall | None] | None = None,
    ) -> ThreadCall:
        """Call a function in the thread that called `drive`."""
        call = ThreadCall(function, on_end)
        self.ask(partial(_call, call))
        return call

    def ask(self, work: Callable[[asyncio.AbstractEventLoop], None]) -> None:
        """Call a function in the thread that called `drive`, while the loop is stopped."""
        self._asked.append(work)
        asyncio.get_running_loop().stop()

    def give_up(self, call: ThreadCall) -> None:
        """Do nothing: a call in the caller's own thread cannot be abandoned."""

    def drive(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in an event loop of its own, and its requested calls outside of it."""
        factory = asyncio.new_event_loop
        with _for_asgiref(self), asyncio.Runner(loop_factory=factory) as runner:
            loop = runner.get_loop()
            task = loop.create_task(work)
            task.add_done_callback(lambda _: loop.stop())
            while not task.done():
                loop.run_forever()
                while self._asked:
                    self._asked.popleft()(loop)
            return task.result()

    def close(self) -> None:
        """Do nothing: there are no threads."""


class _CallersExecutor(Executor):
    """Runs what `sync_to_async` is given in the thread that called `drive`."""

    def __init__(self, thread: CallersThread) -> None:
        self._thread = thread

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Request a call; return its future result."""
        future: Future[R] = Future()

        def work(loop: asyncio.AbstractEventLoop) -> None:
            try:
                future.set_result(function(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 (raised where the result is awaited)
                future.set_exception(error)

        self._thread.ask(work)
        return future


@contextmanager
def _for_asgiref(thread: CallersThread) -> Iterator[None]:
    """Let coroutines use Django's ORM in the caller's thread, which has the connection of a test.

    asgiref looks there for a thread that waits for its loop, as `async_to_sync` does.
    """
    asgiref = sys.modules.get("asgiref.sync")  # a program that has not loaded it, does not use it
    if asgiref is None:
        yield
        return
    executors = asgiref.AsyncToSync.executors
    before = getattr(executors, "current", None)
    executors.current = _CallersExecutor(thread)
    try:
        yield
    finally:
        executors.current = before


class CallersPauser(Pauser):
    """Pauses schedules from the caller's thread, where the loop cannot be waited for."""

    def pause(self, name: str, reason: str) -> None:
        """Pause a schedule at once."""
        at_once(self.apause(name, reason))


def _call(call: ThreadCall, loop: asyncio.AbstractEventLoop) -> None:
    """Call a function; Ctrl-C ends the drain, every other error is the attempt's."""
    perform(call)
    call.returned = True
    if isinstance(call.error, KeyboardInterrupt):
        raise call.error
    loop.call_soon(call.on_end, call)
