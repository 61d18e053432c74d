"""Repeated jobs: one that equals the last successful job of its key is dropped, by its rule."""

from dataclasses import replace

import pytest

from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import Placed, Unique
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
    take,
    take_one,
)
from mutirao_conformance.supersede import activity
from mutirao_conformance.uniqueness import live_jobs, placed, state_of

RULE = Unique(supersede=Supersede.activities(drop_repeated=True))


def droppable(kind: str, what: str = "", **options: object) -> NewJob:
    """Return a job of a key whose rule drops repetitions."""
    job = activity(kind, what, **options)  # type: ignore[arg-type]
    assert job.unique is not None
    return replace(job, unique=replace(job.unique, supersede=RULE.supersede))


async def sent(store: Store, worker: int, job: NewJob) -> int:
    """Enqueue a job, and let it succeed."""
    id, _ = await placed(store, job)
    await finish(store, worker, [await take_one(store, worker)])
    return id


class RepeatedContract:
    """`Supersede.drop_repeated`: what others know already is not sent again."""

    async def test_what_has_succeeded(self, store: Store, face: Face) -> None:
        """Nothing is written; the job that did the same is returned."""
        worker = await join(store)
        first = await sent(store, worker, droppable("Update", "a"))
        assert await placed(store, droppable("Update", "a"), face) == (first, "repeated")
        assert len(await store.jobs(JobFilter())) == 1
        second = await sent(store, worker, droppable("Update", "b"))
        assert await placed(store, droppable("Update", "b"), face) == (second, "repeated")
        assert (await placed(store, droppable("Update", "a"), face))[1] == "inserted"

    async def test_only_where_the_rule_says_so(self, store: Store) -> None:
        """Others are sent again."""
        worker = await join(store)
        await sent(store, worker, activity("Update", "a"))
        assert (await placed(store, activity("Update", "a")))[1] == "inserted"

    @pytest.mark.parametrize(
        ("first", "second", "same"),
        [
            ('{"a": 1, "b": [2]}', '{ "b":[2],"a":1 }', True),
            ('{"a": 1}', '{"a": true}', False),
            ('{"a": 1}', '{"a": 1.0}', False),
            ('{"a": "é"}', '{"a": "\\u00e9"}', True),
            ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ],
    )
    async def test_equal_arguments(self, store: Store, first: str, second: str, same: bool) -> None:
        """Whatever the order of names and the spaces."""
        worker = await join(store)
        await sent(store, worker, replace(droppable("Update"), args=first))
        _, how = await placed(store, replace(droppable("Update"), args=second))
        assert (how == "repeated") is same

    @pytest.mark.parametrize("kind", [OutcomeKind.DEAD, OutcomeKind.CANCELLED])
    async def test_another_was_tried_since(self, store: Store, kind: OutcomeKind) -> None:
        """Nobody knows what it has done."""
        worker = await join(store)
        await sent(store, worker, droppable("Update", "a"))
        await placed(store, droppable("Update", "b"))
        await finish(store, worker, [await take_one(store, worker)], kind)
        assert (await placed(store, droppable("Update", "a")))[1] == "inserted"

    async def test_another_runs_or_waits_for_its_retry(self, store: Store) -> None:
        """Then the repeated one comes after it."""
        worker = await join(store)
        await sent(store, worker, droppable("Update", "a"))
        await placed(store, droppable("Update", "b"))
        claim = await take_one(store, worker)
        again, how = await placed(store, droppable("Update", "a"))
        assert how == "follows"
        await store.settle(worker, [ended(claim, OutcomeKind.RETRIED, after=0.0)], now=NOW)
        await finish(store, worker, [await take_one(store, worker)])
        assert (await take_one(store, worker)).id == again

    async def test_the_same_runs(self, store: Store) -> None:
        """It has not succeeded yet."""
        worker = await join(store)
        await placed(store, droppable("Update", "a"))
        claim = await take_one(store, worker)
        assert (await placed(store, droppable("Update", "a")))[1] == "follows"
        await finish(store, worker, [claim])

    async def test_back_to_what_is_known(self, store: Store, face: Face) -> None:
        """A change that waits, and is changed back: neither needs to be sent."""
        worker = await join(store)
        first = await sent(store, worker, droppable("Update", "a"))
        other, _ = await placed(store, droppable("Update", "b"), face)
        back, how = await placed(store, droppable("Update", "a"), face)
        assert how == "superseded"
        assert await live_jobs(store) == []
        assert await state_of(store, other) == (JobState.CANCELLED, f"superseded by job {back}")
        assert await placed(store, droppable("Update", "a")) == (first, "repeated")
        assert (await placed(store, droppable("Update", "b")))[1] == "inserted"

    async def test_one_that_nobody_tried_was_cancelled(self, store: Store) -> None:
        """By people, or with another one: what was known before is known still."""
        worker = await join(store)
        first = await sent(store, worker, droppable("Update", "a"))
        other, _ = await placed(store, droppable("Update", "b"))
        await store.cancel(JobFilter(ids=(other,)), now=NOW)
        assert await placed(store, droppable("Update", "a")) == (first, "repeated")
        await placed(store, droppable("Add", "b"))
        assert (await placed(store, droppable("Remove", "b")))[1] == "superseded"
        assert await placed(store, droppable("Update", "a")) == (first, "repeated")

    async def test_what_was_merged(self, store: Store) -> None:
        """The merged job is compared with the last successful one."""
        worker = await join(store)
        first = await sent(store, worker, droppable("Create", "a"))
        await placed(store, droppable("Create", "b"))
        assert (await placed(store, droppable("Update", "a")))[1] == "superseded"
        assert await live_jobs(store) == []
        assert await placed(store, droppable("Create", "a")) == (first, "repeated")

    async def test_jobs_of_other_tasks_and_rules(self, store: Store) -> None:
        """Of a scope: only the same task repeats itself, and only by what it did last."""
        worker = await join(store)
        await sent(store, worker, droppable("Update", "a", scope="s"))
        other = await sent(store, worker, droppable("Update", "a", scope="s", task="other"))
        assert (await placed(store, droppable("Update", "a", scope="s")))[1] == "inserted"
        await finish(store, worker, [await take_one(store, worker)])
        without, _ = await placed(store, activity("Update", "b", scope="s", task="other"))
        await store.cancel(JobFilter(ids=(without,)), now=NOW)
        assert (await placed(store, droppable("Update", "a", scope="s")))[1] == "inserted"
        assert other

    @pytest.mark.parametrize("others", [0, 300])
    async def test_in_one_call(self, store: Store, face: Face, others: int) -> None:
        """Among others; the ids are those of the jobs that are kept."""
        worker = await join(store)
        first = await sent(store, worker, droppable("Update", "a"))
        jobs = [droppable("Update", "a"), *(due() for _ in range(others)), droppable("Update", "a")]
        ids = await enqueue(store, face, iter(jobs))
        assert [int(ids[0]), int(ids[-1])] == [first, first]
        assert all(isinstance(id, Placed) and not id.written for id in (ids[0], ids[-1]))
        assert len(await take(store, worker, 400)) == others

    async def test_as_long_as_it_is_known(self, store: Store) -> None:
        """Once it is pruned, it is sent again."""
        worker = await join(store)
        await sent(store, worker, droppable("Update", "a"))
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 10, now=FAR_AHEAD) == 1
        assert (await placed(store, droppable("Update", "a")))[1] == "inserted"

    async def test_pruned_behind_one_that_waits(self, store: Store) -> None:
        """So it is if another one of the key is live."""
        worker = await join(store)
        await sent(store, worker, droppable("Update", "a"))
        await placed(store, droppable("Update", "b"))
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 10, now=FAR_AHEAD) == 1
        assert (await placed(store, droppable("Update", "a")))[1] == "replaced"
