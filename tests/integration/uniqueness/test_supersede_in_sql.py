"""Jobs that SQL enqueued with a key, of tasks with a supersede rule: the rule is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from mutirao import JobState, Mutirao, Supersede
from mutirao.errors import InvalidJob
from mutirao.model.jobs.job import Claim, NewJob
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import Unique
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import FAR_AHEAD, due, finish, join, take as take_at
from tests.support.waiting import until

RULE = Supersede.activities(drop_repeated=True)
TASKS = {"send": Unique(supersede=RULE), "other": Unique()}


@pytest.fixture
async def store(migrated_url: str) -> AsyncIterator[SqlStore]:
    """A store of which the database knows that `send` has a rule."""
    store = SqlStore(migrated_url)
    await store.declare_supersede(TASKS)
    yield store
    await store.close()


def insert(store: SqlStore, kind: str, task: str = "send", key: str | None = "k") -> int:
    """Enqueue a job by the documented statement; return its id."""
    engine = create_engine(store.engines.url)
    args = json.dumps({"type": kind})
    with engine.begin() as conn:
        if conn.dialect.name == "postgresql":
            sql = "SELECT mutirao_enqueue(:task, CAST(:args AS json), key => :key)"
            found = conn.scalar(text(sql), {"task": task, "args": args, "key": key})
        else:
            sql = "INSERT INTO mutirao_job (task, args, `key`) VALUES (:task, :args, :key)"
            found = conn.execute(text(sql), {"task": task, "args": args, "key": key}).lastrowid
    engine.dispose()
    assert found is not None
    return int(found)


async def judge(store: SqlStore) -> int:
    """Let a worker look at what was enqueued, and ask its rules."""
    await store.lanes(None)  # on MySQL whoever looks puts what was inserted into its place
    return await store.judge({"send": TASKS["send"]})


async def take(store: SqlStore, worker: int) -> list[Claim]:
    """Claim what SQL made due by the server's clock."""
    return await take_at(store, worker, now=FAR_AHEAD)


async def state_of(store: SqlStore, id: int) -> tuple[JobState, str | None]:
    """Return the state of a job, and why it was cancelled."""
    [found] = await store.jobs(JobFilter(ids=(id,), limit=None))
    return found.state, found.error


async def ran(store: SqlStore, worker: int) -> list[tuple[int, str]]:
    """Let jobs run, those of a key one after another; return which they were, and their kinds."""
    done = []
    while claims := await take(store, worker):
        done += [(claim.id, json.loads(claim.args)["type"]) for claim in claims]
        await finish(store, worker, claims)
    return done


def activity(kind: str, rule: Supersede | None = None) -> NewJob:
    """Return a job of the same key as the library enqueues it."""
    unique = TASKS["send"] if rule is None else Unique(supersede=rule)
    return due("send", key="k", args=json.dumps({"type": kind}), unique=unique)


async def test_two_jobs_of_sql(store: SqlStore) -> None:
    """They are blocked until the rule was asked, in the order in which they were enqueued."""
    older, newer = insert(store, "Update"), insert(store, "Delete")
    worker = await join(store)
    assert await take(store, worker) == []
    assert await state_of(store, older) == (JobState.BLOCKED, None)
    assert await judge(store) == 1
    assert await state_of(store, older) == (JobState.CANCELLED, f"superseded by job {newer}")
    assert await ran(store, worker) == [(newer, "Delete")]
    assert await judge(store) == 0


async def test_what_others_enqueue_after_it(store: SqlStore) -> None:
    """Asks about it first: then it is the older one."""
    older = insert(store, "Update")
    await store.lanes(None)
    [newer] = await store.aenqueue([activity("Update")])
    assert await state_of(store, older) == (JobState.CANCELLED, f"superseded by job {newer}")
    assert await judge(store) == 0
    assert await ran(store, await join(store)) == [(newer, "Update")]


async def test_what_others_enqueued_before_it(store: SqlStore) -> None:
    """The older one waits: the two are merged into that of SQL."""
    [older] = await store.aenqueue([activity("Create")])
    newer = insert(store, "Update")
    await judge(store)
    assert await state_of(store, older) == (JobState.CANCELLED, f"merged into job {newer}")
    assert await ran(store, await join(store)) == [(newer, "Create")]


async def test_the_older_one_runs(store: SqlStore) -> None:
    """Both are sent, in order."""
    [older] = await store.aenqueue([activity("Create")])
    worker = await join(store)
    [claim] = await take(store, worker)
    newer = insert(store, "Delete")
    await judge(store)
    assert await take(store, worker) == []
    await finish(store, worker, [claim])
    assert await ran(store, worker) == [(newer, "Delete")]
    assert older < newer


async def test_a_repetition(store: SqlStore) -> None:
    """What equals the last successful one is cancelled."""
    [older] = await store.aenqueue([activity("Update")])
    await ran(store, await join(store))
    newer = insert(store, "Update")
    await judge(store)
    why = f"repeats job {older}, which succeeded"
    assert await state_of(store, newer) == (JobState.CANCELLED, why)


async def test_what_was_cancelled_meanwhile(store: SqlStore) -> None:
    """It is no older one."""
    older, newer = insert(store, "Create"), insert(store, "Delete")
    await store.lanes(None)
    await store.cancel(JobFilter(ids=(older,)))
    await judge(store)
    assert await ran(store, await join(store)) == [(newer, "Delete")]


async def test_labels(store: SqlStore) -> None:
    """A key of a task without a rule, and a job without a key, do not wait for anybody."""
    ids = [
        insert(store, "Create", task="other"),
        insert(store, "Delete", task="other"),
        insert(store, "Create", key=None),
        insert(store, "Delete", key=None),
    ]
    await store.lanes(None)
    worker = await join(store)
    assert [claim.id for claim in await take(store, worker)] == ids


async def test_a_merge_that_fails(store: SqlStore) -> None:
    """Ends the job, and says why; the one before it stays, and so do those of other keys."""

    def fail(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
        raise InvalidJob("these do not go together")

    rule = Supersede.activities(merge=fail)
    [older] = await store.aenqueue([activity("Create", rule)])
    newer, apart = insert(store, "Update"), insert(store, "Update", key="l")
    await store.lanes(None)
    await store.judge({"send": Unique(supersede=rule)})
    assert await state_of(store, newer) == (JobState.CANCELLED, "these do not go together")
    assert await ran(store, await join(store)) == [(older, "Create"), (apart, "Update")]


async def test_a_task_that_has_no_rule_any_more(store: SqlStore) -> None:
    """Its jobs are let go when leftovers are mended; later ones do not wait."""
    older = insert(store, "Create")
    await store.lanes(None)
    await store.declare_supersede({"send": Unique()})
    await store.mend()
    newer = insert(store, "Delete")
    await store.lanes(None)
    assert await ran(store, await join(store)) == [(older, "Create"), (newer, "Delete")]
    assert await judge(store) == 0


async def test_a_scope(store: SqlStore) -> None:
    """Is the task's, and its keys are shared by all queues."""
    await store.declare_supersede({"send": Unique(supersede=RULE, scope="s")})
    older = insert(store, "Update")
    await store.lanes(None)
    unique = Unique(supersede=RULE, scope="s")
    new = due("send", key="k", args='{"type": "Update"}', unique=unique, queue="mail")
    [newer] = await store.aenqueue([new])
    assert await state_of(store, older) == (JobState.CANCELLED, f"superseded by job {newer}")


async def test_all_at_once(store: SqlStore) -> None:
    """Workers that judge the same keys, and those that enqueue more: one Update of each is left."""
    keys = [f"key {n}" for n in range(5)]
    for _ in range(4):
        for key in keys:
            insert(store, "Update", key=key)
    await store.lanes(None)
    more = [replace(activity("Update"), key=key) for key in keys]
    calls = [judge(store), judge(store), store.aenqueue(more), judge(store)]
    await asyncio.gather(*calls)
    while await judge(store):
        pass
    assert [kind for _, kind in await ran(store, await join(store))] == ["Update"] * len(keys)


async def test_a_worker_asks(migrated_url: str) -> None:
    """It declares its rules when it starts, and asks them about jobs of SQL while it runs."""
    app = Mutirao(migrated_url)
    sent: list[str] = []

    @app.task(supersede=RULE)
    async def send(type: str) -> None:
        sent.append(type)

    store = app.store
    assert isinstance(store, SqlStore)
    async with app.worker(poll=0.1):
        ids = [insert(store, kind, key=kind) for kind in ("Create", "Like")]
        await until(lambda: len(sent) == len(ids))
    assert sorted(sent) == ["Create", "Like"]
    await app.aclose()
