"""Threads for plain functions.

Ours and not `ThreadPoolExecutor`, because a handler that never returns must not keep the process
from ending (these are daemons), and because results come back in bunches: one wake-up of the
event loop for all the calls that returned meanwhile.
"""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any


class _Call:
    __slots__ = ("abandoned", "context", "error", "function", "future", "result", "returned")

    def __init__(self, function: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self.function = function
        self.future = future
        self.context = contextvars.copy_context()
        self.abandoned = False
        self.returned = False
        self.result: Any = None
        self.error: BaseException | None = None


class Threads:
    """A pool that grows as calls come. `stuck` counts the threads nobody waits for any more.

    Parameters:
        on_return: called in the event loop when a stuck thread has returned after all.
    """

    def __init__(self, on_return: Callable[[], None] = lambda: None) -> None:
        self._on_return = on_return
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._returned: deque[_Call] = deque()
        self._lock = threading.Lock()
        self._waking = False
        self._threads = 0
        self._engaged = 0
        self.stuck = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """Call a function in a thread; its exceptions are raised here.

        When cancelled, the thread goes on, counted as stuck until it returns.
        """
        loop = asyncio.get_running_loop()
        call = _Call(function, loop.create_future())
        self._engaged += 1
        if self._engaged > self._threads:
            self._add_thread(loop)
        self._calls.put(call)
        try:
            return await call.future
        except asyncio.CancelledError:
            # Raised by the function itself, or too late, it says nothing about the thread.
            if call.future.cancelled() and not call.returned:
                call.abandoned = True
                self.stuck += 1
            raise

    def close(self) -> None:
        """Let idle threads end; those at work end when their handlers return."""
        for _ in range(self._threads):
            self._calls.put(None)
        self._threads = 0

    def _add_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._threads += 1
        name = f"mutirao-{self._threads}"
        threading.Thread(target=self._work, args=(loop,), name=name, daemon=True).start()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (call := self._calls.get()) is not None:
            if not call.abandoned:
                _perform(call)
            self._hand_back(call, loop)

    def _hand_back(self, call: _Call, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._returned.append(call)
            wake, self._waking = not self._waking, True
        if wake:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for anything any more
                loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        with self._lock:
            returned, self._returned, self._waking = self._returned, deque(), False
        for call in returned:
            self._engaged -= 1
            call.returned = True
            if call.abandoned:
                self.stuck -= 1
                self._on_return()
            elif call.future.cancelled():
                continue  # in this very round; whoever waited has not heard of it yet
            elif call.error is not None:
                call.future.set_exception(call.error)
            else:
                call.future.set_result(call.result)


def _perform(call: _Call) -> None:
    try:
        call.result = call.context.run(call.function)
    except (StopIteration, GeneratorExit) as error:
        # Neither can be thrown into a coroutine that waits: each has its own meaning there.
        call.error = RuntimeError(f"the handler raised {type(error).__name__}: {error}")
    except BaseException as error:
        call.error = error
