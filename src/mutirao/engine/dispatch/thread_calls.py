"""Runs attempts of plain functions in threads.

No task of the event loop waits for them. With a task and a future for each attempt, an attempt took
twice as much of the engine's time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol

from mutirao.engine.calls.attempt import Running
from mutirao.engine.calls.handler_damage import NotStarted
from mutirao.engine.calls.threads import ThreadCall, Threads
from mutirao.engine.dispatch.executor import Executor
from mutirao.model.jobs.outcome import Outcome

Attempt = Callable[[Running], Coroutine[Any, Any, Outcome]]


class Owner(Protocol):
    """The owner of the attempts: the dispatcher."""

    def ended_in_thread(self, running: Running, outcome: Outcome) -> None:
        """Take an attempt that has ended, with its outcome; in the event loop."""
        ...

    def follow(self, running: Running, attempt: Attempt, context: Context) -> None:
        """Run an attempt whose function returned an awaitable to its end in the event loop."""
        ...

    def take_over(self, before: Running) -> tuple[Running, Context] | None:
        """Return the next job in place of an attempt whose call has ended; from any thread."""
        ...

    def taken_over(self, running: Running) -> None:
        """Process the start of an attempt that a thread has begun; in the event loop."""
        ...


class _Refused(NamedTuple):
    """The result of a thread for an attempt whose handler must not be called."""

    outcome: Outcome


class ThreadAttempts:
    """Runs attempts in threads."""

    def __init__(self, executor: Executor, threads: Threads, owner: Owner) -> None:
        self._executor, self._threads, self._owner = executor, threads, owner

    def start(self, running: Running, context: Context) -> None:
        """Begin an attempt in its context, which no other attempt runs in."""
        context.run(self._start, running, context)

    def collect(self) -> None:
        """Process all calls that have ended, and all that threads have begun, by now."""
        self._threads.collect()

    def _start(self, running: Running, context: Context) -> None:
        call = self._executor.begin(running)
        if isinstance(call, Outcome):
            self._ended(running, self._executor.ended(running, call))
            return
        succeed = partial(self._succeed, running)
        try:
            made = self._threads.submit(call, partial(self._enter, running, context), succeed)
        except NotStarted as error:
            self._ended(running, self._executor.end(running, None, error))
            return
        running.kill = partial(self._kill, running, made, context)

    def _succeed(self, before: Running) -> ThreadCall | None:
        """Return the call of the next job, for the thread of an attempt whose call has ended."""
        if (taken := self._owner.take_over(before)) is None:
            return None
        running, context = taken
        return ThreadCall(
            partial(self._call, running),
            partial(self._enter, running, context),
            context,
            partial(self._succeed, running),
            partial(self._begun, running, context),
        )

    def _call(self, running: Running) -> Any:
        call = self._executor.begin(running)
        return _Refused(call) if isinstance(call, Outcome) else copy_context().run(call)

    def _begun(self, running: Running, context: Context, call: ThreadCall) -> None:
        running.kill = partial(self._kill, running, call, context)
        self._owner.taken_over(running)

    def _ended(self, running: Running, outcome: Outcome) -> None:
        self._owner.ended_in_thread(running, outcome)

    def _kill(self, running: Running, call: ThreadCall, context: Context) -> None:
        asyncio.get_running_loop().call_soon(self._give_up, running, call, context=context)

    def _enter(self, running: Running, context: Context, call: ThreadCall) -> None:
        try:
            context.run(self._returned, running, call)
        except Exception as error:  # noqa: BLE001 (outside of its handler: it ends this one only)
            if not running.over:
                self._ended(running, self._executor.judge(running.claim, error))

    def _returned(self, running: Running, call: ThreadCall) -> None:
        running.kill, running.ended = None, call.ended
        value, error = call.result, call.error
        if running.interruption is not None:  # just now
            error = asyncio.CancelledError()
        elif isinstance(value, _Refused):
            self._ended(running, self._executor.ended(running, value.outcome))
            return
        elif error is None and value is not None and isawaitable(value):
            # A decorator hid that the handler is a coroutine function.
            running.ended = None
            rest = partial(self._executor.end_awaiting, value=value)
            self._owner.follow(running, rest, copy_context())
            return
        self._ended(running, self._executor.end(running, value, error))

    def _give_up(self, running: Running, call: ThreadCall) -> None:
        """Stop waiting for a call: its attempt was interrupted."""
        if not running.over:
            self._threads.give_up(call)
            self._ended(running, self._executor.end(running, None, asyncio.CancelledError()))
