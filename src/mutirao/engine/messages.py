"""What a worker and its child processes say to each other, over a pair of sockets.

Every message names the order it belongs to, so that a late one is not taken for an answer to the
next order. `multiprocessing.connection` would do for the rest, but it waits without a limit: for
room while a child does not read, and for the end of a message whose writer was killed while a fork
of it keeps the socket open.
"""

import struct
from typing import NamedTuple

import msgspec

from mutirao.job import Claim

ORDER = b"o"  # from the worker: what to run
BEGUN = b"b"  # the handler is about to be called
TOLD = b"t"  # how far it has come
ENDED = b"e"  # how the attempt ended
FAILED = b"f"  # why the child could not do what it was told, as text
KINDS = (ORDER, BEGUN, TOLD, ENDED, FAILED)

CHUNK = 1 << 16  # bytes read at once
MOST = 8 << 20  # bytes of what a child says; a result is at most 1 MiB, and is quoted in JSON
_HEAD = struct.Struct(">cQI")  # the kind, the number of the order, the bytes that follow


class Nonsense(Exception):
    """What came is no message, or not one that could come now."""


class Order(msgspec.Struct):
    """What a child is to run: the handler of this task, for this claim."""

    module: str
    qualname: str
    claim: Claim


class Message(NamedTuple):
    """Something that was said."""

    kind: bytes
    number: int
    body: bytes


def packed(kind: bytes, number: int, body: bytes = b"") -> bytes:
    """Return the bytes of a message about an order."""
    return _HEAD.pack(kind, number, len(body)) + body


class Inbox:
    """Puts messages together from the bytes that came."""

    def __init__(self, most: int | None = None) -> None:
        """`most`: bytes that a message may have; None trusts the other side."""
        self._most = most
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes)

    def feed(self, data: bytes) -> None:
        """Take some bytes."""
        self._bytes += data

    def take(self) -> Message | None:
        """Return the next message, or None while it is not complete. Raises Nonsense."""
        if len(self._bytes) < _HEAD.size:
            return None
        kind, number, length = _HEAD.unpack_from(self._bytes)
        if kind not in KINDS:
            raise Nonsense(f"{bytes(self._bytes[:50])!r} begins no message")
        if self._most is not None and length > self._most:
            raise Nonsense(f"a message of {length:,} bytes, where {self._most:,} are the most")
        end = _HEAD.size + length
        if len(self._bytes) < end:
            return None
        body = bytes(self._bytes[_HEAD.size : end])
        del self._bytes[:end]
        return Message(kind, number, body)
