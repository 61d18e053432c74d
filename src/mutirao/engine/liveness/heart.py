"""The thread of heartbeats: an event loop of its own, in which one beats for each database.

A handler that blocks the worker's event loop cannot delay it.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any

Beating = Callable[[], Coroutine[Any, Any, None]]


class Heart:
    """A thread that lives as long as something beats in it; the next heartbeat starts another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._beating = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def beat(self, body: Beating) -> "Future[None]":
        """Run a body in the thread, in a copy of this context; return a future of its end."""
        future: Future[None] = Future()
        context = copy_context()
        with self._lock:
            self._beating += 1
            self._loop = self._loop or _loop_in_thread()
            self._loop.call_soon_threadsafe(self._begin, body, context, future)
        return future

    def _begin(self, body: Beating, context: Context, future: "Future[None]") -> None:
        task = asyncio.get_running_loop().create_task(body(), context=context)
        task.add_done_callback(lambda task: self._ended(task, future))

    def _ended(self, task: "asyncio.Task[None]", future: "Future[None]") -> None:
        with self._lock:
            self._beating -= 1
            if not self._beating and self._loop is not None:
                self._loop.stop()
                self._loop = None
        if task.cancelled():
            future.cancel()
        elif (error := task.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(None)


def _loop_in_thread() -> asyncio.AbstractEventLoop:
    """Start a thread; return its event loop, which is closed once it is stopped."""
    made: Future[asyncio.AbstractEventLoop] = Future()

    def run() -> None:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            made.set_result(loop)
            loop.run_forever()

    threading.Thread(target=run, name="mutirao-heartbeat", daemon=True).start()
    return made.result()
