"""Repeats the first request of a call if the server had ended the session before it came.

A pooler keeps its clients while the server's connections behind it end, so a client cannot see that
first. The server did nothing with the request; earlier statements on that connection would be
undone, so later requests are not repeated.
"""

from collections.abc import Awaitable, Callable

from mutirao.sql.drivers.failures import was_ended
from mutirao.sql.drivers.steps import AsyncDriver, Request, Rows, SyncDriver


class FirstAgain:
    """An adapter for one call.

    `renew` replaces the connection, and returns the adapter of the new one.
    """

    __slots__ = ("_driver", "_renew", "_said")

    def __init__(self, driver: SyncDriver, renew: Callable[[Exception], SyncDriver]) -> None:
        self._driver, self._renew, self._said = driver, renew, False

    def handle(self, request: Request) -> Rows:
        """Send the request."""
        if self._said:
            return self._driver.handle(request)
        self._said = True
        try:
            return self._driver.handle(request)
        except Exception as error:
            if not was_ended(error):
                raise
            self._driver = self._renew(error)
        return self._driver.handle(request)


class AsyncFirstAgain:
    """The same for an adapter that is awaited."""

    __slots__ = ("_driver", "_renew", "_said")

    def __init__(
        self, driver: AsyncDriver, renew: Callable[[Exception], Awaitable[AsyncDriver]]
    ) -> None:
        self._driver, self._renew, self._said = driver, renew, False

    async def handle(self, request: Request) -> Rows:
        """Send the request."""
        if self._said:
            return await self._driver.handle(request)
        self._said = True
        try:
            return await self._driver.handle(request)
        except Exception as error:
            if not was_ended(error):
                raise
            self._driver = await self._renew(error)
        return await self._driver.handle(request)
