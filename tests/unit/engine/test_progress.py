"""What handlers may tell of their progress."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from math import inf, nan
from typing import Any

import pytest

from mutirao import Job
from mutirao.engine.calls.progress import ProgressWriter
from mutirao.engine.loops import LoopHealth
from mutirao.errors import InvalidProgress
from mutirao.testing import MemoryStore


def told(done: Any, of: Any = None, note: Any = None) -> tuple[float, float | None, str | None]:
    """Return what is kept when a handler tells this."""
    board = ProgressWriter(MemoryStore())
    claim: Any = type("Claim", (), {"id": 1, "run": 2})
    begin: Any = None
    Job(claim, 1, None, begin, board.report).progress(done, of=of, note=note)
    [kept] = board._reports.values()
    return kept.done, kept.of, kept.note


def test_numbers() -> None:
    """Of any kind."""
    assert told(1, Decimal(2)) == (1.0, 2.0, None)
    assert told(True) == (1.0, None, None)


@pytest.mark.parametrize("number", [nan, inf, -inf])
def test_no_finite_number(number: float) -> None:
    """SQLite has no NaN, and nobody reads infinity as progress."""
    with pytest.raises(InvalidProgress, match="give a finite number"):
        told(number)
    with pytest.raises(InvalidProgress, match="give a finite number"):
        told(1, of=number)


def test_no_number() -> None:
    """The handler hears of it."""
    for done in ("many", None, 10**400):
        with pytest.raises(InvalidProgress):
            told(done)


def test_notes() -> None:
    """What databases cannot hold is replaced, and the rest cut off."""
    assert told(1, note="nul \x00 and half \ud800, fine: é日")[2] == (
        "nul \\x00 and half \\ud800, fine: é日"
    )
    assert told(1, note="\ud800" * 5_000_000)[2] == ("\\ud800" * 100)[:500]
    for note in (7, b"seven"):
        with pytest.raises(InvalidProgress, match="give text"):
            told(1, note=note)


async def test_what_another_call_has_written() -> None:
    """The loop that was woken for it finds nothing, and waits again: others have their turn."""
    store = MemoryStore()
    board = ProgressWriter(store)
    loop = asyncio.create_task(board.run(LoopHealth("progress", 60)))
    await asyncio.sleep(0)
    claim: Any = type("Claim", (), {"id": 1, "run": 2})
    for done in range(3):
        board.report(claim, done, None, None)
        await board.write()
        await asyncio.sleep(0)
    loop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loop
