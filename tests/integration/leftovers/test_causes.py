"""What leaves rows behind without anybody's hand: pruning, beside jobs and transactions that go on.

The rows are what still keeps a key for others. Once nothing does, a worker removes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import psycopg
import pytest

from mutirao.model.jobs.job import NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.statements import doctor
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import NOW, at, finish, join, put, put_finished, take
from mutirao_conformance.supersede import activity
from mutirao_conformance.uniqueness import keyed
from tests.support.history import opened

NOTHING = ["nothing was left behind"]
# What is left behind of jobs of one key, where one comes after the other.
KINDS: dict[str, Callable[[], NewJob]] = {
    "keys of jobs that are no more": lambda: keyed("rerun"),
    "supersede rows of jobs that do not exist any more": lambda: activity("Like"),
}


@pytest.fixture
async def store(url: str) -> AsyncIterator[SqlStore]:
    """A store over an empty database."""
    async with opened(url) as store:
        yield store


async def left_behind(store: SqlStore) -> list[str]:
    """Return the doctor's findings of leftovers."""
    findings = await doctor.examine(store.engines, set())
    return [each.found for each in findings if each.about == "leftovers"]


async def is_found_and_mended(store: SqlStore, kind: str) -> None:
    """Expect one row of a kind: the doctor counts it, and housekeeping removes it."""
    assert await left_behind(store) == [f"1 {kind}"]
    assert await store.mend(now=NOW) == {kind: 1}
    assert await left_behind(store) == NOTHING


async def prune(store: SqlStore, outcome: OutcomeKind) -> int:
    """Delete what has ended so; return how many."""
    return await store.prune(outcome, 0, 100, now=at(1))


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelled_and_pruned_while_the_one_before_it_runs(
    store: SqlStore, kind: str
) -> None:
    """The row stays, as it names the running job, until that has ended."""
    worker = await join(store)
    await put(store, KINDS[kind]())
    running = await take(store, worker)
    [waiting] = await put(store, KINDS[kind]())
    assert await store.cancel(JobFilter(ids=(waiting,)), now=NOW) == [waiting]
    assert await prune(store, OutcomeKind.CANCELLED) == 1
    assert await left_behind(store) == NOTHING
    assert await store.mend(now=NOW) == {}
    await finish(store, worker, running)
    assert await prune(store, OutcomeKind.SUCCEEDED) == 1
    await is_found_and_mended(store, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 2])
async def test_whose_turn_it_is_meanwhile(store: SqlStore, kind: str, number: int) -> None:
    """That of the running one, although the row names a job that was pruned; then the next one's.

    A worker that looks for what is left behind does not change that.
    """
    worker = await join(store)
    await put(store, KINDS[kind]())
    running = await take(store, worker)
    waiting = [(await put(store, KINDS[kind]()))[0] for _ in range(number)]
    assert len(await store.cancel(JobFilter(ids=tuple(waiting)), now=NOW)) > 0
    await prune(store, OutcomeKind.CANCELLED)
    assert await store.mend(now=NOW) == {}
    [last] = await put(store, KINDS[kind]())
    assert await take(store, worker) == []
    await finish(store, worker, running)
    assert [claim.id for claim in await take(store, worker)] == [last]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("commits", [False, True])
async def test_pruned_while_a_caller_takes_its_key(pg_url: str, kind: str, commits: bool) -> None:
    """The row is the caller's to use; if that rolls back, it is left behind.

    On SQLite nobody prunes while a caller writes.
    """
    async with opened(pg_url) as store:
        await put_finished(store, await join(store), KINDS[kind]())
        with psycopg.connect(pg_url.replace("+psycopg", "")) as caller:
            store.enqueue([KINDS[kind]()], caller)
            assert await prune(store, OutcomeKind.SUCCEEDED) == 1
            (caller.commit if commits else caller.rollback)()
        if commits:
            assert await left_behind(store) == NOTHING
            assert await store.mend(now=NOW) == {}
        else:
            await is_found_and_mended(store, kind)
