"""An endpoint that falls silent is noticed long before its timeouts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial

import pytest

from mutirao.errors import StoreError
from mutirao.webhooks import silence
from mutirao.webhooks.silence import LEAST, TIMES, SilenceDetector


class Watched:
    """Attempts by a clock that stands still, and who was told to be silent."""

    def __init__(self) -> None:
        self.now, self.told, self.failing = 100.0, list[str](), False
        self.silence = SilenceDetector(self.doubt, 3, lambda: self.now)
        self.waiting, self.lent = list[str](), list[str]()

    async def doubt(self, id: str) -> None:
        """Note it, unless the store is away."""
        if self.failing:
            raise StoreError("away")
        self.told.append(id)

    def during(self, id: str) -> AbstractContextManager[Callable[[], None]]:
        """Let an attempt go on; note if it only waits, and if it leaves its slot to others."""
        values = partial(self.waiting.append, id), partial(self.lent.append, id)
        return self.silence.during(id, *values)

    def answer(self, id: str, took: float) -> None:
        """Let one attempt be answered after so many seconds."""
        with self.during(id) as answered:
            self.now += took
            answered()

    async def after(self, seconds: float) -> list[str]:
        """Return who was told by a look so much later."""
        self.now += seconds
        self.told.clear()
        await self.silence.look()
        return [*self.told]


async def test_silent_for_longer_than_usual() -> None:
    """It is told once, until it has answered; nobody waits for one to which nothing goes."""
    watched = Watched()
    watched.answer("fast", 0.01)
    watched.answer("slow", 1.0)
    assert await watched.after(3_600.0) == []
    with watched.during("fast"), watched.during("slow"):
        assert await watched.after(LEAST) == []
        assert await watched.after(0.1) == ["fast"]
        assert await watched.after(TIMES - LEAST) == ["slow"]
        watched.answer("slow", 0.0)
        assert await watched.after(LEAST) == []
        assert await watched.after(TIMES) == ["slow"]
    await watched.silence.aclose()


async def test_one_answer_of_many_is_enough() -> None:
    """As long as some attempts are answered, those that are not say nothing."""
    watched = Watched()
    with watched.during("erp"):
        for _ in range(5):
            watched.answer("erp", 0.1)
            assert await watched.after(LEAST - 0.1) == []
    await watched.silence.aclose()


async def test_told_again_while_the_store_is_away() -> None:
    """What could not be written is tried at the next look."""
    watched = Watched()
    with watched.during("erp"):
        watched.failing = True
        assert await watched.after(LEAST + 1) == []
        watched.failing = False
        assert await watched.after(0.0) == ["erp"]
    await watched.silence.aclose()


async def test_slots_of_what_only_waits() -> None:
    """They are lent while the endpoint is silent, up to a number; those that end count no more."""
    watched = Watched()
    with ExitStack() as going_on:
        for id in ("erp", "erp", "web"):
            going_on.enter_context(watched.during(id))
        watched.answer("web", 0.0)
        await watched.after(LEAST - 0.1)
        assert not watched.waiting
        watched.answer("web", 0.0)
        await watched.after(0.2)
        assert watched.waiting == watched.lent == ["erp", "erp"]
        for _ in range(2):  # while it is silent, at once
            going_on.enter_context(watched.during("erp"))
        assert (len(watched.waiting), len(watched.lent)) == (4, 3)
        watched.answer("erp", 0.0)
        going_on.enter_context(watched.during("erp"))
        assert (len(watched.waiting), len(watched.lent)) == (5, 3)
    with watched.during("erp"):
        await watched.after(LEAST + 1)
        assert (len(watched.waiting), len(watched.lent)) == (6, 4)
    await watched.silence.aclose()


async def test_how_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those to which something goes stay, however many there are."""
    monkeypatch.setattr(silence, "MOST_KNOWN", 3)
    watched = Watched()
    with ExitStack() as going_on:
        for id in "abcd":
            going_on.enter_context(watched.during(id))
        assert await watched.after(LEAST + 1) == ["a", "b", "c", "d"]
    for id in "efgh":
        watched.answer(id, 0.0)
    assert len(watched.silence._heard) <= 3 + 1
    await watched.silence.aclose()
