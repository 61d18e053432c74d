"""Results, the ends of jobs that a caller waits for, and progress."""

import json

from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.jobs.records import GraphRecord, JobFilter, Progress
from mutirao.ports import Store
from mutirao_conformance.graphs import DEAD, a, returned
from mutirao_conformance.kit import NOW, at, ended, join, newcomer, put, take, take_one


class ResultsContract:
    """`Outcome.result`, `Store.endings` and `Store.report`."""

    async def test_endings(self, store: Store) -> None:
        """The states of jobs, with their results and errors; unknown ones are left out."""
        ids = await put(store, *(a(n) for n in range(4)))
        worker = await join(store)
        one, two, three, _ = await take(store, worker)
        await store.await_ends(ids)
        await store.settle(worker, [returned(one, {"n": [1, "é"]})], now=NOW)
        died = ended(two, DEAD, error_type="E", error="why", linked=True)
        await store.settle(worker, [died, ended(three, linked=True)], now=NOW)
        found = sorted(await store.endings([*ids, 999_999]))
        assert [(e.id, e.task, e.state, e.error_type, e.error) for e in found] == [
            (ids[0], "a", JobState.SUCCEEDED, None, None),
            (ids[1], "a", JobState.DEAD, "E", "why"),
            (ids[2], "a", JobState.SUCCEEDED, None, None),
            (ids[3], "a", None, None, None),
        ]
        assert json.loads(found[0].result or "") == {"n": [1, "é"]}
        assert [e.result for e in found[1:]] == [None] * 3
        assert (await store.job(ids[0])).result == {"n": [1, "é"]}
        assert (await store.job(ids[3])).result is None

    async def test_a_stale_result_is_not_kept(self, store: Store) -> None:
        """The run decides about it as about the outcome."""
        [id] = await put(store, a())
        gone = await store.register(newcomer(), expiry=5.0, now=NOW)
        stale = await take_one(store, gone)
        await store.rescue(now=at(6))
        assert await store.settle(gone, [returned(stale, "old")], now=at(6)) == set()
        assert (await store.endings([id]))[0].result is None

    async def test_results_expire(self, store: Store) -> None:
        """Before their jobs, if asked; others stay."""
        ids = await put(store, a(), a())
        worker = await join(store)
        one, two = await take(store, worker)
        await store.settle(worker, [returned(one, 1, 60.0), returned(two, 2)], now=NOW)
        for later, left in ((59, ["1", "2"]), (61, [None, "2"])):
            await store.prune(OutcomeKind.SUCCEEDED, 1e9, 100, now=at(later))
            assert [each.result for each in sorted(await store.endings(ids))] == left

    async def test_progress(self, store: Store) -> None:
        """The last word counts, but not that of an earlier run."""
        [id] = await put(store, a())
        await store.report([Progress(id, 2, 1.0, 4.0, "one"), Progress(999_999, 1, 1.0, None, "")])
        await store.report([Progress(id, 2, 3.0, 4.0, "three")], now=NOW)
        await store.report([Progress(id, 1, 2.0, None, "late")])
        job = await store.job(id)
        assert (job.progress, job.progress_of, job.progress_note) == (3.0, 4.0, "three")
        [listed] = await store.jobs(JobFilter())
        assert listed.progress == 3.0

    async def test_no_graph(self, store: Store) -> None:
        """Other jobs belong to none."""
        [id] = await put(store, a())
        job = await store.job(id)
        assert (job.graph, job.stage, job.progress) == (None, None, None)
        assert await store.graphs() == list[GraphRecord]()
