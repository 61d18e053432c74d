"""Enqueueing without a connection of the caller's."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from datetime import timedelta, timezone
from typing import ClassVar

import pytest

from mutirao.errors import UnsupportedConnection
from mutirao.model.jobs.job import MAX_PRIORITY, MIN_PRIORITY, Claim, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    SLACK,
    Face,
    due,
    enqueue,
    ids_of,
    join,
    put,
    put_finished,
    refused,
    take,
    take_one,
)

FULL = NewJob(
    task="shop.send_receipt",
    args='{"order_id": 7, "note": "olá, \\"zé\\"", "nested": {"list": [1, null, true, 0.5]}}',
    queue="mail",
    priority=-3,
    run_at=NOW,
    max_attempts=4,
    timeout=12.5,
    key="receipt-7",
    tags=("blue", "green,yellow", '"quoted"'),
    metadata={"tenant": "acme", "trace": {"deep": [1, 2]}},
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    tenant="acme",
    group="são paulo",
    redrive_of=41,
    on_dead_of=42,
)

AWKWARD = [
    "a b",
    "100% of :it ?",
    "'; DROP TABLE mutirao_job; --",
    '"double"',
    "back\\slash",
    "fila-é-日本-🎈",
    "{curly} $1 %(name)s",
    "ã" * 100,
    "🎈" * 100,
]


class Interrupted(Exception):
    """The error of a caller's own iterable."""


def interrupted(jobs: int) -> Iterator[NewJob]:
    """Yield some jobs, then fail."""
    for _ in range(jobs):
        yield due()
    raise Interrupted


async def enqueue_aside(store: Store, face: Face, jobs: list[NewJob]) -> list[int]:
    """Enqueue at the same time as others: plain calls in threads of their own."""
    if face == "enqueue":
        return await asyncio.to_thread(store.enqueue, jobs)
    return await store.aenqueue(jobs)


def asked(claim: Claim) -> dict[str, object]:
    """Return what was asked, as a worker sees it in a claim."""
    return {
        "task": claim.task,
        "args": json.loads(claim.args),
        "queue": claim.queue,
        "priority": claim.priority,
        "run_at": claim.run_at,
        "max_attempts": claim.max_attempts,
        "timeout": claim.timeout,
        "key": claim.key,
        "tags": tuple(json.loads(claim.tags or "[]")),
        "metadata": json.loads(claim.metadata or "{}"),
        "traceparent": claim.traceparent,
        "redrive_of": claim.redrive_of,
        "on_dead_of": claim.on_dead_of,
    }


class EnqueueingContract:
    """`Intake.enqueue` and `aenqueue`, in a short transaction of their own."""

    faces: ClassVar[Sequence[Face]] = ("enqueue", "aenqueue")
    """Which of them the backend has without a connection of the caller's."""

    async def test_ids_are_returned_in_order(self, store: Store, face: Face) -> None:
        """The nth id is that of the nth job."""
        ids = await enqueue(store, face, [due(args=f'{{"n": {n}}}') for n in range(250)])
        assert len(set(ids)) == 250
        records = await store.jobs(JobFilter(ids=tuple(ids), limit=None))
        assert {record.id: record.args["n"] for record in records} == {
            id: n for n, id in enumerate(ids)
        }

    async def test_nothing_to_enqueue(self, store: Store, face: Face) -> None:
        """An empty iterable writes nothing and returns nothing."""
        assert await enqueue(store, face, []) == []
        assert await enqueue(store, face, iter(())) == []
        assert await store.jobs(JobFilter()) == []

    async def test_any_iterable_will_do(self, store: Store, face: Face) -> None:
        """A generator is read once, to its end."""
        assert len(await enqueue(store, face, (due() for _ in range(7)))) == 7
        assert len(await store.jobs(JobFilter())) == 7

    @pytest.mark.parametrize("before", [0, 1, 3_000])
    async def test_all_or_none_when_the_iterable_fails(
        self, store: Store, face: Face, before: int
    ) -> None:
        """An error of the iterable reaches the caller, and no job was written."""
        with pytest.raises(Interrupted):
            await enqueue(store, face, interrupted(before))
        assert await store.jobs(JobFilter()) == []
        assert await store.lanes(None, now=NOW) == []

    @pytest.mark.parametrize("wrong", [due(args="[]"), due(args="no JSON"), due(queue=""), due("")])
    async def test_all_or_none_when_a_job_is_refused(
        self, store: Store, face: Face, wrong: NewJob
    ) -> None:
        """A job that must not be written takes its companions with it."""
        with refused():
            await enqueue(store, face, [due(), wrong, due()])
        assert await store.jobs(JobFilter()) == []

    async def test_everything_that_was_asked_is_kept(self, store: Store, face: Face) -> None:
        """Every field reaches the worker that claims the job as it was given."""
        [id] = await enqueue(store, face, [FULL])
        claim = await take_one(store, await join(store))
        assert (claim.id, claim.run, claim.attempt, claim.cancel) == (id, 1, 1, False)
        assert asked(claim) == {
            "task": FULL.task,
            "args": json.loads(FULL.args),
            "queue": "mail",
            "priority": -3,
            "run_at": NOW,
            "max_attempts": 4,
            "timeout": 12.5,
            "key": "receipt-7",
            "tags": FULL.tags,
            "metadata": FULL.metadata,
            "traceparent": FULL.traceparent,
            "redrive_of": 41,
            "on_dead_of": 42,
        }

    async def test_what_was_not_asked_is_absent(self, store: Store, face: Face) -> None:
        """The least a job can be: a task, due now, everything else at rest."""
        [id] = await enqueue(store, face, [NewJob(task="t", run_at=NOW)])
        claim = await take_one(store, await join(store))
        absent = dict.fromkeys(
            ["max_attempts", "timeout", "key", "traceparent", "redrive_of", "on_dead_of"]
        )
        usual = {"task": "t", "args": {}, "queue": "default", "priority": 0, "run_at": NOW}
        assert asked(claim) == usual | absent | {"tags": (), "metadata": {}}
        assert claim.id == id

    async def test_mixed_jobs_in_one_call(self, store: Store) -> None:
        """Jobs with and without the optional fields do not lend each other any."""
        await put(store, due("a"), FULL, due("b", delay=None, tags=("x",)), due("c", key="k"))
        claims = {claim.task: asked(claim) for claim in await take(store, await join(store))}
        assert (claims["a"]["tags"], claims["a"]["key"], claims["a"]["timeout"]) == ((), None, None)
        assert claims[FULL.task]["metadata"] == FULL.metadata
        assert (claims["b"]["tags"], claims["b"]["metadata"]) == (("x",), {})
        assert (claims["c"]["key"], claims["c"]["max_attempts"]) == ("k", None)

    async def test_without_a_time_it_is_due_at_once(self, store: Store, face: Face) -> None:
        """Neither `run_at` nor `delay` means now, by the database's clock."""
        [id] = await enqueue(store, face, [NewJob(task="t")])
        worker = await join(store, now=None)
        lanes = [head.lane for head in await store.lanes(None)]
        [claim] = await store.claim(worker, lanes, 1)
        assert claim.id == id
        assert abs((claim.run_at - claim.enqueued_at).total_seconds()) < 1

    async def test_a_delay_counts_from_now(self, store: Store, face: Face) -> None:
        """`delay` is added to the database's clock, fractions included."""
        ids = await enqueue(
            store, face, [NewJob(task="t", delay=delay) for delay in (0.0, 1.25, 86_400.0)]
        )
        records = [await store.job(id) for id in ids]
        waits = [(record.run_at - record.enqueued_at).total_seconds() for record in records]
        assert waits == [pytest.approx(wait, abs=0.2) for wait in (0.0, 1.25, 86_400.0)]

    async def test_moments_keep_their_microseconds_and_their_meaning(self, store: Store) -> None:
        """A `run_at` in another time zone is the same moment; what comes back is aware."""
        tokyo = NOW.astimezone(timezone(timedelta(hours=9)))
        ids = await put(store, due(run_at=tokyo), due(run_at=FAR_AHEAD))
        records = [await store.job(id) for id in ids]
        assert [record.run_at for record in records] == [NOW, FAR_AHEAD]
        for record in records:
            assert record.run_at.tzinfo is not None
            assert record.enqueued_at.tzinfo is not None

    async def test_enqueued_at_is_the_time_of_the_call(self, store: Store) -> None:
        """Taken from the database's clock, whatever the job's `run_at`."""
        first, second = await put(store, due()), await put(store, due(run_at=FAR_AHEAD))
        earlier, later = await store.job(first[0]), await store.job(second[0])
        seconds = (later.enqueued_at - earlier.enqueued_at).total_seconds()
        assert 0 <= seconds < SLACK

    @pytest.mark.parametrize("name", AWKWARD)
    async def test_awkward_names(self, store: Store, name: str) -> None:
        """Any text up to its limit is a queue, a task, a key, a tag: bound, never pasted."""
        [id] = await put(
            store, due(name, queue=name, key=name, tags=(name,), metadata={name: name})
        )
        other = await put(store, due("plain", queue="plain"))
        [head] = await store.lanes([name], now=NOW)
        [claim] = await store.claim(await join(store), [head.lane], 10, now=NOW)
        assert (claim.id, claim.task, claim.queue, claim.key) == (id, name, name, name)
        assert asked(claim)["tags"] == (name,)
        assert asked(claim)["metadata"] == {name: name}
        for which in (JobFilter(queue=name), JobFilter(task=name), JobFilter(tag=name)):
            assert ids_of(await store.jobs(which)) == [id]
        assert await store.unserved_tasks([name]) == {"plain": len(other)}

    async def test_payloads_come_back_as_they_went_in(self, store: Store, face: Face) -> None:
        """A mebibyte, every kind of character, and integers beyond a float's reach."""
        payload = {
            "big": "x" * (1 << 20),
            "text": "é 日本 🎈 \u2028 \x7f ' \" \\ % :name ? $1 {} \n\t",
            "escaped": "\\u0041",
            "integer": 2**60 + 1,
            "float": 0.1,
            "empty": {"list": [], "object": {}, "text": ""},
        }
        args = json.dumps(payload, ensure_ascii=False)
        [id] = await enqueue(store, face, [due(args=args)])
        claim = await take_one(store, await join(store))
        assert json.loads(claim.args) == payload
        assert (await store.job(id)).args == payload

    @pytest.mark.parametrize("priority", [MIN_PRIORITY, -1, 0, 1, MAX_PRIORITY])
    async def test_every_priority(self, store: Store, priority: int) -> None:
        """The whole range is written and read."""
        await put(store, due(priority=priority))
        assert (await take_one(store, await join(store))).priority == priority

    @pytest.mark.parametrize("conn", [object(), "postgresql://", 7, {}], ids=lambda c: str(type(c)))
    async def test_other_connections_are_refused(self, store: Store, conn: object) -> None:
        """Another object raises an error that names it; nothing is written."""
        with pytest.raises(UnsupportedConnection, match=type(conn).__name__):
            await store.aenqueue([due()], conn)
        assert await store.jobs(JobFilter()) == []

    async def test_seen_by_others_at_once(
        self, store: Store, other_store: Store, face: Face
    ) -> None:
        """A call without a connection is committed when it returns."""
        ids = await enqueue(store, face, [due(), due()])
        assert ids_of(await take(other_store, await join(other_store))) == ids

    async def test_many_callers_at_once(self, store: Store, other_store: Store, face: Face) -> None:
        """Callers on several handles (and threads) get ids of their own; every job is there."""
        batches = await asyncio.gather(
            *(enqueue_aside(handle, face, [due() for _ in range(20)])
              for handle in [store, other_store] * 6),
            *(put(handle, due(), due()) for handle in [store, other_store] * 3),
        )  # fmt: skip
        ids = [id for batch in batches for id in batch]
        assert len(set(ids)) == len(ids) == 252
        assert sorted(ids_of(await store.jobs(JobFilter(limit=None)))) == sorted(ids)

    async def test_job_ids_are_never_used_again(self, store: Store) -> None:
        """Otherwise the late outcome of a pruned job would be written for a new one."""
        worker = await join(store)
        old = await put_finished(store, worker, due(), due())
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 10, now=FAR_AHEAD) == 2
        assert not set(old) & set(await put(store, due(), due()))
