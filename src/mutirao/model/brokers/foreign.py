"""The frozen values of messages that other programs publish, and of the results of decoders.

A decoder is a function from a `ForeignMessage` to arguments: a mapping of them by name, or a
`Decoded` with further options.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from math import inf
from typing import Any

from mutirao.errors import InvalidJob


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignMessage:
    """A message of another program, as it was received.

    Parameters:
        body: its bytes.
        id: its id; one that was made up, if its publisher gave it none.
        type: the type that its publisher gave; None if it gave none.
        headers: its headers, without those of brokers and of Mutirão.
        content_type, content_encoding: as its publisher gave them; None if it gave none.
        exchange, routing_key: how it was first published.
        attempt: the number of the attempt that is asked for, from 1.
        lost, suspect, noted: whether workers ended with it; see `Message`.
        kept: what Mutirão has recorded with it.
    """

    body: bytes
    id: str
    type: str | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    content_type: str | None = None
    content_encoding: str | None = None
    exchange: str = ""
    routing_key: str = ""
    attempt: int = 1
    lost: int = 0
    suspect: bool = False
    noted: bool = False
    kept: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """32 hexadecimal digits of its body and of how it was published.

        It is an id for messages whose publisher gives none: the same at each delivery. Two equal
        messages have the same one.
        """
        digest = blake2b(f"{self.exchange}\0{self.routing_key}\0".encode(), digest_size=16)
        digest.update(self.body)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The result of a decoder.

    Parameters:
        args: the arguments by name.
        positional: further arguments by position.
        task: the name of the task; None: the only one that consumes the queue.
        id: the id of the job, the same at every repetition; None: that of the message.
        run_at: not before this aware datetime; None: now.
        expires_at: dropped after this aware datetime; None: never.
        timeout: the maximum seconds of an attempt; None: that of the task.
        tenant, group: the job's tenant, and the group of the tenant.
        traceparent: the W3C trace context of the publisher.
    """

    args: Mapping[str, Any] = field(default_factory=dict)
    positional: Sequence[Any] = ()
    task: str | None = None
    id: str | None = None
    run_at: datetime | None = None
    expires_at: datetime | None = None
    timeout: float | None = None
    tenant: str | None = None
    group: str | None = None
    traceparent: str | None = None

    def __post_init__(self) -> None:
        """Check values whose errors would otherwise end more than this message.

        Raises:
            InvalidJob: a value has the wrong type, or no time zone.
        """
        if not isinstance(self.args, Mapping):
            raise _unfit("args", self.args, "a mapping of the arguments by name")
        if isinstance(self.positional, str) or not isinstance(self.positional, Sequence):
            raise _unfit("positional", self.positional, "a list of arguments")
        for name in ("task", "id", "tenant", "group", "traceparent"):
            if not isinstance(text := getattr(self, name), str | None) or text == "":
                raise _unfit(name, text, "a text that is not empty, or None")
            if text is not None and not _is_text(text):
                raise _unfit(name, text, "of characters that exist")
        for name in ("run_at", "expires_at"):
            moment = getattr(self, name)
            if not isinstance(moment, datetime | None) or (
                moment is not None and moment.tzinfo is None
            ):
                raise _unfit(name, moment, "a datetime with a time zone, or None")
        timeout: object = self.timeout
        if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout < inf):
            raise _unfit("timeout", self.timeout, "seconds above 0, or None")


def _is_text(text: str) -> bool:
    """Return whether it can be written: JSON may contain halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unfit(name: str, value: object, expected: str) -> InvalidJob:
    return InvalidJob(f"a decoder returned {name}={value!r:.100}; it is to be {expected}")


Decode = Callable[[ForeignMessage], Decoded | Mapping[str, Any]]
