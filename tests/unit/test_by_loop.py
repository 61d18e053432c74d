"""Values of event loops, in programs that have another loop for each call."""

from __future__ import annotations

import asyncio
import gc
import weakref

from mutirao.aio import ByLoop


class Knowing:
    """A value that knows its loop, as a connection does."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()


async def here(values: ByLoop[Knowing]) -> Knowing:
    """Return the value of the running loop."""
    assert values.here(Knowing) is values.here(Knowing)
    return values.here(Knowing)


def test_values_of_closed_loops_go() -> None:
    """They would keep their loops, and these their keys."""
    over = list[Knowing]()
    values = ByLoop[Knowing](over.append)

    for n in range(5):
        last = asyncio.run(here(values))
        assert len(values) == 1
        assert len(over) == n

    assert last not in over
    first = weakref.ref(over[0].loop)
    over.clear()
    gc.collect()
    assert first() is None


def test_loops_that_run_keep_theirs() -> None:
    values = ByLoop[Knowing]()
    with asyncio.Runner() as one, asyncio.Runner() as other:
        mine = one.run(here(values))
        other.run(here(values))

        assert one.run(here(values)) is mine
        assert len(values.values()) == 2
