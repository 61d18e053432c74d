"""The one thread that runs synchronous database functions of an event loop."""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any

_Calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]


class OneThread(Executor):
    """Runs calls one after another.

    Ours and not `ThreadPoolExecutor`, which takes no calls any more once the interpreter is about
    to end: a worker in a script is stopped exactly then, and has jobs to give back.
    """

    def __init__(self, name: str) -> None:
        self._calls: _Calls = SimpleQueue()
        threading.Thread(target=_work, args=(self._calls,), name=name, daemon=True).start()
        self._end = weakref.finalize(self, self._calls.put, None)
        self._end.atexit = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a function called, after those before it."""
        future: Future[Any] = Future()
        self._calls.put((future, lambda: fn(*args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the thread end after the calls it has; nobody waits for it."""
        self._end()


def _work(calls: _Calls) -> None:
    while (next_one := calls.get()) is not None:
        future, call = next_one
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
                future.set_exception(error)
        del next_one, future, call  # whatever they hold is not kept until the next call comes
