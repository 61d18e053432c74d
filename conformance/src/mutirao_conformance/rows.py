"""Rows that other programs have written: unreadable values end that job alone.

A worker with all its loops runs beside them: none of these may end, or turn in vain.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import column, insert, table, text, update
from sqlalchemy.exc import DBAPIError

from mutirao.app import Mutirao
from mutirao.engine.workers.embedded import EmbeddedWorker
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.job import FINAL_STATES, JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter, JobRecord
from mutirao.model.limits.limits import Limit
from mutirao.ports import Store
from mutirao.sql.schema import tables
from mutirao_conformance.kit import NOW, at, due, finish, ids_of, join, put, take

ALL_END_WITHIN = 60.0  # seconds; only a failure waits this long
PACE = 0.05  # seconds between two looks
INNOCENT = "innocent"
LARGE = 10_000_000  # characters

# What databases take for JSON, as the value of a name; no database takes all of it.
VALUES = {
    "a number of 5,000 digits": "9" * 5_000,
    "a number of 4,301 digits in a list": f"[{'9' * 4_301}]",
    "a number beyond all": "1e999999",
    "deep lists": "[" * 1_000 + "]" * 1_000,
    "deeper lists": "[" * 30_000 + "]" * 30_000,
    "deep objects": '{"a":' * 900 + "1" + "}" * 900,
    "no number": "NaN",
    "infinity": "-Infinity",
    "half a character": r'"\ud83d"',
    "the other half": r'"\ude00 x"',
    "a character without a number": r'"\u0000"',
    "the same name twice": '{"a":1,"a":[2]}',
    "a list": "[1,[2]]",
    "an object": '{"a":{"b":null}}',
    "nothing": "null",
    "a truth": "true",
    "a long text": '"' + "x" * LARGE + '"',
}

SHORT = {what: value for what, value in VALUES.items() if len(value) < LARGE}


async def write(store: Store, id: int, **columns: str) -> bool:
    """Write columns of a job as SQL may; return whether the database takes it."""
    return await rewrite(store, "mutirao_job", "id", id, **columns)


async def rewrite(store: Store, name: str, key: str, id: int | str, **columns: str) -> bool:
    """Write columns of a row of any table as SQL may; return whether the database takes it."""
    engines: Any = store.engines  # type: ignore[attr-defined]
    its = table(name, column(key), *map(column, columns), schema=engines.schema)
    change = update(its).where(its.c[key] == id).values(**columns)

    def written() -> bool:
        try:
            with engines.sync().begin() as conn:
                conn.execute(change)
        except DBAPIError:
            return False
        return True

    return await asyncio.to_thread(written)


async def insert_by_sql(store: Store, task: str, args: str) -> bool:
    """Insert a job as another program does; return whether the database takes it."""
    engines: Any = store.engines  # type: ignore[attr-defined]
    where = "mutirao_job" if engines.schema is None else f"{engines.schema}.mutirao_job"
    sql = text(f"INSERT INTO {where} (task, args) VALUES (:task, :args)")  # noqa: S608

    def written() -> bool:
        try:
            with engines.sync().begin() as conn:
                conn.execute(sql, {"task": task, "args": args})
        except DBAPIError:
            return False
        return True

    return await asyncio.to_thread(written)


async def forge(store: Store, id: int, run: int) -> None:
    """Write an attempt into history that no run has made."""
    engines: Any = store.engines  # type: ignore[attr-defined]
    row = {"job": id, "run": run, "attempt": run, "outcome": "retried"}
    row |= dict.fromkeys(("started_at", "finished_at"), NOW)

    def written() -> None:
        with engines.sync().begin() as conn:
            conn.execute(insert(tables.attempt).values(row))

    await asyncio.to_thread(written)


async def strange(
    store: Store, *templates: NewJob, values: Mapping[str, str] = VALUES, **columns: str
) -> list[int]:
    """Put a job for each of `VALUES` that the database takes, in place of `{}` in columns."""
    ids = []
    for value in values.values():
        for template in templates:
            [id] = await put(store, template)
            written = {name: said.replace("{}", value) for name, said in columns.items()}
            if await write(store, id, **written):
                ids.append(id)
            else:
                await store.cancel(JobFilter(ids=(id,)))
    return ids


def application(store: Store) -> Mutirao:
    """Return an application on a store, with a harmless task, in several kinds."""
    app = Mutirao(store=store)

    @app.task(name=INNOCENT)
    async def innocent(key: Any = None, more: Any = None) -> None: ...

    @app.task(name="limited", limit=Limit(50, by="key"))
    async def limited(key: Any = None, more: Any = None) -> None: ...

    @app.task(name="rated", limit=Limit(10_000, per=1.0, burst=100, by="key"))
    async def rated(key: Any = None, more: Any = None) -> None: ...

    @app.task(name="fair", fair_by="key")
    async def fair(key: Any = None, more: Any = None) -> None: ...

    return app


@asynccontextmanager
async def working(app: Mutirao) -> AsyncIterator[EmbeddedWorker]:
    """Run a worker that looks often, and whose patience is short."""
    async with app.worker(poll=0.2, heartbeat=1.0, expiry=10.0, concurrency=4) as worker:
        yield worker


async def all_ended(app: Mutirao, worker: EmbeddedWorker, ids: Collection[int]) -> list[JobRecord]:
    """Wait until these jobs have ended, while the worker lives; return them."""
    wanted = JobFilter(ids=tuple(ids), limit=None)
    found: list[JobRecord] = []
    async with asyncio.timeout(ALL_END_WITHIN):
        while not found or any(job.state not in FINAL_STATES for job in found):
            assert worker.health().alive, worker.health().reason
            await asyncio.sleep(PACE)
            found = await app.store.jobs(wanted)
    assert len(found) == len(ids)
    return found


async def innocents_go_on(store: Store, ids: Collection[int]) -> dict[int, JobRecord]:
    """Run a worker until these have ended, and as many innocent jobs; return these."""
    app = application(store)
    async with working(app) as worker:
        half = await put(store, *(NewJob(task=INNOCENT) for _ in range(10)))
        others = await put(store, *(NewJob(task="limited", args='{"key":"a"}') for _ in range(10)))
        served = await all_ended(app, worker, [*half, *others])
        assert {job.state for job in served} == {JobState.SUCCEEDED}
        ended = await all_ended(app, worker, ids) if ids else []
        assert worker.health().alive
    return {job.id: job for job in ended}


class RowsContract:
    """A value that SQL can write into a job's columns ends that job, and delays no other."""

    @pytest.mark.parametrize("task", ["innocent", "limited", "rated"])
    async def test_strange_arguments(self, store: Store, task: str) -> None:
        """Also in the argument by whose values a limit counts."""
        template, values = NewJob(task=task), VALUES if task == "limited" else SHORT
        ids = await strange(store, template, values=values, args='{"key":"a","more":{}}')
        ids += await strange(store, template, values=values, args='{"key":{}}')
        ended = await innocents_go_on(store, ids)
        assert ended
        assert {job.state for job in ended.values()} <= {JobState.SUCCEEDED, JobState.DEAD}
        assert all(job.error for job in ended.values() if job.state is JobState.DEAD)
        assert await store.jobs(JobFilter(limit=None))

    async def test_strange_rows_that_sql_inserts(self, store: Store) -> None:
        """Whatever makes them live reads the value by which jobs take turns; others go on."""
        taken = 0
        await store.declare_fairness({"fair": "key"})
        for value in SHORT.values():
            for task in (INNOCENT, "limited", "fair"):
                taken += await insert_by_sql(store, task, f'{{"key":{value}}}')
        assert taken > len(SHORT)
        await innocents_go_on(store, [])
        made = [job.id for job in await store.jobs(JobFilter(limit=None)) if job.task == "fair"]
        ended = await innocents_go_on(store, made)
        assert {job.state for job in ended.values()} <= {JobState.SUCCEEDED, JobState.DEAD}

    async def test_strange_metadata(self, store: Store) -> None:
        """Also where it looks like that of steps and of deliveries."""
        template, ids = NewJob(task=INNOCENT), []
        for metadata in (
            '{"mutirao":{}}', '{"mutirao":"step takes","x":{}}', '{"publication":{}}',
            '{"mutirao":"step takes keeps","publication":{},"subscription":{}}',
            '{"schedule":{},"tick":{}}',
        ):  # fmt: skip
            ids += await strange(store, template, metadata=metadata, values=SHORT)
        keyed, step = NewJob(task=INNOCENT, key="k"), '{"mutirao":"step takes","x":{}}'
        ids += await strange(store, keyed, metadata=step, values=SHORT)
        ended = await innocents_go_on(store, ids)
        assert {job.state for job in ended.values()} <= {JobState.SUCCEEDED, JobState.DEAD}

    async def test_strange_tags(self, store: Store) -> None:
        """Nobody needs them to run the job."""
        ids = await strange(store, NewJob(task=INNOCENT), tags="[{}]")
        ended = await innocents_go_on(store, ids)
        assert {job.state for job in ended.values()} == {JobState.SUCCEEDED}

    @pytest.mark.parametrize("gone", [False, True])
    async def test_history_that_somebody_wrote_beforehand(self, store: Store, gone: bool) -> None:
        """A row for an attempt that no run has made is replaced by the run of that number.

        Its end is written, by its worker, by a rescue beside others, or by people.
        """
        kept, innocent, cancelled = await put(store, due(), due(), due(queue="other"))
        await forge(store, cancelled, 1)
        assert await store.cancel(JobFilter(ids=(cancelled,)), now=NOW) == [cancelled]
        for run in (1, 2):
            await forge(store, kept, run)
        worker = await join(store)
        claims = await take(store, worker)
        assert ids_of(claims) == [kept, innocent]
        if gone:
            assert await store.rescue(now=at(120)) == [(kept, 2), (innocent, 2)]
        else:
            assert await store.disown([innocent]) == set()
            assert await store.disown([kept]) == {kept}
            await finish(store, worker, claims)
        runs = [(each.run, each.outcome) for each in (await store.job(kept)).attempts]
        lost_or_done = OutcomeKind.LOST if gone else OutcomeKind.SUCCEEDED
        assert runs == [(1, lost_or_done), (2, OutcomeKind.RETRIED)]

    async def test_a_worker_whose_history_somebody_wrote_beforehand(self, store: Store) -> None:
        """It settles the job, and lives on."""
        [id] = await put(store, NewJob(task=INNOCENT))
        await forge(store, id, 1)
        ended = await innocents_go_on(store, [id])
        assert ended[id].state is JobState.SUCCEEDED

    async def test_people_see_strange_rows(self, store: Store) -> None:
        """Readers of jobs, and commands, show those that cannot be read."""
        ids = []
        for name, value in (
            ("args", '{"key":{}}'), ("tags", "[{}]"), ("metadata", '{"mutirao":{}}'),
            ("metadata", '{"x":{}}'),
        ):  # fmt: skip
            ids += await strange(store, NewJob(task=INNOCENT), values=SHORT, **{name: value})
        [innocent] = await put(store, NewJob(task=INNOCENT))
        all_of_them = JobFilter(ids=(*ids, innocent), limit=None)
        assert len(await store.jobs(all_of_them)) == len(ids) + 1
        assert {(await store.job(id)).id for id in ids} == {*ids}
        assert sorted(await store.change(all_of_them, Change(priority=3))) == [*ids, innocent]
        assert sorted(await store.run_now(all_of_them)) == [*ids, innocent]
        assert sum(each.jobs for each in await store.counts()) >= len(ids) + 1
        for id in (*ids, innocent):
            assert await store.bury(id, "Unread", "it cannot be read")
            assert not await store.bury(id, "Unread", "twice")
        again = await store.redrive(all_of_them)
        repeated = {(await store.job(id)).redrive_of for id in again}
        assert innocent in repeated
        assert len(repeated) > len(ids) / 2
        while await store.roll_up(None):
            pass
        await store.mend()
        assert sorted(await store.cancel(JobFilter(ids=tuple(again)))) == sorted(again)
        assert await store.prune(OutcomeKind.DEAD, -3_600.0, 1_000) == len(ids) + 1

    async def test_rows_of_other_tables(self, store: Store) -> None:
        """A worker, and users, continue beside rows of workers that a user has changed."""
        [id, *others] = await put(store, *(NewJob(task=INNOCENT) for _ in range(3)))
        strange_worker = await join(store, now=None, expiry=3_600.0)
        for value in SHORT.values():
            for table_name, name in (("mutirao_worker", "queues"), ("mutirao_worker", "tasks")):
                await rewrite(store, table_name, "id", strange_worker, **{name: f"[{value}]"})
            await store.workers()
            await store.deployed("none", now=None)
        await rewrite(store, "mutirao_worker", "id", strange_worker, queues='{"a":1}', tasks="7")
        ended = await innocents_go_on(store, [id, *others])
        assert {job.state for job in ended.values()} == {JobState.SUCCEEDED}
        assert len(await store.workers()) >= 1

    async def test_a_buried_job(self, store: Store) -> None:
        """It is one that waits, whichever way it was found, and it is dead then, with a reason."""
        first = (await put(store, NewJob(task="t")))[0]
        worker = await join(store, now=None)
        assert await store.due(None, 10) == [first]
        assert ids_of(await store.claim_these(worker, [first])) == [first]
        assert not await store.bury(first, "Unread", "a worker has it")
        await store.release([(first, 1)])
        assert await store.bury(first, "Unread", "it cannot be read")
        record = await store.job(first)
        assert (record.state, record.error_type) == (JobState.DEAD, "Unread")
        assert [each.outcome for each in record.attempts] == [OutcomeKind.DEAD]
