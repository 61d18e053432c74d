"""Publishes the first message to an exchange alone: others wait until it is confirmed.

A broker closes the channel of a message to an exchange that is not there, and the whole connection
for what is already on its way on that channel. So one message asks for all.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiormq.exceptions import ChannelAccessRefused, ChannelNotFoundEntity

from mutirao.errors import TransportError, TransportMismatch, TransportUnavailable

Send = Callable[[], Awaitable[TransportError | None]]


class Knocking:
    """The exchanges of one broker that have taken a message, and the others."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._asked: dict[str, asyncio.Future[TransportError | None]] = {}

    async def send(self, exchange: str, send: Send) -> TransportError | None:
        """Send one message to an exchange; return None, or why it was not taken.

        If another one asks at the moment and is not let in, this one is not sent either.
        """
        while exchange not in self._open:
            asked = self._asked.get(exchange)
            if asked is None:
                return await self._ask(exchange, send)
            if (refused := await asyncio.shield(asked)) is not None:
                return refused
        failure = await send()
        if failure is not None and _is_shut(failure):
            self._open.discard(exchange)
        return failure

    async def _ask(self, exchange: str, send: Send) -> TransportError | None:
        asked = self._asked[exchange] = asyncio.get_running_loop().create_future()
        refused = None
        try:
            error = await send()
            if error is None or (isinstance(error, TransportMismatch) and not _is_shut(error)):
                self._open.add(exchange)  # it exists, even if nothing is bound to it
            elif _is_shut(error) or isinstance(error, TransportUnavailable):
                refused = error
            return error
        finally:
            del self._asked[exchange]
            asked.set_result(refused)


def _is_shut(error: TransportError) -> bool:
    """Return whether it is the exchange that a message was refused for."""
    return isinstance(error.__cause__, ChannelNotFoundEntity | ChannelAccessRefused)
