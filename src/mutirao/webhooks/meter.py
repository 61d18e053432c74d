"""Limits the bytes that a server sends besides its answer: interim answers, control frames.

They are counted before httpcore2 reads them. They cost a server nothing, but this process about 15
µs each in h11 or h2. An endless stream of them would keep an event loop busy for ever, because
available data is read without waiting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Protocol

import httpcore2

MOST_INTERIM = 16  # answers of 1xx before one that counts; few servers send more than one
LARGEST_HEAD = 64 * 1024  # bytes before the body of an answer, interim answers included
MOST_READS = 1_000  # before the body of an answer: a head in single bytes is not accepted

MOST_FRAMES = 500.0  # of HTTP/2 besides those that carry a body, at once and from the start
EACH_SECOND = 20.0  # more with each second, so that pings of hours are allowed
EACH_REQUEST = 20.0  # and with each request
EACH_FRAME = 2.0  # and with each sent frame of a body: its server opens two windows for it

_BLANK_LINE = re.compile(rb"\n\r?\n")
_INTERIM = re.compile(rb"HTTP/[0-9]\.[0-9] 1(?!01)[0-9][0-9]")  # 101 is the end of HTTP
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS = 0, 1
_HEAD = 9  # bytes before what a frame carries


class Meter(Protocol):
    """Examines all bytes that are sent and received on a connection."""

    def said(self, data: bytes) -> None:
        """Record sent bytes."""
        ...

    def heard(self, data: bytes) -> None:
        """Record received bytes; raise httpcore2.RemoteProtocolError if there are too many."""
        ...


class Http1Meter:
    """Counts the bytes before the body of an answer."""

    def __init__(self) -> None:
        self._before_body = True
        self._rest = bytearray()
        self._looked_at = 0  # bytes of the rest without a blank line
        self._bytes = self._reads = self._interim = 0

    def said(self, data: bytes) -> None:
        """Start again: the next bytes answer this request."""
        self._before_body, self._rest = True, bytearray()
        self._looked_at = self._bytes = self._reads = self._interim = 0

    def heard(self, data: bytes) -> None:
        """Count; bytes after the head of an answer are not examined."""
        if not self._before_body:
            return
        self._bytes += len(data)
        self._reads += 1
        self._rest += data
        self._before_body = not self._has_come()
        if self._before_body and (self._bytes > LARGEST_HEAD or self._reads > MOST_READS):
            raise httpcore2.RemoteProtocolError(
                f"no answer's head has come to its end; expected {LARGEST_HEAD:,} bytes in"
                f" {MOST_READS:,} parts at most"
            )

    def _has_come(self) -> bool:
        """Return whether the head of a final answer has come, besides interim ones."""
        while end := _BLANK_LINE.search(self._rest, self._looked_at):
            if not _INTERIM.match(self._rest):
                return True
            self._interim += 1
            if self._interim > MOST_INTERIM:
                raise httpcore2.RemoteProtocolError(
                    f"more than {MOST_INTERIM} interim answers came before an answer; expected one"
                )
            del self._rest[: end.end()]
            self._looked_at = 0
        self._looked_at = max(0, len(self._rest) - 2)
        return False


class Http2Meter:
    """Counts frames: those of bodies are free, for all others there is an allowance.

    It grows with time and with what is sent, since servers answer both by frames of their own.

    Parameters:
        clock: seconds of a clock that does not jump.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._allowed, self._at = MOST_FRAMES, clock()
        self._coming, self._going = _Frames(), _Frames(len(_PREFACE))

    def said(self, data: bytes) -> None:
        """Allow more, for each request and each part of a body."""
        for kind, _ in self._going.read(data):
            if kind in (_HEADERS, _DATA):
                self._allowed += EACH_REQUEST if kind == _HEADERS else EACH_FRAME

    def heard(self, data: bytes) -> None:
        """Count all frames except those that carry bytes of a body."""
        now = self._clock()
        self._allowed = min(self._allowed + (now - self._at) * EACH_SECOND, 2 * MOST_FRAMES)
        self._at = now
        for kind, length in self._coming.read(data):
            if kind != _DATA or not length:
                self._allowed -= 1
        if self._allowed < 0:
            raise httpcore2.RemoteProtocolError(
                "too many frames of HTTP/2 came that carry no body, such as PING and SETTINGS;"
                f" expected {MOST_FRAMES:g} at most, {EACH_REQUEST:g} more with each request, and"
                f" {EACH_SECOND:g} with each second"
            )


class _Frames:
    """Reads types and lengths of frames from parts of any length."""

    def __init__(self, skip: int = 0) -> None:
        self._skip, self._head = skip, b""

    def read(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield the type and the length of each frame that begins here."""
        at = 0
        while at < len(data):
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            part = data[at : at + _HEAD - len(self._head)]
            self._head += part
            at += len(part)
            if len(self._head) == _HEAD:
                self._skip = int.from_bytes(self._head[:3], "big")
                yield self._head[3], self._skip
                self._head = b""
