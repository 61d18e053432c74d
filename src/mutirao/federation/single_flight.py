"""Single flight: concurrent callers of one question share its answer, also across event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class _AbandonedError(Exception):
    """The asking caller was cancelled, or its event loop ended: another one asks."""


class SingleFlight(Generic[T]):
    """Lets one caller do what others want at the same time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._asked: dict[str, Future[T]] = {}

    async def once(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `ask`, or of the call for the same key that already runs."""
        while True:
            with self._lock:
                asked = self._asked.get(what)
                if asked is None:
                    mine = self._asked[what] = Future[T]()
                    mine.set_running_or_notify_cancel()  # no waiting caller can cancel it
            if asked is None:
                return await self._lead(what, mine, ask)
            try:
                return await asyncio.wrap_future(asked)
            except _AbandonedError:
                continue

    async def _lead(self, what: str, mine: Future[T], ask: Callable[[], Awaitable[T]]) -> T:
        try:
            found = await ask()
        except BaseException as error:
            self._end(what)
            mine.set_exception(error if isinstance(error, Exception) else _AbandonedError())
            raise
        self._end(what)
        mine.set_result(found)
        return found

    def _end(self, what: str) -> None:
        with self._lock:
            del self._asked[what]
