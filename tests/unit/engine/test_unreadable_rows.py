"""The search for a row of which every claim fails: what it asks, whom it buries, and when not."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from mutirao.engine.claiming.unreadable_rows import MOST_FAILURES, UNREADABLE, UnreadableRowSearch
from mutirao.engine.settings import WorkerSettings, identity
from mutirao.engine.worker_row import WorkerRow
from mutirao.errors import StoreUnavailable, WorkerGone


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pytest capture no log: xdist crashes of half a character in what a test has logged."""
    monkeypatch.setattr(logging.getLogger("mutirao"), "disabled", True)


class Tables:
    """A store, a dispatcher and what claims, of which some rows cannot be read."""

    def __init__(self, *bad: int, commits: bool = True) -> None:
        self.bad, self.commits = set(bad), commits
        self.asked: list[list[int]] = []
        self.claimed: set[int] = set()
        self.unknown: set[int] = set()  # held, and nobody knows it
        self.buried: dict[int, str] = {}
        self.away = False

    async def claim(self, jobs: Collection[int]) -> Sequence[Any]:
        self.asked.append([*jobs])
        if self.away:
            raise StoreUnavailable("away")
        if self.bad & {*jobs}:
            if self.commits:
                self.unknown |= {*jobs}
            raise ValueError("half a character \ud83d")
        self.claimed |= {*jobs}
        return [*jobs]

    async def held(self, worker: int) -> list[tuple[int, int]]:
        return [(id, 1) for id in self.claimed | self.unknown]

    def holds(self) -> set[tuple[int, int]]:
        return {(id, 1) for id in self.claimed}

    async def release(self, jobs: Sequence[tuple[int, int]]) -> None:
        self.unknown -= {id for id, _ in jobs}

    async def bury(self, job: int, error_type: str, error: str) -> bool:
        assert job not in self.unknown
        assert error_type == UNREADABLE
        error.encode()
        self.buried[job] = error
        return True

    def sieve(self) -> UnreadableRowSearch:
        store: Any = self
        row = WorkerRow(store, identity(WorkerSettings(), ""), 1)
        sieve: UnreadableRowSearch = UnreadableRowSearch(row, store, self.claim)
        return sieve


@pytest.mark.parametrize("commits", [False, True])
async def test_the_row_is_found_in_halves(commits: bool) -> None:
    """The others are claimed, and what a claim took is given back before the next part."""
    tables = Tables(37, commits=commits)
    assert await tables.sieve().sift(range(1, 101), 100) == 99
    assert tables.claimed == {*range(1, 101)} - {37}
    assert list(tables.buried) == [37]
    assert tables.buried[37].startswith("no worker can claim it: ValueError: half a character")
    assert len(tables.asked) <= 20
    assert not tables.unknown


async def test_no_more_are_claimed_than_are_wanted() -> None:
    """However many are looked at."""
    tables = Tables(2, 3)
    assert await tables.sieve().sift(range(1, 101), 5) == 5
    assert tables.claimed == {1, 4, 5, 6, 7}
    assert {*tables.buried} == {2, 3}


async def test_a_row_that_is_alone_is_not_buried() -> None:
    """The reason may be elsewhere: what was raised is raised."""
    tables = Tables(*range(1, 9))
    with pytest.raises(ValueError, match="half a character"):
        await tables.sieve().sift(range(1, 9), 4)
    assert tables.buried == {}


@pytest.mark.parametrize("error", [StoreUnavailable("away"), WorkerGone("gone")])
async def test_what_passes_is_no_rows_fault(error: Exception) -> None:
    """It starts no search, and ends one."""
    tables = Tables(1)
    sieve = tables.sieve()
    for _ in range(2 * MOST_FAILURES):
        sieve.met(error)
    assert not sieve.is_due
    tables.away = True
    with pytest.raises(StoreUnavailable):
        await sieve.sift(range(1, 9), 8)
    assert tables.buried == {}


async def test_a_search_is_due_after_some_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a while; and after one that found nothing not before as many others."""
    now = 0.0
    monkeypatch.setattr("mutirao.engine.claiming.unreadable_rows.monotonic", lambda: now)
    sieve: Any = Tables().sieve()
    for _ in range(MOST_FAILURES):
        assert not sieve.is_due
        sieve.met(KeyError())
    assert sieve.is_due
    now += 61.0
    assert not sieve.is_due
    sieve.met(KeyError())
    assert not sieve.is_due
    sieve.met(KeyError())
    sieve.met(KeyError())
    assert sieve.is_due
    assert await sieve.sift([], 5) == 0
    assert not sieve.is_due
