"""The one thread that runs synchronous database functions for an event loop."""

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any

_Calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]


class OneThread(Executor):
    """A thread that runs calls one after another.

    Not `ThreadPoolExecutor`, which accepts no calls once the interpreter is about to end: a worker
    in a script is stopped exactly then, and has jobs to release. A forked child has no thread of
    its parent's: it starts its own with its first call.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: dict[int, _Calls] = {}  # by process
        self._end = weakref.finalize(self, _end, self._calls)
        self._end.atexit = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in the thread, after the calls submitted before."""
        future: Future[Any] = Future()
        self._here().put((future, lambda: fn(*args, **kwargs)))
        return future

    def _here(self) -> _Calls:
        """Return the calls of the thread in this process, which runs."""
        calls = self._calls.get(os.getpid())
        if calls is None:
            new: _Calls = SimpleQueue()
            calls = self._calls.setdefault(os.getpid(), new)  # one of several callers' is used
            if calls is new:
                threading.Thread(target=_work, args=(new,), name=self._name, daemon=True).start()
        return calls

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread after its remaining calls; does not wait for it."""
        self._end()


def _end(calls: dict[int, _Calls]) -> None:
    if (here := calls.get(os.getpid())) is not None:
        here.put(None)


def _work(calls: _Calls) -> None:
    while (next_one := calls.get()) is not None:
        future, call = next_one
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 (raised where the call is awaited)
                future.set_exception(error)
        del next_one, future, call  # so that their objects are freed before the next call
