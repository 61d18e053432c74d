"""The one thread that runs synchronous database functions for an event loop."""

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
    in a script is stopped exactly then, and has jobs to release.
    """

    def __init__(self, name: str) -> None:
        self._calls: _Calls = SimpleQueue()
        threading.Thread(target=_work, args=(self._calls,), name=name, daemon=True).start()
        self._end = weakref.finalize(self, self._calls.put, None)
        self._end.atexit = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in the thread, after the calls submitted before."""
        future: Future[Any] = Future()
        self._calls.put((future, lambda: fn(*args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread after its remaining calls; does not wait for it."""
        self._end()


def _work(calls: _Calls) -> None:
    while (next_one := calls.get()) is not None:
        future, call = next_one
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 (raised where the call is awaited)
                future.set_exception(error)
        del next_one, future, call  # so that their objects are freed before the next call
