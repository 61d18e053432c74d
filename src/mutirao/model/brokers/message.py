"""The frozen values of a message: what a broker carries, and what becomes of it.

A `Message` is a job on its way through a transport, a `Delivery` one hand-out of it to a consumer.
A consumer settles each delivery once: `Ack`, `Again` or `Bury`.
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
        noted: whether its next start is noted, which a suspect's is.
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
    """One hand-out of a message to a consumer, which settles it once.

    Parameters:
        message: what was received; None if it cannot be read.
        raw: the body as it came.
        problem: why it cannot be read, and what to do; None if it can, by a decoder if it is
            `foreign`.
        tag: what the transport needs to settle it; nothing for others.
        foreign: what another program published, for a decoder; None if it is to be one of ours.
        id: of a message that cannot be read, what its publisher calls it; "" if nothing.
        returned: how often it was handed out before, as far as the broker knows, and was not
            settled: a worker or a connection went, or it was never read.
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
    """Return a moment that a dead message names, aware; None if it is none in every time zone."""
    if said is None or not FIRST_YEAR <= said.year <= LAST_YEAR:
        return None
    return said if said.tzinfo else said.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Ack:
    """The message is done with: it is not delivered again. `cancelled`: nor is what follows it."""

    delivery: Delivery
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """The message comes again `after` seconds, as `message` says: its attempt, lost and headers.

    `anew`: also where a transport does not rewrite messages, but counts their hand-outs. Unless
    they are in order, it has no attempt more then.
    """

    delivery: Delivery
    message: Message
    after: float = 0.0
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Bury:
    """The message is dead: kept aside with its cause, until somebody returns or drops it."""

    delivery: Delivery
    cause: Cause


Settling = Ack | Again | Bury


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadMessage:
    """A dead message, as people see it.

    Parameters:
        id: of the message; of one without an id a text that names it among the dead.
        task: the name of the task; None if the message cannot be read.
        queue: the queue from which it came; for one that others published, the broker's name of it.
        raw: its body; of a large one the beginning, at least a MiB.
        cause: why it is dead.
        exchange, routing_key: how another program published it, if one did and that is known.
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
    """What the broker has otherwise than `declare` would make it; `found` is None if missing.

    `theirs`: whether it is of other programs, and not for `declare` to make. `fixed`: whether what
    is there cannot be changed any more.
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
