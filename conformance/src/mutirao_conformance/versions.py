"""Versions of a key: an older update never replaces a newer one, even if it arrives later."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import Placed
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    Face,
    due,
    ended,
    enqueue,
    finish,
    join,
    newcomer,
    take,
    take_one,
)
from mutirao_conformance.uniqueness import (
    MOVING,
    aside,
    keyed,
    live_jobs,
    placed,
    state_of,
)

# In order, each greater than the one before it.
NUMBERS = [
    -(2**63), -1.5, -1, 0, 0.1, 1, 1.5, 2**53, 2**53 + 1, 1764000000123456789, 2**63 - 1,
]  # fmt: skip


def version(number: float, mode: str = "rerun", **options: Any) -> NewJob:
    """Return a job of a key that is the update with this number."""
    job = keyed(mode, **options)
    assert job.unique is not None
    return replace(job, unique=replace(job.unique, version=number))


class VersionsContract:
    """`Unique.version`: which of two updates is the newer one is the caller's to say."""

    @pytest.mark.parametrize("mode", MOVING)
    async def test_an_older_one_that_comes_late(self, store: Store, face: Face, mode: str) -> None:
        """Where the newer one waits nothing is written, and the newer one is returned."""
        newer, how = await placed(store, version(8, mode, n=8), face)
        assert how == "inserted"
        assert await placed(store, version(7, mode, n=7), face) == (newer, "outdated")
        assert await live_jobs(store) == [newer]
        assert len(await store.jobs(JobFilter())) == 1

    @pytest.mark.parametrize("mode", MOVING)
    async def test_a_newer_one(self, store: Store, face: Face, mode: str) -> None:
        """Takes the place of the one that waits, as without a version; so does an equal one."""
        first, _ = await placed(store, version(7, mode), face)
        second, how = await placed(store, version(8, mode), face)
        third, again = await placed(store, version(8, mode), face)
        assert (how, again) == ("replaced", "replaced")
        assert await state_of(store, first) == (JobState.CANCELLED, f"replaced by job {second}")
        assert await live_jobs(store) == [third]

    @pytest.mark.parametrize("mode", MOVING)
    async def test_while_the_newer_one_runs(self, store: Store, mode: str) -> None:
        """Nothing is to run after it."""
        newer, _ = await placed(store, version(8, mode))
        worker = await join(store)
        claim = await take_one(store, worker)
        assert await placed(store, version(7, mode)) == (newer, "outdated")
        await finish(store, worker, [claim])
        assert await live_jobs(store) == []

    async def test_while_the_newer_one_waits_behind_another(self, store: Store) -> None:
        """The one that waits is the newest, and is what the older update meets."""
        await placed(store, version(6))
        worker = await join(store)
        claim = await take_one(store, worker)
        newest, how = await placed(store, version(8, n=8))
        assert how == "rerun"
        assert await placed(store, version(7)) == (newest, "outdated")
        await finish(store, worker, [claim])
        assert (await take_one(store, worker)).id == newest

    @pytest.mark.parametrize(
        "kind", [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.CANCELLED]
    )
    async def test_once_the_newer_one_has_ended(self, store: Store, kind: OutcomeKind) -> None:
        """However it ended: it is the newer one. The same version may be tried again."""
        newer, _ = await placed(store, version(8))
        worker = await join(store)
        await finish(store, worker, [await take_one(store, worker)], kind)
        assert await placed(store, version(7)) == (newer, "outdated")
        assert (await placed(store, version(8)))[1] == "inserted"

    async def test_once_somebody_has_cancelled_the_newer_one(self, store: Store) -> None:
        """While it waited for one that runs: still nothing older comes after that."""
        await placed(store, version(6))
        worker = await join(store)
        claim = await take_one(store, worker)
        newest, _ = await placed(store, version(8))
        await store.cancel(JobFilter(ids=(newest,)), now=NOW)
        assert await placed(store, version(7)) == (newest, "outdated")
        assert (await placed(store, version(9)))[1] == "rerun"
        await finish(store, worker, [claim])

    async def test_until_it_is_pruned(self, store: Store) -> None:
        """The version is known as long as its job."""
        await placed(store, version(8))
        worker = await join(store)
        await finish(store, worker, [await take_one(store, worker)])
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 10, now=FAR_AHEAD) == 1
        assert (await placed(store, version(7)))[1] == "inserted"

    async def test_every_number(self, store: Store) -> None:
        """Whole ones are exact, others as precise as Python's; they compare with each other."""
        for number in NUMBERS:
            assert (await placed(store, version(number)))[1] in ("inserted", "replaced")
        for number in NUMBERS[:-1]:
            assert (await placed(store, version(number)))[1] == "outdated"

    async def test_jobs_without_a_version(self, store: Store) -> None:
        """Cannot be compared: each takes the other's place."""
        await placed(store, version(8))
        assert (await placed(store, keyed("rerun")))[1] == "replaced"
        assert (await placed(store, version(7)))[1] == "replaced"
        assert (await placed(store, keyed("keep")))[1] == "found"

    async def test_other_keys(self, store: Store) -> None:
        """A version is one of its key."""
        await placed(store, version(8))
        for other in (version(7, key="l"), version(7, scope="s"), version(7, queue="other")):
            assert (await placed(store, other))[1] == "inserted"

    @pytest.mark.parametrize("others", [0, 300])
    async def test_many_versions_at_once(self, store: Store, face: Face, others: int) -> None:
        """In one call, in any order: the newest of each key is left."""
        numbers = [3, 1, 4, 1, 5, 9, 2, 6]
        plain = [due() for _ in range(others)]
        jobs = [version(n, n=n, key=key) for n in numbers for key in ("a", "b")]
        ids = (await enqueue(store, face, iter([*jobs, *plain])))[: len(jobs)]
        hows = [id.how for id in ids[::2] if isinstance(id, Placed)]
        assert hows == [
            "inserted", "outdated", "replaced", "outdated", "replaced", "replaced",
            "outdated", "outdated",
        ]  # fmt: skip
        assert int(ids[-1]) == int(ids[11]) in await live_jobs(store)
        assert len(await live_jobs(store)) == 2 + others

    async def test_many_callers_of_versions(
        self, store: Store, other_store: Store, face: Face
    ) -> None:
        """On several handles, and threads: the newest is left, in whichever order they came."""
        handles = [store, other_store] * 8
        jobs = [version(n * 7 % 16, n=n * 7 % 16) for n in range(16)]
        ids = await asyncio.gather(
            *(aside(handle, face, job) for handle, job in zip(handles, jobs, strict=True))
        )
        [left] = await live_jobs(store)
        assert (await store.job(left)).args == {"n": 15}
        written = len(await store.jobs(JobFilter(limit=None)))
        assert written == sum(id.how != "outdated" for id in ids)

    async def test_before_a_time_of_its_own(self, store: Store) -> None:
        """An older one does not make the newer one due earlier, either."""
        await placed(store, version(8, run_at=FAR_AHEAD))
        await placed(store, version(7))
        assert await take(store, await join(store)) == []


class NewestNextContract:
    """A job that waits for one with older arguments runs before that one's next attempt."""

    @pytest.mark.parametrize(
        "kind", [OutcomeKind.RETRIED, OutcomeKind.SNOOZED, OutcomeKind.RELEASED]
    )
    @pytest.mark.parametrize("mode", MOVING)
    async def test_the_newest_is_next(self, store: Store, mode: str, kind: OutcomeKind) -> None:
        """The one that did not get done is not tried again, and history says why."""
        worker = await join(store)
        first, _ = await placed(store, keyed(mode, n=1))
        failed = ended(await take_one(store, worker), kind, after=1e6, error="no")
        newest, _ = await placed(store, keyed(mode, n=2))
        assert await store.settle(worker, [failed], now=NOW) == {first}
        assert (await take_one(store, worker)).id == newest
        assert await live_jobs(store) == [newest]
        job = await store.job(first)
        ends = [(str(a.outcome), a.error_type, a.error) for a in job.attempts]
        superseded = ("cancelled", "Superseded", f"superseded by job {newest}")
        assert ends == [(str(kind), None, "no"), superseded]
        assert job.state == JobState.CANCELLED

    async def test_in_a_batch(self, store: Store) -> None:
        """With others that end, that are retried, and of other keys."""
        worker = await join(store)
        kinds = {"a": OutcomeKind.RETRIED, "b": OutcomeKind.SUCCEEDED, "c": OutcomeKind.RETRIED}
        for key in kinds:
            await placed(store, keyed("rerun", key=key))
        await enqueue(store, "aenqueue", [due(), due()])
        claims = await take(store, worker)
        newer = [(await placed(store, keyed("rerun", key=key)))[0] for key in ("a", "b")]
        batch = [
            ended(claim, kinds.get(claim.key or "", OutcomeKind.RETRIED), after=0.0)
            for claim in claims
        ]
        assert await store.settle(worker, batch, now=NOW) == {claim.id for claim in claims}
        again = {claim.id for claim in await take(store, worker)}
        kept = {claim.id for claim in claims if claim.key not in ("a", "b")}
        assert again == {*newer, *kept}

    async def test_nobody_waits(self, store: Store) -> None:
        """Then its own retries come, and so they do if the one that waited was cancelled."""
        worker = await join(store)
        first, _ = await placed(store, keyed("rerun"))
        failed = ended(await take_one(store, worker), OutcomeKind.RETRIED, after=0.0)
        second, _ = await placed(store, keyed("rerun"))
        await store.cancel(JobFilter(ids=(second,)), now=NOW)
        await store.settle(worker, [failed], now=NOW)
        again = await take_one(store, worker)
        assert (again.id, again.attempt) == (first, 2)

    async def test_a_stale_run(self, store: Store) -> None:
        """Decides about nothing."""
        lost = await store.register(newcomer(), expiry=1.0, now=NOW)
        first, _ = await placed(store, keyed("rerun"))
        late = ended(await take_one(store, lost), OutcomeKind.RETRIED, after=0.0)
        second, _ = await placed(store, keyed("rerun"))
        await store.rescue(now=FAR_AHEAD)
        worker = await join(store, now=FAR_AHEAD)
        claim = await take_one(store, worker, now=FAR_AHEAD)
        assert await store.settle(lost, [late], now=FAR_AHEAD) == set()
        assert await live_jobs(store) == [first, second]
        await finish(store, worker, [claim])
