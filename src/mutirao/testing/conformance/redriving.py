"""Dead jobs that get another life."""

import json

from mutirao.model.job import JobState, OutcomeKind
from mutirao.model.records import JobFilter
from mutirao.ports import Store
from mutirao.testing.conformance.kit import (
    NOW,
    SLACK,
    due,
    ended,
    ids_of,
    join,
    put,
    put_finished,
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
                key="k", tags=("x",), metadata={"m": 1}, traceparent="00-1-2-01", on_dead_of=77),
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

    async def test_only_dead_ones(self, store: Store) -> None:
        """Neither live jobs nor those that ended well or were cancelled, even when named."""
        worker = await join(store)
        ids = await put_finished(store, worker, due())
        ids += await put_finished(store, worker, due(), kind=OutcomeKind.CANCELLED)
        ids += await put(store, due())
        await take_one(store, worker)
        ids += await put(store, due())
        assert await store.redrive(JobFilter()) == []
        assert await store.redrive(JobFilter(ids=tuple(ids))) == []

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
