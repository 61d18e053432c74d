"""Records for people: jobs, their attempts, counts, and tasks without a worker."""

import json
from typing import Any

import pytest

from mutirao.errors import UnknownJob
from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.limits.limits import pause_of
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    SLACK,
    at,
    due,
    ended,
    ids_of,
    join,
    put,
    put_finished,
    take,
    take_one,
)


async def one_in_each_state(store: Store, **options: Any) -> dict[JobState, int]:
    """Make one job in every state there is; return their ids."""
    worker = await join(store)
    ids: dict[JobState, int] = {}
    for kind in (OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.CANCELLED):
        [ids[JobState(kind.value)]] = await put_finished(store, worker, due(**options), kind=kind)
    [ids[JobState.RUNNING]] = await put(store, due(**options))
    assert len(await take(store, worker, queues=[options.get("queue", "default")])) == 1
    await store.limits.put(pause_of(None, "paused"), now=NOW)
    [ids[JobState.BLOCKED]] = await put(store, due("paused", **options))
    assert await take(store, worker, queues=[options.get("queue", "default")]) == []
    [ids[JobState.READY]] = await put(store, due(**options))
    [ids[JobState.SCHEDULED]] = await put(store, due(**options, run_at=FAR_AHEAD))
    return ids


class RecordsContract:
    """`Store.job` and `Store.jobs`."""

    async def test_an_unknown_job(self, store: Store) -> None:
        """Raises, and names the id."""
        with pytest.raises(UnknownJob, match="4711"):
            await store.job(4_711)
        assert await store.jobs(JobFilter(ids=(4_711,))) == []

    async def test_a_fresh_job(self, store: Store) -> None:
        """It has its arguments and options, and nothing that has not happened yet."""
        [id] = await put(
            store,
            due("t", args='{"a": [1]}', queue="q", priority=3, max_attempts=5, timeout=1.5,
                key="k", tags=("x", "y"), metadata={"m": {"n": 1}}, traceparent="00-ab-cd-01",
                redrive_of=8, on_dead_of=9, tenant="acme", group="north"),
        )  # fmt: skip
        record = await store.job(id)
        assert (record.id, record.task, record.args) == (id, "t", {"a": [1]})
        assert (record.queue, record.priority, record.run_at) == ("q", 3, NOW)
        assert (record.max_attempts, record.timeout, record.key) == (5, 1.5, "k")
        assert (record.tags, dict(record.metadata)) == (("x", "y"), {"m": {"n": 1}})
        assert (record.traceparent, record.redrive_of, record.on_dead_of) == ("00-ab-cd-01", 8, 9)
        assert (record.tenant, record.group) == ("acme", "north")
        assert (record.state, record.attempt, record.attempts) == (JobState.READY, 0, ())
        assert (record.started_at, record.finished_at, record.worker) == (None, None, None)
        assert (record.error_type, record.error) == (None, None)

    async def test_what_was_not_asked_is_empty(self, store: Store) -> None:
        """No tags is an empty tuple, no metadata an empty mapping, the rest None."""
        record = await store.job((await put(store, due()))[0])
        assert (record.args, record.tags, dict(record.metadata)) == ({}, (), {})
        assert (record.max_attempts, record.timeout, record.key) == (None, None, None)
        assert (record.traceparent, record.redrive_of, record.on_dead_of) == (None, None, None)

    async def test_every_state(self, store: Store) -> None:
        """Read from the tables and the clock."""
        ids = await one_in_each_state(store)
        assert set(ids) == set(JobState)
        assert {(await store.job(id)).state: id for id in ids.values()} == ids
        assert {record.state: record.id for record in await store.jobs(JobFilter())} == ids

    async def test_only_finished_jobs_have_an_end(self, store: Store) -> None:
        """A job that waits for its next attempt has an error, but no end."""
        [id] = await put(store, due())
        worker = await join(store)
        failed = ended(
            await take_one(store, worker), OutcomeKind.RETRIED, at=FAR_AHEAD, error_type="E",
            error="why", started_ago=2.0,
        )  # fmt: skip
        await store.settle(worker, [failed], now=NOW)
        record = await store.job(id)
        assert (record.state, record.attempt) == (JobState.SCHEDULED, 1)
        assert (record.error_type, record.error) == ("E", "why")
        assert (record.finished_at, record.run_at) == (None, FAR_AHEAD)

    async def test_newest_first(self, store: Store) -> None:
        """By the order they were enqueued in, not by when they are due."""
        ids = [*await put(store, due(), due(run_at=at(-60))), *await put(store, due(priority=-9))]
        ids += await put(store, due(run_at=FAR_AHEAD))
        assert ids_of(await store.jobs(JobFilter())) == ids[::-1]

    async def test_a_listing_is_a_record_without_attempts(self, store: Store) -> None:
        """Otherwise it has the same fields as `job()`."""
        ids = await one_in_each_state(store, tags=("t",), metadata={"a": 1})
        listed = {record.id: record for record in await store.jobs(JobFilter())}
        for id in ids.values():
            assert listed[id].attempts == ()
            single = await store.job(id)
            for name in ("state", "attempt", "run_at", "started_at", "finished_at", "worker",
                         "tags", "metadata", "enqueued_at"):  # fmt: skip
                assert getattr(listed[id], name) == getattr(single, name), name

    async def test_the_limit_of_a_listing(self, store: Store) -> None:
        """A hundred unless given otherwise, the newest; None is all; zero is none."""
        ids = await put(store, *(due() for _ in range(130)))
        assert ids_of(await store.jobs(JobFilter())) == ids[:29:-1]
        assert ids_of(await store.jobs(JobFilter(limit=3))) == ids[:-4:-1]
        assert len(await store.jobs(JobFilter(limit=None))) == 130
        assert await store.jobs(JobFilter(limit=0)) == []

    async def test_by_id(self, store: Store) -> None:
        """Those that exist; an empty tuple means none, not all."""
        ids = await put(store, *(due() for _ in range(5)))
        which = JobFilter(ids=(ids[3], ids[1], 4_711, ids[1]))
        assert ids_of(await store.jobs(which)) == [ids[3], ids[1]]
        assert await store.jobs(JobFilter(ids=())) == []
        many = JobFilter(ids=tuple(range(1, 5_001)), limit=None)
        assert len(await store.jobs(many)) == 5

    @pytest.mark.parametrize("state", list(JobState))
    async def test_by_state(self, store: Store, state: JobState) -> None:
        """Each state for itself, live or finished."""
        ids = await one_in_each_state(store)
        assert ids_of(await store.jobs(JobFilter(state=state))) == [ids[state]]

    async def test_by_queue_task_and_tag(self, store: Store) -> None:
        """Exactly that name: no part of it, no pattern, no other case."""
        ids = await put(
            store,
            due("a", queue="mail", tags=("red", "blue")),
            due("A", queue="mail2", tags=("re",)),
            due("a%", queue="m%", tags=("r_d",)),
            due("ab", queue="Mail", tags=('"red"', "red,blue")),
        )
        expected = {
            "queue": {"mail": [0], "mail2": [1], "m%": [2], "Mail": [3], "mai": []},
            "task": {"a": [0], "A": [1], "a%": [2], "ab": [3], "": []},
            "tag": {"red": [0], "blue": [0], "re": [1], "r_d": [2], '"red"': [3], "%": []},
        }
        for field, names in expected.items():
            for name, numbers in names.items():
                found = await store.jobs(JobFilter(**{field: name}))  # type: ignore[arg-type]
                assert ids_of(found) == [ids[n] for n in numbers], (field, name)

    async def test_by_error_type(self, store: Store) -> None:
        """Of dead jobs, and of those that wait for another attempt."""
        worker = await join(store)
        [dead] = await put_finished(
            store, worker, due(), kind=OutcomeKind.DEAD, error_type="ValueError"
        )
        await put_finished(store, worker, due(), kind=OutcomeKind.DEAD, error_type="KeyError")
        await put_finished(store, worker, due())
        [waiting] = await put(store, due())
        failed = ended(
            await take_one(store, worker), OutcomeKind.RETRIED, after=9, error_type="ValueError"
        )
        await store.settle(worker, [failed], now=NOW)
        await put(store, due())
        assert ids_of(await store.jobs(JobFilter(error_type="ValueError"))) == [waiting, dead]
        assert await store.jobs(JobFilter(error_type="Value")) == []

    async def test_by_error_type_without_its_module(self, store: Store) -> None:
        """The name alone finds the class in whatever module; the whole name finds that one."""
        worker = await join(store)
        kinds = ("shop.Oops", "bank.inner.Oops", "Oops", "shop.NoOops", "shop.oops", "Oops.Inner")
        ids = {
            kind: await put_finished(store, worker, due(), kind=OutcomeKind.DEAD, error_type=kind)
            for kind in kinds
        }

        async def found(name: str) -> list[str]:
            there = ids_of(await store.jobs(JobFilter(error_type=name)))
            return [kind for kind in kinds if ids[kind][0] in there]

        assert await found("Oops") == ["shop.Oops", "bank.inner.Oops", "Oops"]
        assert await found("shop.Oops") == ["shop.Oops"]
        assert await found("inner.Oops") == ["bank.inner.Oops"]
        assert await found("%ps") == await found("Oop_") == await found("ops") == []

    async def test_by_age(self, store: Store) -> None:
        """Enqueued before a moment, or at it and after: no job is in both, and none in neither."""
        [id] = await put(store, due())
        moment = (await store.job(id)).enqueued_at
        assert await store.jobs(JobFilter(before=moment)) == []
        assert ids_of(await store.jobs(JobFilter(after=moment))) == [id]
        assert ids_of(await store.jobs(JobFilter(before=FAR_AHEAD, after=NOW))) == [id]
        assert await store.jobs(JobFilter(after=FAR_AHEAD)) == []

    async def test_everything_narrows(self, store: Store) -> None:
        """All given conditions are required, and the limit counts the remaining jobs."""
        wanted: dict[str, Any] = {"queue": "q", "tags": ("t",), "task": "a"}
        ids = await put(
            store, due(**wanted), due(**wanted), due(**wanted, run_at=FAR_AHEAD),
            due(**{**wanted, "queue": "x"}), due(**{**wanted, "tags": ()}),
            due(**{**wanted, "task": "b"}),
        )  # fmt: skip
        which = JobFilter(queue="q", tag="t", task="a", state=JobState.READY, ids=tuple(ids))
        assert ids_of(await store.jobs(which)) == [ids[1], ids[0]]
        first = JobFilter(queue="q", tag="t", task="a", state=JobState.READY, limit=1)
        assert ids_of(await store.jobs(first)) == [ids[1]]


class CountsContract:
    """`Store.counts` and `Store.unserved_tasks`."""

    async def test_nothing_to_count(self, store: Store) -> None:
        """No queue, no row."""
        assert await store.counts() == []
        assert await store.unserved_tasks([]) == {}

    async def test_every_queue_by_state(self, store: Store) -> None:
        """Live and finished ones, in every queue; what there is none of has no row."""
        await one_in_each_state(store, queue="a")
        await one_in_each_state(store, queue="fila é")
        await put(store, due(queue="b"), due(queue="b"), due(queue="b", run_at=FAR_AHEAD))
        counts = {(count.queue, count.state): count.jobs for count in await store.counts()}
        assert counts == {
            **{(queue, state): 1 for queue in ("a", "fila é") for state in JobState},
            ("b", JobState.READY): 2,
            ("b", JobState.SCHEDULED): 1,
        }

    async def test_the_oldest(self, store: Store) -> None:
        """Ready: since it was due; finished: since it ended. Never negative."""
        worker = await join(store, now=None)
        [lately] = await put(store, NewJob(task="t"))
        lanes = [head.lane for head in await store.lanes(None)]
        claims = await store.claim(worker, lanes, 1)
        await store.settle(worker, [ended(claim, finished_ago=500) for claim in claims])
        enqueued_at = (await store.job(lately)).enqueued_at
        await put(store, NewJob(task="t"), NewJob(task="t", run_at=FAR_AHEAD))
        ages = {count.state: count.oldest_age for count in await store.counts()}
        assert ages.keys() == {JobState.SUCCEEDED, JobState.READY, JobState.SCHEDULED}
        assert 500 <= (ages[JobState.SUCCEEDED] or 0) < 500 + SLACK
        assert -1 < (ages[JobState.READY] or 0) < SLACK, enqueued_at

    async def test_waiting_jobs_of_unknown_tasks(self, store: Store) -> None:
        """Due or not; running and finished ones are not counted."""
        worker = await join(store)
        await put_finished(store, worker, due("new"))
        await put(store, due("new"))
        await take_one(store, worker)
        await put(store, due("known"), due("new"), due("new", run_at=FAR_AHEAD), due("newer"))
        assert await store.unserved_tasks(["known"]) == {"new": 2, "newer": 1}
        assert await store.unserved_tasks({"known", "new", "newer", "never"}) == {}
        assert await store.unserved_tasks([]) == {"known": 1, "new": 2, "newer": 1}

    async def test_every_attempt_is_recorded(self, store: Store) -> None:
        """In the order they happened, each with its worker, times and error."""
        [id] = await put(store, due(args=json.dumps({"n": 1})))
        workers = [await join(store, expiry=10_000) for _ in range(2)]
        for n, worker in enumerate(workers):
            claim = await take_one(store, worker, now=at(n * 10))
            failed = ended(
                claim, OutcomeKind.RETRIED, error_type=f"E{n}", error=f"e{n}", started_ago=1.0
            )
            await store.settle(worker, [failed], now=at(n * 10 + 1))
        attempts = (await store.job(id)).attempts
        assert [(a.attempt, a.worker, a.error_type, a.error) for a in attempts] == [
            (1, workers[0], "E0", "e0"),
            (2, workers[1], "E1", "e1"),
        ]
        assert [(a.started_at, a.finished_at) for a in attempts] == [
            (at(0), at(1)),
            (at(10), at(11)),
        ]
