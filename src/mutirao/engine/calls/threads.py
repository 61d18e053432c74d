"""Runs plain functions in threads.

Not `ThreadPoolExecutor`, because a handler that never returns must not keep the process from ending
(these threads are daemons), and because waking threads is the main cost of short calls. Results
come back in groups, with one wake-up of the event loop for all calls that returned meanwhile. A
group of calls wakes one thread, which wakes a second one if it finds more than one call, and so on:
short calls are over before the next thread is awake, and long ones soon have a thread each (20 of
them within a millisecond). Waking a thread for every call took 33 µs of CPU per call; this took
20, and 7 since no task waits for each call (`mutirao.engine.dispatch.thread_calls`).

A thread whose call has ended may make another call next (`ThreadCall.succeed`) without waiting for
the event loop. The loop then learns within some milliseconds, in one wake-up, of all calls that
have ended.
"""

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import Any

from mutirao.engine.calls.handler_damage import RefusedStarts

log = logging.getLogger("mutirao")

MAX_LATE = 0.005  # seconds until the event loop learns of ended calls that have successors


class ThreadCall:
    """A call in a thread, which runs in a copy of its caller's context.

    Parameters:
        function: what is called.
        on_end: is called in the event loop once the function has returned or raised, with this
            call, unless the call was given up.
        context: in which it runs; None: a copy of the current one.
        succeed: is called in the thread once the function has ended, and returns a call that is
            made there at once, or None. It must be short, and must not raise.
        on_begin: is called in the event loop for a call that `succeed` has returned, once it has
            learned of it.
    """

    __slots__ = ("abandoned", "context", "ended", "error", "function", "on_begin", "on_end",
                 "result", "returned", "succeed")  # fmt: skip

    def __init__(
        self,
        function: Callable[[], Any],
        on_end: "Callable[[ThreadCall], None]",
        context: contextvars.Context | None = None,
        succeed: "Callable[[], ThreadCall | None] | None" = None,
        on_begin: "Callable[[ThreadCall], None] | None" = None,
    ) -> None:
        self.function = function
        self.on_end, self.on_begin, self.succeed = on_end, on_begin, succeed
        self.context = contextvars.copy_context() if context is None else context
        self.ended = 0.0  # when, in monotonic seconds
        self.abandoned = False
        self.returned = False
        self.result: Any = None
        self.error: BaseException | None = None


class Threads:
    """A pool that grows as calls come. `stuck`: the number of threads with abandoned calls.

    Parameters:
        on_return: called in the event loop when a stuck thread has returned after all.
    """

    def __init__(self, on_return: Callable[[], None] = lambda: None) -> None:
        self._on_return = on_return
        self._calls: deque[ThreadCall] = deque()
        self._wakes: SimpleQueue[bool] = SimpleQueue()  # True: end the thread
        self._waking_thread = False  # whether a woken thread has not looked for calls yet
        # Calls that have ended, each with the call that its thread makes now.
        self._returned: deque[tuple[ThreadCall, ThreadCall | None]] = deque()
        self._lock = threading.Lock()
        self._waking = self._waking_late = False
        self._late: asyncio.TimerHandle | None = None
        self._threads = 0
        self._open_calls = 0
        self.starts = RefusedStarts("thread")
        self._refused = False  # whether the system refused the last request for a thread
        self.stuck = 0

    async def run(
        self, function: Callable[[], Any], hasten: Callable[[], object] | None = None
    ) -> Any:
        """Call a function in a thread; its exceptions are raised here.

        When cancelled, the thread continues, and counts as stuck until it returns.

        Parameters:
            hasten: makes the function return soon. On cancellation this calls it and waits for the
                function; its result or exception is dropped.

        Raises:
            NotStarted: the system gives no thread, and there is none to wait for. The function
                was not called.
        """
        future = asyncio.get_running_loop().create_future()
        call = self.submit(function, partial(_resolve, future))
        try:
            return await future
        except asyncio.CancelledError:
            # If the function raised it itself, or it came too late, the thread has ended.
            if future.cancelled() and not call.returned and not self._withdraw(call):
                if hasten is not None:
                    await self._hasten(call, hasten)
                self.give_up(call)
            raise

    def submit(
        self,
        function: Callable[[], Any],
        on_end: Callable[[ThreadCall], None],
        succeed: Callable[[], ThreadCall | None] | None = None,
    ) -> ThreadCall:
        """Call a function in a thread, in a copy of this context; see `ThreadCall`.

        Raises:
            NotStarted: as `run` does.
        """
        loop = asyncio.get_running_loop()
        call = ThreadCall(function, on_end, succeed=succeed)
        self._open_calls += 1
        self._calls.append(call)
        if self._open_calls > self._threads:
            self._grow(call, loop)
        elif not self._waking_thread:
            self._wake_thread()
        return call

    def give_up(self, call: ThreadCall) -> None:
        """Abandon a call: its function is not called, or its thread counts as stuck."""
        if not call.returned and not self._withdraw(call):
            call.abandoned = True
            self.stuck += 1

    def close(self) -> None:
        """Let idle threads end; busy ones end when their handlers return."""
        for _ in range(self._threads):
            self._wakes.put(True)
        self._threads = 0

    async def _hasten(self, call: ThreadCall, hasten: Callable[[], object]) -> None:
        """Make a call that has begun return soon, and wait for it; the wait can be cancelled."""
        hasten()
        future = asyncio.get_running_loop().create_future()
        call.on_end = partial(_resolve, future)
        with suppress(BaseException):
            await future

    def _withdraw(self, call: ThreadCall) -> bool:
        """Withdraw a call that no thread has taken yet; return whether that was possible."""
        try:
            self._calls.remove(call)
        except ValueError:
            return False
        self._open_calls -= 1
        return True

    def _grow(self, call: ThreadCall, loop: asyncio.AbstractEventLoop) -> None:
        """Add a thread for each call that has none; if that fails, existing threads run it later.

        If there are no such threads, the call is withdrawn.
        """
        try:
            while self._open_calls > self._threads:
                self._add_thread(loop)
            self._refused = False
            self.starts.given()
        except (RuntimeError, MemoryError) as full:
            if self._threads <= self.stuck and self._withdraw(call):
                raise self.starts.refused(full) from full
            if not self._refused:  # log once, not for every call
                log.warning("%s; calls wait for the %s threads there are", full, self._threads)
            self._refused = True
            if not self._waking_thread:
                self._wake_thread()

    def _add_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        name = f"mutirao-{self._threads + 1}"
        threading.Thread(target=self._work, args=(loop,), name=name, daemon=True).start()
        self._threads += 1

    def _wake_thread(self) -> None:
        self._waking_thread = True
        self._wakes.put(False)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        end = False
        while not end:
            call = self._next()
            while call is not None:
                if not call.abandoned:
                    perform(call)
                call = self._return_result(call, loop) or self._next()
            end = self._wakes.get()
            self._waking_thread = False  # before looking: a later call must wake another thread

    def _next(self) -> ThreadCall | None:
        """Take a call; wake another thread for the rest, in case this call takes long."""
        try:
            call = self._calls.popleft()
        except IndexError:
            return None
        if self._calls and not self._waking_thread:
            self._wake_thread()
        return call

    def _return_result(
        self, call: ThreadCall, loop: asyncio.AbstractEventLoop
    ) -> ThreadCall | None:
        """Notify the event loop, at once or soon; return the call that this thread makes next."""
        call.ended = monotonic()
        with self._lock:
            then = None
            if call.succeed is not None and not (call.abandoned or self._calls):
                then = call.succeed()
            self._returned.append((call, then))
            wake = self._wake(late=then is not None)
        if wake is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(wake)
        return then

    def _wake(self, late: bool) -> Callable[[], None] | None:
        """Return the function to wake the event loop with; None: it will be woken anyway."""
        if self._waking or (late and self._waking_late):
            return None
        if late:
            self._waking_late = True
            return self._collect_late
        self._waking = True
        return self.collect

    def _collect_late(self) -> None:
        if self._waking_late and self._late is None:
            self._late = asyncio.get_running_loop().call_later(MAX_LATE, self.collect)

    def collect(self) -> None:
        """Process, in the event loop, all calls that have ended by now."""
        with self._lock:
            returned, self._returned = self._returned, deque()
            self._waking = self._waking_late = False
        if self._late is not None:
            self._late.cancel()
            self._late = None
        for call, then in returned:
            if then is not None:
                self._open_calls += 1
                if then.on_begin is not None:
                    then.on_begin(then)
            self._end(call)

    def _end(self, call: ThreadCall) -> None:
        self._open_calls -= 1
        call.returned = True
        if call.abandoned:
            self.stuck -= 1
            self._on_return()
        else:
            call.on_end(call)


def _resolve(future: asyncio.Future[Any], call: ThreadCall) -> None:
    if future.cancelled():
        return  # just now; the waiting task has not run yet
    if call.error is not None:
        future.set_exception(call.error)
    else:
        future.set_result(call.result)


def perform(call: ThreadCall) -> None:
    """Call the function in the context of its caller, and record how it ended."""
    try:
        call.result = call.context.run(call.function)
    except (StopIteration, GeneratorExit) as error:
        # Neither can be thrown into a waiting coroutine, where it has a meaning of its own.
        call.error = RuntimeError(f"the handler raised {type(error).__name__}: {error}")
    except BaseException as error:
        call.error = error
