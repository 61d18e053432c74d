"""The port to a broker over which workers exchange announcements."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from mutirao.ports.transport import Transport


class Announcements(Protocol):
    """Sends and receives announcements for one worker. All methods are called in one event loop.

    Each may raise TransportUnavailable, and TransportMismatch if something is missing or forbidden:
    then leave this and make another. Announcements that are sent meanwhile are not received.
    """

    async def receive(self, seconds: float) -> bytes | None:
        """Wait up to `seconds` for an announcement, also of this worker; None: none came."""
        ...

    async def tell(self, body: bytes) -> None:
        """Announce to all current listeners; returns once the broker has confirmed it."""
        ...


@runtime_checkable
class Announces(Transport, Protocol):
    """A transport over which workers exchange announcements."""

    def announcements(self) -> AbstractAsyncContextManager[Announcements]:
        """Listen to announcements until the block is left. `declare` makes the objects for it."""
        ...
