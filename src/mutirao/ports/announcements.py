"""The port to a broker by which workers inform each other of themselves."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from mutirao.ports.transport import Transport


class Announcements(Protocol):
    """What workers announce to each other, for one of them. All of it is called in one event loop.

    Each may raise TransportUnavailable, and TransportMismatch where something is missing or
    forbidden: leave this and make another then. What is told meanwhile is not heard.
    """

    async def receive(self, seconds: float) -> bytes | None:
        """Wait for what somebody tells, for so long; also for what was told by this."""
        ...

    async def tell(self, body: bytes) -> None:
        """Announce to all that listen now; returns once the broker has confirmed it."""
        ...


@runtime_checkable
class Announces(Transport, Protocol):
    """A transport over which workers inform each other of themselves."""

    def announcements(self) -> AbstractAsyncContextManager[Announcements]:
        """Listen to announcements until the block is left. `declare` makes what it needs."""
        ...
