"""Which lanes there are, and where each of them begins."""

from datetime import timedelta, timezone

import pytest

from mutirao.model.jobs.job import Lane, LaneHead, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    due,
    ended,
    join,
    put,
    take,
    take_one,
)


def names(heads: list[LaneHead]) -> list[tuple[int, str]]:
    """Return the lanes' priorities and queues."""
    return [(head.lane.priority, head.lane.queue) for head in heads]


class LanesContract:
    """`Store.lanes`."""

    async def test_an_empty_store_has_none(self, store: Store) -> None:
        """No job, no lane, whatever is asked for."""
        assert await store.lanes(None, now=NOW) == []
        assert await store.lanes(["default"], now=NOW) == []
        assert await store.lanes(None) == []

    async def test_by_priority_then_queue(self, store: Store) -> None:
        """Smaller priorities first; every pair of queue and priority is a lane of its own."""
        pairs = [(5, "a"), (-2, "b"), (0, "c"), (-2, "a"), (0, "a"), (5, "b")]
        await put(store, *(due(queue=queue, priority=priority) for priority, queue in pairs * 2))
        assert names(await store.lanes(None, now=NOW)) == sorted(pairs)

    async def test_only_the_queues_asked_for(self, store: Store) -> None:
        """Any collection of names; unknown ones are no error, and none means none."""
        await put(store, *(due(queue=queue) for queue in ("a", "b", "c")))
        assert names(await store.lanes({"c", "a"}, now=NOW)) == [(0, "a"), (0, "c")]
        assert names(await store.lanes(("b", "b", "elsewhere"), now=NOW)) == [(0, "b")]
        assert await store.lanes(["elsewhere"], now=NOW) == []
        assert await store.lanes([], now=NOW) == []

    async def test_the_bound_is_the_earliest_waiting_job(self, store: Store) -> None:
        """Its `run_at` and id; the smaller id where several are due at the same moment."""
        ids = await put(
            store, due(run_at=at(5)), due(run_at=at(-5)), due(run_at=at(-5)), due(run_at=at(9))
        )
        [head] = await store.lanes(None, now=NOW)
        assert head.lane == Lane("default", 0, at(-5), ids[1])

    async def test_the_bound_follows_claims_and_releases(self, store: Store) -> None:
        """Running jobs do not count; one that was given back does again."""
        first, second = await put(store, due(run_at=at(-2)), due(run_at=at(-1)))
        worker = await join(store)
        [claim] = await take(store, worker, 1)
        [head] = await store.lanes(None, now=NOW)
        assert (claim.id, head.lane) == (first, Lane("default", 0, at(-1), second))
        await store.release([(claim.id, claim.run)])
        [head] = await store.lanes(None, now=NOW)
        assert head.lane == Lane("default", 0, at(-2), first)

    async def test_a_lane_without_waiting_jobs_is_gone(self, store: Store) -> None:
        """Running, finished and cancelled jobs make no lane."""
        await put(store, due(), due(queue="other"))
        worker = await join(store)
        claims = await take(store, worker)
        assert await store.lanes(None, now=NOW) == []
        await store.settle(worker, [ended(claim) for claim in claims], now=NOW)
        await put(store, due())
        await store.cancel(JobFilter(), now=NOW)
        assert await store.lanes(None, now=NOW) == []

    async def test_a_retry_moves_the_bound(self, store: Store) -> None:
        """The job waits under its new `run_at`, ahead of now or behind it."""
        [id] = await put(store, due())
        worker = await join(store)
        for moment in (at(30), at(-30)):
            claim = await take_one(store, worker, now=at(60))
            again = ended(claim, OutcomeKind.RETRIED, at=moment)
            await store.settle(worker, [again], now=NOW)
            [head] = await store.lanes(None, now=NOW)
            assert head.lane == Lane("default", 0, moment, id)
            assert head.due_in == pytest.approx((moment - NOW).total_seconds(), abs=1e-3)

    async def test_how_long_until_it_is_due(self, store: Store) -> None:
        """Seconds: negative when it is late, zero to the moment, positive when it lies ahead."""
        waits = {"late": -90.5, "now": 0.0, "soon": 0.25, "later": 3_600.0}
        await put(store, *(due(queue=name, run_at=at(wait)) for name, wait in waits.items()))
        heads = await store.lanes(None, now=NOW)
        assert {head.lane.queue: head.due_in for head in heads} == pytest.approx(waits, abs=1e-3)
        assert {head.lane.queue for head in heads if head.due_in <= 0} == {"late", "now"}

    async def test_lanes_by_the_database_s_clock(self, store: Store) -> None:
        """Without `now`, what was due in 2024 is late and what is due in 2100 is far ahead."""
        await put(store, due(queue="a"), due(queue="b", run_at=FAR_AHEAD))
        late, ahead = await store.lanes(None)
        assert late.due_in < 0 < ahead.due_in

    async def test_now_may_be_in_any_time_zone(self, store: Store) -> None:
        """An aware moment is a moment."""
        await put(store, due(run_at=at(10)))
        [head] = await store.lanes(None, now=NOW.astimezone(timezone(timedelta(hours=-5))))
        assert head.due_in == pytest.approx(10.0, abs=1e-3)

    async def test_many_lanes(self, store: Store) -> None:
        """A queue for every customer: hundreds of lanes are listed, and claimed from at once."""
        await put(store, *(due(queue=f"customer-{n:04}") for n in range(700) for _ in "ab"))
        heads = await store.lanes(None, now=NOW)
        assert names(heads) == [(0, f"customer-{n:04}") for n in range(700)]
        some = await store.lanes([f"customer-{n:04}" for n in range(0, 700, 2)], now=NOW)
        assert len(some) == 350
        claims = await store.claim(await join(store), [head.lane for head in heads], 1_000, now=NOW)
        assert [claim.queue for claim in claims] == [f"customer-{n // 2:04}" for n in range(1_000)]
