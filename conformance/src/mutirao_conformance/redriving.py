"""Redriving: finished jobs are enqueued again."""

import json

import pytest

from mutirao.model.graphs.graph import chain, group
from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.jobs.records import GraphState, JobFilter
from mutirao.ports import Store
from mutirao_conformance.graphs import a, returned, taking, write_graph
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    SLACK,
    due,
    ended,
    finish,
    ids_of,
    join,
    put,
    put_finished,
    take,
    take_one,
)


class RedriveContract:
    """`Store.redrive`."""

    async def test_nothing_to_redrive(self, store: Store) -> None:
        """No jobs, no dead ones, or an empty list of ids, which is not all of them."""
        assert await store.redrive(JobFilter()) == []
        await put_finished(store, await join(store), due(), kind=OutcomeKind.DEAD)
        assert await store.redrive(JobFilter(ids=())) == []
        assert await store.redrive(JobFilter(ids=(4_711,))) == []
        assert await store.redrive(JobFilter(task="other")) == []
        assert len(await store.jobs(JobFilter())) == 1

    async def test_a_new_job_like_the_old_one(self, store: Store) -> None:
        """Everything that was asked, from the first attempt, due now, linked to the dead one."""
        worker = await join(store, now=None)
        [dead] = await put_finished(
            store, worker,
            due("t", args='{"a": 1}', queue="q", priority=5, max_attempts=4, timeout=2.5,
                key="k", tags=("x",), metadata={"m": 1}, traceparent="00-1-2-01", on_dead_of=77,
                tenant="acme", group="north"),
            kind=OutcomeKind.DEAD,
        )  # fmt: skip
        [id] = await store.redrive(JobFilter(ids=(dead,)))
        [head] = await store.lanes(["q"])
        [claim] = await store.claim(worker, [head.lane], 9)
        assert (claim.id, claim.run, claim.attempt, claim.redrive_of) == (id, 1, 1, dead)
        assert (claim.task, json.loads(claim.args)) == ("t", {"a": 1})
        assert (claim.queue, claim.priority, claim.key) == ("q", 5, "k")
        assert (claim.max_attempts, claim.timeout) == (4, 2.5)
        assert json.loads(claim.tags or "[]") == ["x"]
        assert json.loads(claim.metadata or "{}") == {"m": 1}
        assert (claim.traceparent, claim.on_dead_of) == ("00-1-2-01", 77)
        assert (claim.tenant, claim.group) == ("acme", "north")
        assert claim.enqueued_at > NOW
        assert abs((claim.run_at - claim.enqueued_at).total_seconds()) < SLACK

    async def test_the_dead_one_stays(self, store: Store) -> None:
        """With its attempts, its error and its moments."""
        worker = await join(store)
        [dead] = await put_finished(
            store, worker, due(), kind=OutcomeKind.DEAD, error_type="ValueError"
        )
        before = await store.job(dead)
        [id] = await store.redrive(JobFilter(ids=(dead,)))
        assert await store.job(dead) == before
        assert (before.state, before.error_type) == (JobState.DEAD, "ValueError")
        assert (await store.job(id)).attempts == ()

    async def test_live_ones_are_not_redriven(self, store: Store) -> None:
        """They have not ended, even when named, or asked for by state."""
        worker = await join(store)
        ids = await put(store, due())
        await take_one(store, worker)
        ids += await put(store, due())
        assert await store.redrive(JobFilter()) == []
        assert await store.redrive(JobFilter(ids=tuple(ids))) == []
        assert await store.redrive(JobFilter(state=JobState.READY)) == []
        assert len(await store.jobs(JobFilter())) == 2

    @pytest.mark.parametrize("kind", [OutcomeKind.SUCCEEDED, OutcomeKind.CANCELLED])
    async def test_others_if_they_are_meant(self, store: Store, kind: OutcomeKind) -> None:
        """Succeeded or cancelled jobs are enqueued again by id or by state."""
        worker = await join(store, now=None)
        [first, other] = await put_finished(store, worker, due(key="k"), due(), kind=kind)
        assert await store.redrive(JobFilter()) == []
        assert await store.redrive(JobFilter(task="greet")) == []
        [named] = await store.redrive(JobFilter(ids=(first,)))
        assert (await store.job(named)).redrive_of == first
        [second] = await store.redrive(JobFilter(state=JobState(kind.value)))
        assert (await store.job(second)).redrive_of == other
        assert await store.redrive(JobFilter(state=JobState(kind.value))) == []
        assert (await store.job(first)).state.value == kind.value

    async def test_by_filter(self, store: Store) -> None:
        """Those that are meant; each gets one new job."""
        worker = await join(store)
        dead = {
            error: await put_finished(
                store, worker, due(), due(), kind=OutcomeKind.DEAD, error_type=error
            )
            for error in ("ValueError", "KeyError")
        }
        again = await store.redrive(JobFilter(error_type="KeyError"))
        links = [(await store.job(id)).redrive_of or 0 for id in again]
        assert sorted(links) == dead["KeyError"]
        assert len(await store.redrive(JobFilter(state=JobState.DEAD))) == 2
        assert await store.redrive(JobFilter(state=JobState.DEAD)) == []

    async def test_once_unless_named(self, store: Store) -> None:
        """A filter passes over what was redriven already; an id asks for it again."""
        worker = await join(store)
        [dead] = await put_finished(store, worker, due(), kind=OutcomeKind.DEAD)
        [first] = await store.redrive(JobFilter())
        assert await store.redrive(JobFilter()) == []
        assert await store.redrive(JobFilter(task="greet")) == []
        [second] = await store.redrive(JobFilter(ids=(dead,)))
        assert first != second
        assert (await store.job(second)).redrive_of == dead

    async def test_a_redriven_job_that_died_again(self, store: Store) -> None:
        """Is a dead job like any other, while the first one stays passed over."""
        worker = await join(store, now=None)
        await put_finished(store, worker, due(), kind=OutcomeKind.DEAD)
        [first] = await store.redrive(JobFilter())
        [head] = await store.lanes(None)
        [claim] = await store.claim(worker, [head.lane], 9)
        await store.settle(worker, [ended(claim, OutcomeKind.DEAD)])
        [second] = await store.redrive(JobFilter())
        assert (await store.job(second)).redrive_of == first

    async def test_the_limit_counts_what_is_redriven(self, store: Store) -> None:
        """Call after call takes the next ones, until none is left."""
        worker = await join(store)
        dead = await put_finished(store, worker, *(due() for _ in range(5)), kind=OutcomeKind.DEAD)
        await put_finished(store, worker, due(), due())
        calls = [await store.redrive(JobFilter(limit=2)) for _ in range(4)]
        assert [len(call) for call in calls] == [2, 2, 1, 0]
        links = [(await store.job(id)).redrive_of for call in calls for id in call]
        assert sorted(link or 0 for link in links) == dead

    async def test_a_thousand_redriven(self, store: Store) -> None:
        """A whole night's failures in one call."""
        worker = await join(store)
        dead = await put_finished(
            store, worker, *(due() for _ in range(1_500)), kind=OutcomeKind.DEAD
        )
        again = await store.redrive(JobFilter(limit=None))
        assert len(set(again)) == 1_500
        assert not set(again) & set(dead)
        waiting = await store.jobs(JobFilter(state=JobState.READY, limit=None))
        assert sorted(ids_of(waiting)) == sorted(again)

    async def test_a_cancelled_graph(self, store: Store) -> None:
        """Its steps take their places again: those that waited for others do so as before."""
        first, *_ = ids = await write_graph(store, chain(a(1), group(a(2), a(3)), taking()))
        assert sorted(await store.cancel(JobFilter(graph=first), now=NOW)) == ids
        again = await store.redrive(JobFilter(graph=first, state=JobState.CANCELLED))
        assert len(again) == len(ids)
        record = await store.graph(first)
        assert (record.state, record.blocked, record.waiting) == (GraphState.RUNNING, 3, 1)
        worker, came = await join(store, now=None), list[int]()
        while claims := await take(store, worker, now=FAR_AHEAD):
            came += ids_of(claims)
            await store.settle(worker, [returned(claim, claim.id) for claim in claims])
        assert came == again
        assert (await store.graph(first)).state is GraphState.SUCCEEDED

    async def test_a_cancelled_step_alone(self, store: Store) -> None:
        """The graph goes on with the job in its place."""
        first, second, third = await write_graph(store, chain(a(), a(), a()))
        worker = await join(store)
        await store.cancel(JobFilter(ids=(second,)), now=NOW)
        await finish(store, worker, [await take_one(store, worker)])
        assert (await store.graph(first)).state is GraphState.STOPPED
        [again] = await store.redrive(JobFilter(ids=(second,)))
        worker, came = await join(store, now=None), list[int]()
        while claims := await take(store, worker, now=FAR_AHEAD):
            came += ids_of(claims)
            await store.settle(worker, [ended(claim) for claim in claims])
        assert came == [again, third]

    async def test_a_step_that_succeeded(self, store: Store) -> None:
        """Its graph is over; the new job is on its own, with the results that it took before."""
        first, second = await write_graph(store, chain(a(7), taking()))
        worker = await join(store)
        for value in ("one", "two"):
            await store.settle(worker, [returned(await take_one(store, worker), value)], now=NOW)
        [again] = await store.redrive(JobFilter(ids=(second,)))
        claim = await take_one(store, await join(store, now=None), now=FAR_AHEAD)
        assert (claim.id, json.loads(claim.args)) == (again, {"got": "one"})
        await store.settle(worker, [ended(claim)])
        record = await store.graph(first)
        assert (record.state, record.succeeded, record.jobs) == (GraphState.SUCCEEDED, 2, 2)
