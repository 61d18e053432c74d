"""Limits on how many jobs start in a time: tokens, and the jobs called to wait for them."""

import pytest

from mutirao.model.jobs.job import Claim
from mutirao.model.jobs.records import JobFilter
from mutirao.model.limits.claims_and_wakes import Claimed
from mutirao.model.limits.limits import pace_of
from mutirao.ports import Store
from mutirao_conformance.kit import NOW, at, due, finish, ids_of, join, lane, put, take
from mutirao_conformance.limits import full, limited


class RatesContract:
    """Limits on how many start in a time."""

    async def test_a_rate(self, store: Store) -> None:
        """As many as have come start, and the first of the others is due when there is a token."""
        rule = await limited(store, 10, per=10, burst=2)
        ids = await put(store, *(due() for _ in range(6)))
        worker = await join(store)
        assert ids_of(await take(store, worker)) == ids[:2]
        assert await take(store, worker, now=at(0.9)) == []
        heads = [head for head in await store.lanes(None, now=at(0.5)) if head.due_in < 100]
        assert [round(head.due_in, 2) for head in heads] == [0.5]
        assert ids_of(await take(store, worker, now=at(1.01))) == [ids[2]]
        assert await take(store, worker, now=at(1.5)) == []
        assert sorted(ids_of(await take(store, worker, now=at(9)))) == ids[3:5]
        assert ids_of(await take(store, worker, now=at(10.1))) == [ids[5]]
        record = await full(store, rule.name)
        assert (record.running, record.parked) == (0, 0)

    @pytest.mark.parametrize("rate", [5, 50])
    async def test_what_a_second_may_hold(self, store: Store, rate: int) -> None:
        """No more than it says, wherever the second begins, and hardly less."""
        await limited(store, 1, **pace_of(rate)._asdict())
        await put(store, *(due() for _ in range(3 * rate)))
        worker = await join(store)
        moments = [n / 50 for n in range(105)]
        started = [t for t in moments for _ in await take(store, worker, now=at(t))]
        assert max(len([t for t in started if s <= t < s + 1]) for s in started) <= rate
        assert len(started) >= 0.9 * 2 * rate

    @pytest.mark.parametrize("burst", [1, 4])
    async def test_what_a_period_may_hold(self, store: Store, burst: int) -> None:
        """Without a burst the number that is given; otherwise so many more, but for one."""
        await limited(store, 10, per=2, burst=burst)
        await put(store, *(due() for _ in range(30)))
        worker = await join(store)
        moments = [n / 50 for n in range(205)]
        started = [t for t in moments for _ in await take(store, worker, now=at(t))]
        most = max(len([t for t in started if s <= t < s + 2]) for s in started)
        assert most == 10 + burst - 1

    async def test_places_do_not_come_back(self, store: Store) -> None:
        """It is the start that counts."""
        await limited(store, 1, per=10)
        await put(store, due(), due())
        worker = await join(store)
        await finish(store, worker, await take(store, worker))
        assert await take(store, worker, now=at(5)) == []
        assert len(await take(store, worker, now=at(10.1))) == 1

    async def test_the_first_is_cancelled(self, store: Store) -> None:
        """A job that was sent ahead may be cancelled: another one is sent."""
        await limited(store, 1, per=10)
        ids = await put(store, *(due() for _ in range(4)))
        worker = await join(store)
        assert ids_of(await take(store, worker)) == ids[:1]
        await store.cancel(JobFilter(ids=(ids[1],)), now=at(1))
        heads = [head for head in await store.lanes(None, now=at(1)) if head.due_in < 100]
        assert [round(head.due_in, 1) for head in heads] == [9.0]
        assert ids_of(await take(store, worker, now=at(10.1))) == [ids[2]]

    async def test_the_only_one_is_cancelled(self, store: Store) -> None:
        """Later jobs do not wait for it."""
        await limited(store, 1, per=10)
        first, second = await put(store, due(), due())
        worker = await join(store)
        assert ids_of(await take(store, worker)) == [first]
        await store.cancel(JobFilter(ids=(second,)), now=at(1))
        [third] = await put(store, due())
        assert await take(store, worker, now=at(2)) == []
        heads = [head for head in await store.lanes(None, now=at(2)) if head.due_in < 100]
        assert [round(head.due_in, 1) for head in heads] == [8.0]
        assert ids_of(await take(store, worker, now=at(10.1))) == [third]

    async def test_behind_a_backlog(self, store: Store) -> None:
        """In a lane that is full of others, tokens are used when they come, not at its end."""
        await limited(store, 1, per=10)
        ids = await put(store, due(), due(), due(), *(due("other") for _ in range(50)))
        worker = await join(store)
        assert ids_of(await take(store, worker, 2)) == [ids[0], ids[3]]
        later = [
            *await take(store, worker, 2, now=at(10.1)),
            *await take(store, worker, 2, now=at(10.1)),
        ]
        assert sorted(ids_of(later)) == [ids[1], *ids[4:7]]

    async def test_both(self, store: Store) -> None:
        """A rate and a number at once: a start takes of both."""
        await limited(store, 2)
        await limited(store, 10, per=10, burst=5)
        ids = await put(store, *(due() for _ in range(8)))
        worker = await join(store)
        claims = await take(store, worker)
        assert ids_of(claims) == ids[:2]
        await finish(store, worker, claims)
        claims = await take(store, worker)
        assert ids_of(claims) == ids[2:4]
        await finish(store, worker, claims)
        claims = await take(store, worker)
        assert ids_of(claims) == ids[4:5]

    async def test_from_the_beginning(self, store: Store) -> None:
        """A claim whose bound is past a called job returns its lane as woken, or takes the job."""
        await limited(store, 1, per=10)
        ids = await put(store, due(), due(run_at=at(-9)), due("other", run_at=at(-1)))
        worker = await join(store)
        first = await take(store, worker, 9)
        assert ids_of(first) == ids[1:]
        late = lane(run_at=at(5), id=0)
        claims: list[Claim] = await store.claim(worker, [late], 9, now=at(20))
        woken = claims.woken if isinstance(claims, Claimed) else ()
        assert ids_of(claims) == ids[:1] or any(w.run_at == NOW for w in woken)
