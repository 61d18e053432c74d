"""Threads for plain functions.

Ours and not `ThreadPoolExecutor`, because a handler that never returns must not keep the process
from ending (these are daemons), and because waking is what short calls cost. Results come back in
bunches, with one wake-up of the event loop for all the calls that returned meanwhile. And a bunch
of calls wakes one thread, which wakes a second when it finds more than its own, and so on: short
calls are over before the next thread is awake, long ones soon have a thread each (20 of them
within a millisecond). Waking a thread for every call took 33 µs of CPU a call, this takes 20.
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
        self._calls: deque[_Call] = deque()
        self._wakes: SimpleQueue[bool] = SimpleQueue()  # whether to end
        self._rousing = False  # whether a thread was woken that has not looked yet
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
        self._calls.append(call)
        if self._engaged > self._threads:
            self._add_thread(loop)
        elif not self._rousing:
            self._rouse()
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
            self._wakes.put(True)
        self._threads = 0

    def _add_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._threads += 1
        name = f"mutirao-{self._threads}"
        threading.Thread(target=self._work, args=(loop,), name=name, daemon=True).start()

    def _rouse(self) -> None:
        self._rousing = True
        self._wakes.put(False)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        end = False
        while not end:
            while (call := self._next()) is not None:
                if not call.abandoned:
                    _perform(call)
                self._hand_back(call, loop)
            end = self._wakes.get()
            self._rousing = False  # before looking: what comes from now on rouses another thread

    def _next(self) -> _Call | None:
        """Take a call; have another thread see to the rest, in case this one takes long."""
        try:
            call = self._calls.popleft()
        except IndexError:
            return None
        if self._calls and not self._rousing:
            self._rouse()
        return call

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
