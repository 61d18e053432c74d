"""A portal from synchronous code to asynchronous functions: an event loop in its own thread.

Administration is written once, asynchronously; its synchronous face goes through here.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Portal:
    """An event loop that starts with the first call. A forked child starts its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    @property
    def running(self) -> bool:
        """True if the loop runs in this process."""
        return self._loop is not None and self._pid == os.getpid()

    def call(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a coroutine function in the loop and return its result, or raise its error."""

        async def call() -> R:
            return await function(*args, **kwargs)

        return asyncio.run_coroutine_threadsafe(call(), self.loop()).result()

    def close(self) -> None:
        """End the loop's thread, if it runs in this process."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs."""
        with self._lock:
            if self._loop is None or not self.running:
                self._pid, self._loop = os.getpid(), asyncio.new_event_loop()
                threading.Thread(
                    target=_run, args=(self._loop,), name="mutirao-portal", daemon=True
                ).start()
            return self._loop


class HasPortal(Protocol):
    """A client whose coroutine methods have synchronous faces."""

    _portal: Portal


S = TypeVar("S", bound=HasPortal)


def blocking(method: Callable[Concatenate[S, P], Awaitable[R]]) -> Callable[Concatenate[S, P], R]:
    """Return the synchronous face of a coroutine method: `put = blocking(aput)`.

    It takes, returns and raises the same; the coroutine runs in the client's portal.
    """

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._portal.call(method, self, *args, **kwargs)

    name = method.__name__
    call.__name__ = name.removeprefix("a")
    call.__qualname__ = method.__qualname__.removesuffix(name) + call.__name__
    call.__doc__ = _of_synchronous_code(method.__doc__ or "")
    return call


def _of_synchronous_code(doc: str) -> str:
    """Return a docstring whose first sentence says where the function is called from."""
    first, end, rest = doc.removesuffix(".").partition(".\n")
    return f"{first}, from synchronous code.{end[1:]}{rest}"


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()
