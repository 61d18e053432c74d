"""The frozen values of a message: what a broker carries, and how a consumer settles it.

A `Message` is a job on its way through a transport, a `Delivery` is one delivery of it to a
consumer. A consumer settles each delivery once: `Ack`, `Again` or `Bury`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from mutirao.model.brokers.foreign import ForeignMessage
from mutirao.model.brokers.message_id import MessageId as MessageId
from mutirao.model.jobs.job import DEFAULT_QUEUE
from mutirao.model.jobs.retry import FIRST_YEAR, LAST_YEAR

DECLARE = "mutirao transports declare"
Mode = Literal["alone", "carried"]
Header = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A job on its way through a broker.

    Parameters:
        id: of this message, the same at every repetition: 1 to 200 characters.
        task: the name of the task.
        args: the JSON object of the arguments by name, as text. "{}" where the job is in a store.
        queue: Mutirão's name of the queue. A transport makes the broker's name of it.
        attempt: the number of the attempt that this message asks for, from 1.
        run: the run of the job in its store; 0 where the message is the job.
        lost: how many workers in a row ended after its start was noted, and before its outcome.
        suspect: whether it may have ended a worker: it came again without an outcome.
        noted: whether its next start is noted, as that of a suspect is.
        ordering_key: for brokers that have groups, the group within which order is kept; others
            ignore it.
        headers: further facts, each a text or a number.
        delay: seconds for which the broker holds it back; of a received message 0.
    """

    id: str
    task: str
    args: str = "{}"
    queue: str = DEFAULT_QUEUE
    attempt: int = 1
    run: int = 0
    lost: int = 0
    suspect: bool = False
    noted: bool = False
    ordering_key: str | None = None
    headers: Mapping[str, Header] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """One delivery of a message to a consumer, which settles it once.

    Parameters:
        message: what was received; None if it cannot be read.
        raw: the body as received.
        problem: why it cannot be read, and what to do; None if it can be read, by a decoder if it
            is `foreign`.
        tag: what the transport needs to settle it; not for other use.
        foreign: the message of another program, for a decoder; None if it should be one of
            Mutirão's.
        id: of a message that cannot be read, the id that its publisher gave; "" if none.
        returned: how often it was delivered before, as far as the broker knows, without being
            settled: a worker or a connection ended, or it was never read.
    """

    message: Message | None
    raw: bytes
    problem: str | None = None
    tag: Any = None
    foreign: ForeignMessage | None = None
    id: str = ""
    returned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a message is dead: the error, the attempts made, when the first and the last failed."""

    error_type: str
    error: str
    attempts: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None


def shown_moment(said: datetime | None) -> datetime | None:
    """Return the aware moment in a dead message; None if not every time zone can represent it."""
    if said is None or not FIRST_YEAR <= said.year <= LAST_YEAR:
        return None
    return said if said.tzinfo else said.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Ack:
    """The message is settled and not delivered again. `cancelled`: its follow-up is not, either."""

    delivery: Delivery
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """The message is delivered again after `after` seconds.

    It then has the attempt and losses of `message`. `anew`: it is published again, also by a
    transport that counts deliveries and rewrites no messages. Unless the queue is in order, the
    number of its attempt does not grow then.
    """

    delivery: Delivery
    message: Message
    after: float = 0.0
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Bury:
    """The message is dead: kept aside with its cause, until a person returns or drops it."""

    delivery: Delivery
    cause: Cause


Settling = Ack | Again | Bury


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadMessage:
    """A dead message, as people see it.

    Parameters:
        id: of the message; for one without an id, a text that names it among the dead ones.
        task: the name of the task; None if the message cannot be read.
        queue: the queue from which it came; for messages of other programs, the broker's name of
            it.
        raw: its body; of a large one the beginning, at least a MiB.
        cause: why it is dead.
        exchange, routing_key: how another program published it, if it did and that is known.
    """

    id: str
    task: str | None
    queue: str
    raw: bytes
    cause: Cause
    exchange: str | None = None
    routing_key: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """An object at the broker that differs from what `declare` makes; `found` is None if missing.

    `theirs`: whether it belongs to other programs, so that `declare` does not make it. `fixed`:
    whether an existing object cannot be changed any more.
    """

    what: str
    expected: str
    found: str | None
    theirs: bool = False
    fixed: bool = True

    def __str__(self) -> str:
        """Return it as a sentence."""
        found = "is missing" if self.found is None else f"has {self.found}"
        return f"{self.what} {found}; expected {self.expected}"

    @property
    def advice(self) -> str:
        """What to do about it."""
        if self.found is not None and not self.fixed:
            return "change it there"
        if self.found is not None:
            return "it cannot be changed: delete it once it is empty, then declare it"
        return "correct queue=, or have them make it" if self.theirs else DECLARE
