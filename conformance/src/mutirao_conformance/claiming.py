"""Claims: how many jobs, which ones, in which order, and their new state."""

from collections.abc import Sequence
from datetime import timedelta, timezone

import pytest

from mutirao.model.jobs.job import JobState
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    due,
    ids_of,
    join,
    lane,
    put,
    take,
)


class ClaimingContract:
    """`Store.claim`."""

    @pytest.mark.parametrize("limit", [1, 3, 9, 10])
    async def test_the_limit_of_a_claim(self, store: Store, limit: int) -> None:
        """Up to `limit` jobs of all lanes in total, and fewer where there are no more."""
        places = [("a", 1), ("b", 2), ("c", 3)]
        await put(store, *(due(queue=queue, priority=n) for queue, n in places for _ in range(3)))
        lanes = [lane(*place) for place in places]
        claims = await store.claim(await join(store), lanes, limit, now=NOW)
        assert [claim.queue for claim in claims] == list("aaabbbccc")[:limit]

    @pytest.mark.parametrize("limit", [1, 2, 3, 6, 8, 9, 10, 12])
    async def test_lanes_of_the_same_priority(self, store: Store, limit: int) -> None:
        """However a claim is shared between them, it takes what there is, each from its front."""
        jobs = [due(queue=queue) for queue in "abbccccc"]
        ids = await put(store, *jobs, due(queue="d", priority=1))
        lanes = [*(lane(queue) for queue in "abc"), lane("d", 1)]
        claims = await store.claim(await join(store), lanes, limit, now=NOW)
        assert len(claims) == min(limit, len(ids))
        for each in lanes:
            taken = [claim.id for claim in claims if claim.queue == each.queue]
            waited = [id for id, job in zip(ids, jobs, strict=False) if job.queue == each.queue]
            assert taken == waited[: len(taken)] or each.queue == "d"
        assert ("d" in {claim.queue for claim in claims}) == (limit > len(jobs))

    async def test_nothing_is_asked_for(self, store: Store) -> None:
        """A limit of nothing, or no lane, takes nothing and leaves everything."""
        worker, ids = await join(store), await put(store, due())
        assert await store.claim(worker, [lane()], 0, now=NOW) == []
        assert await store.claim(worker, [], 10, now=NOW) == []
        assert await store.claim(worker, [lane("elsewhere")], 10, now=NOW) == []
        assert await store.claim(worker, [lane(priority=1)], 10, now=NOW) == []
        [claim] = await store.claim(worker, [lane()], 10, now=NOW)
        assert ([claim.id], claim.run, claim.attempt) == (ids, 1, 1)

    async def test_in_the_order_of_run_at_then_id(self, store: Store) -> None:
        """Inside a lane, whatever order the jobs were written in."""
        moments = [-1, -9, -5, -5, -7, -5, 0, -9]
        ids = await put(store, *(due(run_at=at(moment)) for moment in moments))
        worker = await join(store)
        expected = [id for _, id in sorted(zip(moments, ids, strict=True))]
        claims = [*await take(store, worker, 3), *await take(store, worker, 100)]
        assert ids_of(claims) == expected

    @pytest.mark.parametrize("order", [["b", "a", "c"], ["c", "b", "a"], ["a", "c"]])
    async def test_lanes_in_the_order_given(self, store: Store, order: Sequence[str]) -> None:
        """Neither by name, nor by priority, nor by age."""
        await put(
            store,
            *(due(queue=queue, priority=priority, run_at=at(-age))
              for queue, priority, age in [("a", 0, 5), ("b", 9, 1), ("c", -9, 3)]
              for _ in range(2)),
        )  # fmt: skip
        priorities = {"a": 0, "b": 9, "c": -9}
        lanes = [lane(queue, priorities[queue]) for queue in order]
        claims = await store.claim(await join(store), lanes, 100, now=NOW)
        assert [claim.queue for claim in claims] == [queue for queue in order for _ in range(2)]

    async def test_priorities_of_one_queue_are_lanes(self, store: Store) -> None:
        """Smaller runs first when the lanes come as `lanes()` gives them."""
        await put(store, *(due(priority=n, run_at=at(-n)) for n in (3, 1, 2, 1)))
        claims = await take(store, await join(store))
        assert [claim.priority for claim in claims] == [1, 1, 2, 3]

    async def test_not_before_it_is_due(self, store: Store) -> None:
        """Due at this very moment is due; a moment ahead is not, however far one may look."""
        early, exact, ahead = await put(
            store, *(due(run_at=moment) for moment in (at(-1), NOW, at(0.001)))
        )
        worker = await join(store)
        assert ids_of(await store.claim(worker, [lane()], 9, now=NOW)) == [early, exact]
        assert await store.claim(worker, [lane()], 9, now=NOW) == []
        assert ids_of(await store.claim(worker, [lane()], 9, now=at(0.001))) == [ahead]

    async def test_a_job_ahead_does_not_hold_up_another_lane(self, store: Store) -> None:
        """A lane whose head is not due is passed over."""
        await put(store, due(queue="a", run_at=at(60)), due(queue="b"))
        [claim] = await store.claim(await join(store), [lane("a"), lane("b")], 9, now=NOW)
        assert claim.queue == "b"

    async def test_claims_by_the_database_s_clock(self, store: Store) -> None:
        """Without `now`: what was due in 2024 is taken, what is due in 2100 is not."""
        past, _ = await put(store, due(), due(run_at=FAR_AHEAD))
        worker = await join(store, now=None)
        assert ids_of(await store.claim(worker, [lane()], 9)) == [past]

    async def test_the_bound_is_included(self, store: Store) -> None:
        """The job at the bound is taken, and what comes after it."""
        ids = await put(store, *(due(run_at=at(n)) for n in (-3, -2, -1)))
        bound = lane(run_at=at(-2), id=ids[1])
        assert ids_of(await store.claim(await join(store), [bound], 9, now=NOW)) == ids[1:]

    async def test_the_bound_counts_the_id(self, store: Store) -> None:
        """Among jobs of the same moment, those with smaller ids lie before the bound."""
        ids = await put(store, *(due() for _ in range(4)))
        worker = await join(store)
        bound = lane(run_at=NOW, id=ids[2])
        assert ids_of(await store.claim(worker, [bound], 9, now=NOW)) == ids[2:]
        assert await store.claim(worker, [bound], 9, now=NOW) == []
        assert ids_of(await store.claim(worker, [lane()], 9, now=NOW)) == ids[:2]

    async def test_the_bound_is_a_pair(self, store: Store) -> None:
        """A later moment with a smaller id lies behind the bound, not before it."""
        later, earlier = await put(store, due(run_at=at(-1)), due(run_at=at(-2)))
        worker = await join(store)
        bound = lane(run_at=at(-2), id=earlier)
        assert ids_of(await store.claim(worker, [bound], 9, now=NOW)) == [earlier, later]

    async def test_each_lane_has_its_own_bound(self, store: Store) -> None:
        """The bound of one lane hides nothing in another."""
        ids = await put(store, *(due(queue=q, run_at=at(n)) for q in "ab" for n in (-9, -1)))
        lanes = [lane("a", run_at=at(-5), id=0), lane("b", run_at=at(-20), id=0)]
        claims = await store.claim(await join(store), lanes, 9, now=NOW)
        assert ids_of(claims) == ids[1:]

    async def test_a_bound_ahead_of_everything(self, store: Store) -> None:
        """Nothing lies behind it, and nothing is lost."""
        ids = await put(store, due())
        worker = await join(store)
        assert await store.claim(worker, [lane(run_at=FAR_AHEAD)], 9, now=NOW) == []
        assert ids_of(await store.claim(worker, [lane()], 9, now=NOW)) == ids

    async def test_moments_of_any_time_zone(self, store: Store) -> None:
        """Bound and now are moments, however they are written."""
        zone = timezone(timedelta(hours=-11))
        ids = await put(store, due(run_at=at(-2)), due(run_at=at(-1)), due(run_at=at(1)))
        bound = lane(run_at=at(-1).astimezone(zone))
        claims = await store.claim(await join(store), [bound], 9, now=NOW.astimezone(zone))
        assert ids_of(claims) == [ids[1]]

    async def test_without_some_tasks(self, store: Store) -> None:
        """Jobs of those tasks are left as they are, for others to take."""
        ids = await put(store, due("known"), due("new"), due("newer"), due("known"))
        worker = await join(store)
        claims = await store.claim(
            worker, [lane()], 9, without={"new", "newer", "never seen"}, now=NOW
        )
        assert ids_of(claims) == [ids[0], ids[3]]
        left = await store.claim(worker, [lane()], 9, now=NOW)
        assert [(claim.id, claim.run, claim.attempt) for claim in left] == [
            (ids[1], 1, 1),
            (ids[2], 1, 1),
        ]

    async def test_tasks_left_alone_do_not_use_up_the_limit(self, store: Store) -> None:
        """A wall of unknown jobs at the head of a lane hides nothing behind it."""
        await put(store, *(due("new", run_at=at(-9)) for _ in range(20)))
        ids = await put(store, *(due("known") for _ in range(4)))
        claims = await store.claim(await join(store), [lane()], 3, without=["new"], now=NOW)
        assert ids_of(claims) == ids[:3]

    async def test_a_taken_job_is_nobody_else_s(self, store: Store, other_store: Store) -> None:
        """Not for another claim of the same worker, nor for another worker on another handle."""
        mine, theirs = await join(store), await join(other_store)
        [id] = await put(store, due())
        assert ids_of(await store.claim(mine, [lane()], 9, now=NOW)) == [id]
        for _ in range(2):
            assert await store.claim(mine, [lane()], 9, now=NOW) == []
            assert await other_store.claim(theirs, [lane()], 9, now=NOW) == []
        record = await other_store.job(id)
        assert (record.state, record.worker, record.attempt) == (JobState.RUNNING, mine, 1)
        assert (record.started_at, record.finished_at) == (NOW, None)

    async def test_run_and_attempt_grow_with_every_claim(self, store: Store) -> None:
        """From one; what is given back unattempted takes its attempt along, but not its run."""
        await put(store, due())
        worker = await join(store)
        runs = []
        for _ in range(4):
            [claim] = await take(store, worker)
            runs.append(claim.run)
            assert claim.attempt == 1
            assert await store.release([(claim.id, claim.run)]) == {claim.id}
        assert runs[0] == 1
        assert runs == sorted(set(runs))

    async def test_held_are_the_jobs_of_this_worker(self, store: Store) -> None:
        """Id and run of each; none for one that holds none or does not exist."""
        mine, other = await join(store), await join(store)
        await put(store, *(due() for _ in range(5)))
        claims = await take(store, mine, 3)
        await take(store, other, 1)
        assert sorted(await store.held(mine)) == sorted((c.id, c.run) for c in claims)
        await store.release([claims[0][:2]])
        assert sorted(await store.held(mine)) == sorted((c.id, c.run) for c in claims[1:])
        assert len(await store.held(other)) == 1
        assert await store.held(max(mine, other) + 100) == []
