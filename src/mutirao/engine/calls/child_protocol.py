"""The protocol between a worker and its child processes, over a pair of sockets.

Every message names its order, so that a late one is not taken for an answer to the next order.
`multiprocessing.connection` would suffice otherwise, but it waits without a limit: for buffer space
while a child does not read, or for the end of a message whose writer was killed while a fork of it
keeps the socket open.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from mutirao.model.brokers.message_id import MessageId
from mutirao.model.jobs.job import Claim
from mutirao.tasks.defaults import NO_DEFAULTS, DefaultsInWords

UP = b"u"  # the child runs and reads; about no order
ORDER = b"o"  # from the worker: what to run
BEGUN = b"b"  # the handler is about to be called
PROGRESS = b"t"  # the progress of the attempt
ALIVE = b"l"  # a sign of life of the attempt
ENDED = b"e"  # the outcome of the attempt
FAILED = b"f"  # why the child could not serve the order, as text
UNFIT = b"x"  # why the child can serve no order, as text
KINDS = (UP, ORDER, BEGUN, PROGRESS, ALIVE, ENDED, FAILED, UNFIT)

BYTES_PER_READ = 1 << 16
# Of a child's message; a result is at most 1 MiB, and is quoted in JSON.
MAX_MESSAGE_BYTES = 8 << 20
_HEAD = struct.Struct(">cQI")  # the kind, the number of the order, the length of the body


class InvalidMessage(Exception):
    """Bytes that are not a message, or a message that is not expected now."""


ImportPath = tuple[str, str]  # the module and the qualified name by which a child finds something


class Order(msgspec.Struct):
    """An order for a child: to run the handler of this task for this claim.

    It has all the hooks and factories, whatever the child has imported. `defaults`: the worker's,
    for tasks without options of their own. `database`: its name, as jobs show it.
    `message`: the id of a job that is a message, and of the job that it follows, as text, because
    the numbers of JSON are too small; the claim has no ids then. `trace`: the headers that carry
    the trace of the attempt.
    """

    task: ImportPath
    claim: Claim
    hooks: tuple[ImportPath, ...] = ()
    factories: tuple[ImportPath, ...] = ()
    defaults: DefaultsInWords = NO_DEFAULTS
    database: str = ""
    message: tuple[str, str | None] | None = None
    trace: Mapping[str, str] = {}

    def whole_claim(self) -> Claim:
        """Return the claim with its ids."""
        if self.message is None:
            return self.claim
        id, dead = self.message
        on_dead_of = None if dead is None else MessageId.of(dead)
        return self.claim._replace(id=MessageId.of(id), on_dead_of=on_dead_of)


class ChildMessage(NamedTuple):
    """A received message."""

    kind: bytes
    number: int
    body: bytes


def packed(kind: bytes, number: int, body: bytes = b"") -> bytes:
    """Return the bytes of a message about an order."""
    return _HEAD.pack(kind, number, len(body)) + body


class Inbox:
    """The received bytes, from which it builds messages."""

    def __init__(self, most: int | None = None) -> None:
        """Set the limit: a message has at most `most` bytes; None trusts the other side."""
        self._most = most
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._bytes += data

    def take(self) -> ChildMessage | None:
        """Return the next message; None while it is incomplete. Raises InvalidMessage."""
        if len(self._bytes) < _HEAD.size:
            return None
        kind, number, length = _HEAD.unpack_from(self._bytes)
        if kind not in KINDS:
            raise InvalidMessage(f"{bytes(self._bytes[:50])!r} begins no message")
        if self._most is not None and length > self._most:
            raise InvalidMessage(
                f"a message of {length:,} bytes, where {self._most:,} are the most"
            )
        end = _HEAD.size + length
        if len(self._bytes) < end:
            return None
        body = bytes(self._bytes[_HEAD.size : end])
        del self._bytes[:end]
        return ChildMessage(kind, number, body)
