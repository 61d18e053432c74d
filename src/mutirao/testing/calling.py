"""Calls plain functions in the caller's own thread, while no event loop runs there.

Frameworks refuse synchronous database calls beside a running event loop, as Django does. So the
loop that drives a drain stops for each call, and goes on when that has returned.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mutirao.engine.calls.threads import ThreadCall, Threads, perform
from mutirao.engine.duties.schedules import Pauser
from mutirao.testing.memory import at_once

R = TypeVar("R")


class CallersThread(Threads):
    """In the place of threads; whoever has called `drive` calls the functions."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: deque[ThreadCall] = deque()

    def submit(
        self,
        function: Callable[[], Any],
        on_end: Callable[[ThreadCall], None],
        succeed: Callable[[], ThreadCall | None] | None = None,
    ) -> ThreadCall:
        """Call a function in the thread that called `drive`."""
        call = ThreadCall(function, on_end)
        self._asked.append(call)
        asyncio.get_running_loop().stop()
        return call

    def give_up(self, call: ThreadCall) -> None:
        """Do nothing: nobody can give up what runs in the caller's own thread."""

    def drive(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in an event loop of its own, and what it asks to be called outside it."""
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            loop = runner.get_loop()
            task = loop.create_task(work)
            task.add_done_callback(lambda _: loop.stop())
            while not task.done():
                loop.run_forever()
                while self._asked:
                    _call(self._asked.popleft(), loop)
            return task.result()

    def close(self) -> None:
        """Do nothing: there are no threads."""


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
