"""The port to a broker that keeps schedules: a queue for each, whose only message is its token."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from mutirao.ports.transport import Transport

if TYPE_CHECKING:
    from mutirao.model.brokers.message import Cause, Difference, Message


class HeldToken(NamedTuple):
    """A token that was received: its schedule, the turn, its body, its tag."""

    schedule: str
    turn: int
    body: bytes
    tag: Any


class Queued(NamedTuple):
    """How many tokens wait in a queue, without held ones, and how many workers stand in line."""

    waiting: int
    consumers: int


class Tokens(Protocol):
    """The tokens of some schedules, for one worker. All methods are called in one event loop.

    Of all workers that stand in line at a queue only the first receives tokens, until it passes its
    turn or vanishes: then the next one does. A token that is not dropped is delivered again, to the
    first in line. Each method may raise TransportUnavailable, and TransportMismatch for a queue
    that is missing: then all held tokens are lost; leave this and make another.
    """

    async def receive(self) -> HeldToken:
        """Wait for a token, and return it. Cancelling it loses nothing."""
        ...

    def turn(self, schedule: str) -> int:
        """Return the number of the turn; tokens that were received before it must be given back."""
        ...

    async def line_up(self, schedule: str) -> None:
        """Stand in line at a queue, as the last one."""
        ...

    async def pass_turn(self, schedule: str) -> None:
        """Leave the line; held tokens stay held. A second call does nothing."""
        ...

    async def put(self, schedule: str, body: bytes) -> None:
        """Put a token into a queue; returns once the broker has confirmed it."""
        ...

    async def drop(self, tags: Sequence[Any]) -> None:
        """Drop tokens."""
        ...

    async def give_back(self, tags: Sequence[Any]) -> None:
        """Give tokens back, to the first in line."""
        ...

    async def look(self, schedule: str) -> Queued:
        """Return what is in a queue, and how many workers stand in line."""
        ...

    async def answer(self, name: str, body: bytes) -> None:
        """Send a token to the program that asked for it by this name, if that still waits."""
        ...

    async def bury(self, schedule: str, message: Message, cause: Cause) -> None:
        """Bury the job of a phase; returning it starts the schedule again."""
        ...


@runtime_checkable
class KeepsSchedules(Transport, Protocol):
    """A transport that keeps schedules."""

    def tokens(self, schedules: Sequence[str]) -> AbstractAsyncContextManager[Tokens]:
        """Stand in line for the tokens of schedules, until the block is left."""
        ...

    async def start_schedule(self, schedule: str) -> None:
        """Continue a schedule that has stopped; one that runs is left alone.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the schedule's queue is missing.
        """
        ...

    async def token_of(self, schedule: str) -> bytes | None:
        """Return the token of a schedule, whichever worker holds it, and leave it there.

        Its holder is asked; if no worker holds it, it is read in its queue. None: it is in neither
        place, as before the first worker; or its holder does not answer within some seconds.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the schedule's queue is missing.
        """
        ...

    async def declare_schedules(self, schedules: Sequence[str]) -> list[str]:
        """Make what schedules need at the broker; see `Transport.declare`."""
        ...

    async def left_schedules(self, but: Collection[str]) -> list[str]:
        """Return the schedules except these that were once declared and still have a queue.

        Raises:
            TransportUnavailable: the broker is away.
        """
        ...

    async def drop_schedule(self, schedule: str) -> None:
        """Delete the queue of a schedule, with its token; its declaration is forgotten with it.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: it has none, or a worker stands in line for it.
        """
        ...

    async def compare_schedules(self, schedules: Sequence[str]) -> list[Difference]:
        """Return what is missing or different; see `Transport.compare`."""
        ...
