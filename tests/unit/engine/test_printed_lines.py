"""What handlers print leaves a worker in whole lines, whatever its standard output is."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from mutirao.engine.calls.handler_damage import write_whole_lines


class Pipe(io.RawIOBase):
    """Keeps each piece that is written."""

    def __init__(self) -> None:
        self.pieces = list[bytes]()

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, piece: bytes) -> int:  # type: ignore[override]
        """Keep it."""
        self.pieces.append(bytes(piece))
        return len(piece)


@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_line_is_one_piece(monkeypatch: pytest.MonkeyPatch, unbuffered: bool) -> None:
    """At once, and not in four, between which the log could write its own."""
    pipe = Pipe()
    raw: Any = pipe if unbuffered else io.BufferedWriter(pipe)
    with io.TextIOWrapper(raw, write_through=unbuffered) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        write_whole_lines()
        print("m-1", "was booked before")  # noqa: T201 (as a handler does)
        assert pipe.pieces == [b"m-1 was booked before\n"]


def test_a_stream_of_another_kind_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as there is in a notebook, or none."""
    monkeypatch.setattr(sys, "stdout", None)
    write_whole_lines()
