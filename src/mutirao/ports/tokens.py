"""The port to a broker that keeps schedules: a queue for each, whose only message is its token."""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

from mutirao.model.brokers.message import Cause, Difference, Message
from mutirao.ports.transport import Transport


class HeldToken(NamedTuple):
    """A token that was handed out: of which schedule, in which turn, its body, its tag."""

    schedule: str
    turn: int
    body: bytes
    tag: Any


class Queued(NamedTuple):
    """How many tokens wait in a queue, those in hands not counted, and how many stand in line."""

    waiting: int
    consumers: int


class Tokens(Protocol):
    """The tokens of some schedules, for one worker. All of it is called in one event loop.

    Of all that stand in line at a queue only the first is handed tokens, until it passes its turn
    or vanishes: then the next one is. What is not dropped comes again, to whoever is the first.
    Each method may raise TransportUnavailable, and TransportMismatch for a queue that is missing:
    then all that is held is lost; leave this and make another.
    """

    async def receive(self) -> HeldToken:
        """Wait for a token, and return it. Cancelling it loses nothing."""
        ...

    def turn(self, schedule: str) -> int:
        """Return the number of the turn; what was handed out before it is to be given back."""
        ...

    async def line_up(self, schedule: str) -> None:
        """Stand in line at a queue, as the last one."""
        ...

    async def pass_turn(self, schedule: str) -> None:
        """Stand in line no more; what is held stays held. A second call does nothing."""
        ...

    async def put(self, schedule: str, body: bytes) -> None:
        """Put a token into a queue; returns once the broker has confirmed it."""
        ...

    async def drop(self, tags: Sequence[Any]) -> None:
        """Drop tokens."""
        ...

    async def give_back(self, tags: Sequence[Any]) -> None:
        """Give tokens back, to whoever is the first in line."""
        ...

    async def look(self, schedule: str) -> Queued:
        """Return what is in a queue, and who stands in line."""
        ...

    async def answer(self, name: str, body: bytes) -> None:
        """Tell a token to whoever asks for it by this name, if that still waits."""
        ...

    async def bury(self, schedule: str, message: Message, cause: Cause) -> None:
        """Put the job of a phase among the dead of its queue; to return it starts the schedule."""
        ...


@runtime_checkable
class KeepsSchedules(Transport, Protocol):
    """A transport that keeps schedules."""

    def tokens(self, schedules: Sequence[str]) -> AbstractAsyncContextManager[Tokens]:
        """Stand in line for the tokens of schedules, until the block is left."""
        ...

    async def start_schedule(self, schedule: str) -> None:
        """Have a schedule go on that has stopped; one that goes on is left alone.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the schedule's queue is missing.
        """
        ...

    async def token_of(self, schedule: str) -> bytes | None:
        """Return the token of a schedule, whoever holds it, and leave it there.

        Who holds it is asked; where nobody works, it is looked at in its queue. None: neither has
        it, as before the first worker; or who has it does not answer within some seconds.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the schedule's queue is missing.
        """
        ...

    async def declare_schedules(self, schedules: Sequence[str]) -> list[str]:
        """Make what schedules need; see `Transport.declare`."""
        ...

    async def left_schedules(self, but: Collection[str]) -> list[str]:
        """Return the schedules, but these, that were declared once and still have a queue.

        Raises:
            TransportUnavailable: the broker is away.
        """
        ...

    async def drop_schedule(self, schedule: str) -> None:
        """Delete the queue of a schedule, with its token; what was declared is forgotten with it.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: it has none, or a worker stands in line for it.
        """
        ...

    async def compare_schedules(self, schedules: Sequence[str]) -> list[Difference]:
        """Return what is missing or otherwise; see `Transport.compare`."""
        ...
