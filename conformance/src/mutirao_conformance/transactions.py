"""Transactions: the effects and the completion of a job are one commit."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

import pytest

from mutirao.errors import StaleRun, WrongState
from mutirao.model.jobs.job import Claim, Gives, JobState, OutcomeKind, Wake
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import (
    SLACK,
    due,
    ended,
    ids_of,
    job_of,
    join,
    put,
    take_one,
)

Handler = Literal["function", "coroutine"]
each_kind = pytest.mark.parametrize("gives", get_args(Gives))


class Failed(Exception):
    """What a handler raises inside its transaction."""


class Watched:
    """An attempt that started two seconds ago, and counts how often it was marked as settled."""

    def __init__(self) -> None:
        self.times_settled = 0
        self.woken: Sequence[Wake] = ()

    def started_ago(self) -> float:
        """Return the seconds since the handler was started."""
        return 2.0

    def mark_settled(self, woken: Sequence[Wake] = ()) -> None:
        """Count."""
        self.times_settled += 1
        self.woken = woken


async def run(
    store: Store, claim: Claim, attempt: Watched, handler: Handler, *, gives: Gives = "session",
    child: bool = False, fail: bool = False, nested: bool = False,
) -> None:  # fmt: skip
    """Run a handler with a transaction: a coroutine, or a function in a thread."""
    transaction = store.transaction(job_of(claim), attempt, gives=gives)

    def in_a_thread() -> None:
        with transaction as held:
            if nested:
                held.begin_nested()
            if child:
                store.enqueue([due("child")], held)
            if fail:
                raise Failed

    if handler == "function":
        await asyncio.to_thread(in_a_thread)
        return
    async with transaction as held:
        if nested:
            await held.begin_nested()
        if child:
            await store.aenqueue([due("child")], held)
        if fail:
            raise Failed


async def children(store: Store) -> int:
    """Count the jobs that handlers enqueued."""
    return len(await store.jobs(JobFilter(task="child")))


class TransactionContract:
    """`Store.transaction`, in coroutines and in threads, with each that it gives."""

    handlers: ClassVar[Sequence[Handler]] = ("function", "coroutine")
    """Which kinds of handlers can have one on the backend."""

    @each_kind
    async def test_the_commit_completes_the_job(
        self, store: Store, handler: Handler, gives: Gives
    ) -> None:
        """The job has succeeded when the block is left, and the attempt was marked once."""
        [id] = await put(store, due())
        worker = await join(store, now=None)
        claim, attempt = await take_one(store, worker), Watched()
        await run(store, claim, attempt, handler, gives=gives)
        assert attempt.times_settled == 1
        record = await store.job(id)
        assert (record.state, record.attempt) == (JobState.SUCCEEDED, 1)
        [row] = record.attempts
        assert (row.outcome, row.run, row.worker) == (OutcomeKind.SUCCEEDED, claim.run, worker)
        assert 2 <= (row.finished_at - row.started_at).total_seconds() < 2 + SLACK
        assert await store.held(worker) == []

    async def test_nothing_is_left_to_settle(self, store: Store, handler: Handler) -> None:
        """A settlement that comes afterwards is stale."""
        await put(store, due())
        worker = await join(store, now=None)
        claim = await take_one(store, worker)
        await run(store, claim, Watched(), handler)
        failed = ended(claim, OutcomeKind.RETRIED, after=0, follow_up=due("after"))
        assert await store.settle(worker, [failed]) == set()
        assert await store.jobs(JobFilter(task="after")) == []
        assert len((await store.job(claim.id)).attempts) == 1

    @each_kind
    async def test_an_error_undoes_everything(
        self, store: Store, handler: Handler, gives: Gives
    ) -> None:
        """It reaches the handler's caller; the job runs on, and can be settled as usual."""
        await put(store, due())
        worker = await join(store, now=None)
        claim, attempt = await take_one(store, worker), Watched()
        with pytest.raises(Failed):
            await run(store, claim, attempt, handler, gives=gives, child=True, fail=True)
        assert attempt.times_settled == 0
        assert await children(store) == 0
        assert await store.held(worker) == [(claim.id, claim.run)]
        assert (await store.job(claim.id)).attempts == ()
        assert await store.settle(worker, [ended(claim)]) == {claim.id}

    async def test_a_savepoint_that_is_left_open(self, store: Store, handler: Handler) -> None:
        """Nothing lands: what was written since the savepoint, the completion too, might not."""
        await put(store, due())
        worker = await join(store, now=None)
        claim, attempt = await take_one(store, worker), Watched()
        with pytest.raises(WrongState, match=r"left a session\.begin_nested\(\) open"):
            await run(store, claim, attempt, handler, child=True, nested=True)
        assert attempt.times_settled == 0
        assert await children(store) == 0
        assert await store.held(worker) == [(claim.id, claim.run)]
        await run(store, claim, attempt, handler)
        assert (await store.job(claim.id)).state == JobState.SUCCEEDED

    async def test_another_one_after_an_error(self, store: Store, handler: Handler) -> None:
        """A handler that caught the error may try again in the same attempt."""
        await put(store, due())
        claim, attempt = await take_one(store, await join(store, now=None)), Watched()
        with pytest.raises(Failed):
            await run(store, claim, attempt, handler, fail=True)
        await run(store, claim, attempt, handler)
        assert attempt.times_settled == 1
        assert (await store.job(claim.id)).state == JobState.SUCCEEDED

    @each_kind
    async def test_children_land_with_it(
        self, store: Store, handler: Handler, gives: Gives
    ) -> None:
        """Jobs enqueued through the session are there when the job has succeeded."""
        await put(store, due())
        claim = await take_one(store, await join(store, now=None))
        await run(store, claim, Watched(), handler, gives=gives, child=True)
        assert await children(store) == 1
        assert (await store.job(claim.id)).state == JobState.SUCCEEDED

    @each_kind
    async def test_a_stale_run_lands_nothing(
        self, store: Store, handler: Handler, gives: Gives
    ) -> None:
        """Once the job was taken away, leaving the block raises and everything is undone."""
        await put(store, due())
        vanished = await join(store, expiry=1)
        claim, attempt = await take_one(store, vanished), Watched()
        assert [id for id, _ in await store.rescue()] == [claim.id]
        before = await store.job(claim.id)
        with pytest.raises(StaleRun, match=str(claim.id)):
            await run(store, claim, attempt, handler, gives=gives, child=True)
        assert attempt.times_settled == 0
        assert await children(store) == 0
        assert await store.job(claim.id) == before

    async def test_a_job_that_ended_is_stale(self, store: Store, handler: Handler) -> None:
        """Completed by an earlier transaction of the same attempt, or settled by its worker."""
        await put(store, due(), due())
        worker = await join(store, now=None)
        [head] = await store.lanes(None)
        first, second = await store.claim(worker, [head.lane], 2)
        await run(store, first, Watched(), handler)
        await store.settle(worker, [ended(second, OutcomeKind.RETRIED, after=0)])
        for claim in (first, second):
            attempt = Watched()
            with pytest.raises(StaleRun):
                await run(store, claim, attempt, handler)
            assert attempt.times_settled == 0

    async def test_several_at_once(self, store: Store, handler: Handler) -> None:
        """Handlers with transactions run side by side; each completes its own job."""
        ids = await put(store, *(due() for _ in range(12)))
        worker = await join(store, now=None)
        [head] = await store.lanes(None)
        claims = await store.claim(worker, [head.lane], 12)
        attempts = [Watched() for _ in claims]
        await asyncio.gather(
            *(run(store, c, a, handler, child=True) for c, a in zip(claims, attempts, strict=True))
        )
        assert [attempt.times_settled for attempt in attempts] == [1] * 12
        done = await store.jobs(JobFilter(state=JobState.SUCCEEDED))
        assert sorted(ids_of(done)) == ids
        assert await children(store) == 12
