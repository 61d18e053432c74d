"""The loop that all parts of a worker turn in: its pauses, its signs of life, its errors."""

from __future__ import annotations

import asyncio

import pytest

from mutirao.engine.loops import LoopHealth, LoopRetry, forever
from mutirao.errors import StoreUnavailable, TransportUnavailable


class Pulse(LoopHealth):
    """Signs of life without time: rests end at once, and are noted."""

    def __init__(self) -> None:
        super().__init__("loop", 90.0)
        self.noted: list[str | float] = []

    def turn(self) -> None:
        """As `LoopHealth.turn`."""
        if hasattr(self, "noted"):
            self.noted.append("turn")

    async def rest(self, seconds: float, stopping: asyncio.Event | None = None) -> None:
        """As `LoopHealth.rest`."""
        self.noted.append(seconds)


def retry() -> LoopRetry:
    """Return the retry of a loop that has no patience with what does not pass."""
    return LoopRetry("cannot", "again", 1.0, patience=-1.0)


async def test_it_rests_as_long_as_a_turn_says() -> None:
    """With a sign of life before each; it ends before the next turn once it is to stop."""
    pulse, stopping, waits = Pulse(), asyncio.Event(), [3.0, 0.0]

    async def body() -> float:
        if len(waits) == 1:
            stopping.set()
        return waits.pop(0)

    await forever(body, pulse, retry(), after=7.0, stopping=stopping)
    assert pulse.noted == [7.0, "turn", 3.0, "turn", 0.0]


async def test_what_passes_is_waited_out(caplog: pytest.LogCaptureFixture) -> None:
    """And told, as is that it is over."""
    pulse, stopping, turns = Pulse(), asyncio.Event(), [1, 0]

    async def body() -> float:
        if turns.pop(0):
            raise StoreUnavailable("away")
        stopping.set()
        return 9.0

    await forever(body, pulse, retry(), stopping=stopping)
    _, _, wait, _, rest = pulse.noted
    assert isinstance(wait, float)
    assert 0 < wait < 1
    assert rest == 9.0
    assert [each.getMessage().split(";")[0] for each in caplog.records] == [
        "cannot: away",
        "the database is back",
    ]


async def test_what_does_not_pass_ends_it() -> None:
    """Once its patience is over."""
    turns = 0

    async def body() -> float:
        nonlocal turns
        turns += 1
        raise ValueError("no such column")

    with pytest.raises(ValueError, match="no such column"):
        await forever(body, Pulse(), retry())
    assert turns == 2  # the first one may be a change of the schema


async def test_errors_of_another_kind_end_it() -> None:
    """A loop may know of which errors it is to wait."""

    async def body() -> float:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        await forever(body, Pulse(), retry(), waits_out=TransportUnavailable)
