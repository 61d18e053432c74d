"""The attempts of plain functions: calls in threads.

No task of the event loop waits for them. With a task and a future for each attempt, an attempt took
twice as much of the engine's time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from inspect import isawaitable
from typing import Any

from mutirao.engine.executor import Executor
from mutirao.engine.running import Running
from mutirao.engine.starting import NotStarted
from mutirao.engine.threads import ThreadCall, Threads
from mutirao.model.outcome import Outcome

Attempt = Callable[[Running], Coroutine[Any, Any, Outcome]]


class ThreadAttempts:
    """The way of attempts through threads.

    Parameters:
        ended: receives each attempt with its outcome, in the event loop.
        follow: runs the rest of an attempt in the event loop, where the function has returned an
            awaitable after all.
    """

    def __init__(
        self,
        executor: Executor,
        threads: Threads,
        ended: Callable[[Running, Outcome], None],
        follow: Callable[[Running, Attempt, Context], None],
    ) -> None:
        self._executor, self._threads = executor, threads
        self._ended, self._follow = ended, follow

    def start(self, running: Running, context: Context) -> None:
        """Begin an attempt in its context, which nobody else runs in."""
        context.run(self._start, running, context)

    def _start(self, running: Running, context: Context) -> None:
        call = self._executor.begin(running)
        if isinstance(call, Outcome):
            self._ended(running, call)
            return
        try:
            made = self._threads.submit(call, partial(self._enter, running, context))
        except NotStarted as error:
            self._ended(running, self._executor.end(running, None, error))
            return
        running.kill = partial(self._kill, running, made, context)

    def _kill(self, running: Running, call: ThreadCall, context: Context) -> None:
        asyncio.get_running_loop().call_soon(self._give_up, running, call, context=context)

    def _enter(self, running: Running, context: Context, call: ThreadCall) -> None:
        try:
            context.run(self._returned, running, call)
        except Exception as error:  # noqa: BLE001 (outside of its handler: it ends this one only)
            if not running.over:
                self._ended(running, self._executor.judge(running.claim, error))

    def _returned(self, running: Running, call: ThreadCall) -> None:
        running.kill = None
        value, error = call.result, call.error
        if running.interruption is not None:  # just now
            error = asyncio.CancelledError()
        elif error is None and value is not None and isawaitable(value):
            # A decorator hid that the handler is a coroutine function.
            rest = partial(self._executor.end_awaiting, value=value)
            self._follow(running, rest, copy_context())
            return
        self._ended(running, self._executor.end(running, value, error))

    def _give_up(self, running: Running, call: ThreadCall) -> None:
        """Wait no longer for a call: its attempt was interrupted."""
        if not running.over:
            self._threads.give_up(call)
            self._ended(running, self._executor.end(running, None, asyncio.CancelledError()))
