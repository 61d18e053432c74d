"""The leases that keep equal workers from doing the same duty at once, and small upkeep."""

import pytest

from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import NOW, SLACK, at, due, ids_of, join, put, take


class LeaseContract:
    """`Store.lease`. Workers are 1, 2 …; a duty is any name."""

    async def test_the_first_to_come(self, store: Store) -> None:
        """Gets it; the next one does not."""
        assert await store.lease("rescue", 1, ttl=10, every=10, now=NOW)
        assert not await store.lease("rescue", 2, ttl=10, every=10, now=at(1))

    async def test_duties_are_independent(self, store: Store) -> None:
        """Holding one says nothing about another, whatever they are called."""
        for duty in ("rescue", "prune succeeded", "prüfen 🎈", "'; --"):
            assert await store.lease(duty, 1, ttl=10, every=10, now=NOW)
            assert not await store.lease(duty, 2, ttl=10, every=10, now=NOW)

    async def test_again_when_it_is_time(self, store: Store) -> None:
        """The holder also waits `every` seconds, then may take it again, and waits again."""
        assert await store.lease("rescue", 1, ttl=60, every=10, now=NOW)
        assert not await store.lease("rescue", 1, ttl=60, every=10, now=NOW)
        assert not await store.lease("rescue", 1, ttl=60, every=10, now=at(9.5))
        assert await store.lease("rescue", 1, ttl=60, every=10, now=at(10))
        assert not await store.lease("rescue", 1, ttl=60, every=10, now=at(19.5))
        assert await store.lease("rescue", 1, ttl=60, every=10, now=at(20))

    async def test_nobody_else_while_it_is_held(self, store: Store) -> None:
        """Others wait for the end of the lease even when the duty has long been due."""
        assert await store.lease("rescue", 1, ttl=60, every=10, now=NOW)
        assert not await store.lease("rescue", 2, ttl=60, every=10, now=at(59.5))
        assert await store.lease("rescue", 2, ttl=60, every=10, now=at(60))
        assert not await store.lease("rescue", 1, ttl=60, every=10, now=at(119.5))

    async def test_nobody_before_it_is_time(self, store: Store) -> None:
        """When the lease has ended but the duty is not due yet, no worker gets it."""
        assert await store.lease("prune", 1, ttl=5, every=100, now=NOW)
        for worker in (1, 2):
            assert not await store.lease("prune", worker, ttl=5, every=100, now=at(99.5))
        assert await store.lease("prune", 2, ttl=5, every=100, now=at(100))

    async def test_trying_changes_nothing(self, store: Store) -> None:
        """A refused worker has not put the duty off for anybody."""
        assert await store.lease("rescue", 1, ttl=10, every=10, now=NOW)
        for second in range(1, 10):
            assert not await store.lease("rescue", 2, ttl=99, every=10, now=at(second))
            assert not await store.lease("rescue", 1, ttl=99, every=10, now=at(second))
        assert await store.lease("rescue", 2, ttl=10, every=10, now=at(10))

    async def test_who_else_holds_it(self, store: Store) -> None:
        """Others get the seconds that are left; the holder, and all when it is free, get 0."""
        assert await store.held_elsewhere("relay", 2, now=NOW) == 0
        assert await store.lease("relay", 1, ttl=30, every=0, now=NOW)
        assert await store.held_elsewhere("relay", 2, now=at(10)) == pytest.approx(20, abs=0.01)
        assert await store.held_elsewhere("relay", 1, now=at(10)) == 0
        assert await store.held_elsewhere("relay", 2, now=at(30)) == 0

    async def test_a_heartbeat_returns_it_too(self, store: Store) -> None:
        """Of the duty that it names, in the same statement."""
        one, other = await join(store), await join(store)
        assert await store.lease("relay", one, ttl=30, every=0, now=NOW)
        for worker, duty, left in ((other, "relay", 20), (one, "relay", 0), (other, "prune", 0)):
            beat = await store.beat(worker, expiry=60, duty=duty, now=at(10))
            assert beat[:2] == (True, ())
            assert beat.held_elsewhere == pytest.approx(left, abs=0.01)

    async def test_a_renewed_lease_holds_anew(self, store: Store) -> None:
        """For its whole duration, from the moment of the renewal."""
        assert await store.lease("rescue", 1, ttl=30, every=10, now=NOW)
        assert await store.lease("rescue", 1, ttl=30, every=10, now=at(20))
        assert not await store.lease("rescue", 2, ttl=30, every=10, now=at(35))
        assert await store.lease("rescue", 2, ttl=30, every=10, now=at(50))

    async def test_parts_of_a_second(self, store: Store) -> None:
        """Neither `ttl` nor `every` is rounded."""
        assert await store.lease("rescue", 1, ttl=0.25, every=0.25, now=NOW)
        assert not await store.lease("rescue", 2, ttl=0.25, every=0.25, now=at(0.2))
        assert await store.lease("rescue", 2, ttl=0.25, every=0.25, now=at(0.25))

    async def test_seen_by_others(self, store: Store, other_store: Store) -> None:
        """A lease is in the data, not in the handle."""
        assert await store.lease("rescue", 1, ttl=10, every=1, now=NOW)
        assert not await other_store.lease("rescue", 2, ttl=10, every=1, now=at(5))
        assert await other_store.lease("rescue", 2, ttl=10, every=1, now=at(10))
        assert not await store.lease("rescue", 1, ttl=10, every=1, now=at(15))

    async def test_leases_by_the_database_s_clock(self, store: Store) -> None:
        """Without `now`, it is now."""
        assert await store.lease("rescue", 1, ttl=SLACK, every=0)
        assert not await store.lease("rescue", 2, ttl=SLACK, every=0)
        assert await store.lease("rescue", 1, ttl=SLACK, every=0)


class UpkeepContract:
    """The upkeep of a store, and its handles."""

    async def test_the_tables_fit(self, store: Store) -> None:
        """A store that is ready for the code says nothing."""
        await store.check()

    async def test_statistics(self, store: Store) -> None:
        """Refreshing them changes no job, however often."""
        ids = await put(store, due(), due())
        worker = await join(store)
        [claim] = await take(store, worker, 1)
        await store.refresh_statistics()
        await store.refresh_statistics()
        assert await store.held(worker) == [(claim.id, claim.run)]
        assert sorted(ids_of(await store.jobs(JobFilter()))) == ids

    @pytest.mark.parametrize("times", [1, 2])
    async def test_closing(self, store: Store, times: int) -> None:
        """Once or twice: the store opens again when it is used, and everything is there."""
        ids = await put(store, due())
        worker = await join(store)
        for _ in range(times):
            await store.close()
        assert ids_of(await take(store, worker)) == ids
        await store.close()
        assert await put(store, due()) != ids
        assert len(await store.jobs(JobFilter())) == 2

    async def test_closing_what_was_never_used(self, store: Store) -> None:
        """Is harmless."""
        await store.close()

    async def test_a_twin(self, store: Store) -> None:
        """Another handle on the same data, that goes on when the first is closed."""
        clone = store.clone()
        try:
            ids = await put(store, due(), due())
            worker = await join(clone)
            [claim] = await take(clone, worker, 1)
            await store.close()
            assert (await clone.beat(worker, expiry=60, now=NOW)).alive
            assert await clone.held(worker) == [(claim.id, claim.run)]
        finally:
            await clone.close()
        assert sorted(ids_of(await store.jobs(JobFilter()))) == ids
