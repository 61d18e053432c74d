"""What applications do: they enqueue, in Python or in SQL, and wait for results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, text

from mutirao.model.graphs.graph import chain, group
from mutirao.model.jobs.job import NewJob
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import Unique
from mutirao.sql.dialects.postgresql.enqueue import MAX_JOBS_PER_INSERT
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.expiring import until
from mutirao_conformance.fairness import of
from mutirao_conformance.graphs import a, returned, write_graph
from mutirao_conformance.kit import NOW, due, join, put, take
from mutirao_conformance.repeated import droppable
from mutirao_conformance.supersede import activity
from mutirao_conformance.uniqueness import keyed, placed
from mutirao_conformance.versions import version
from tests.integration.roles.duties import duty


@duty("enqueue")
async def enqueues(mine: SqlStore, others: SqlStore) -> None:
    """One job, some and many; while a worker is there to be woken."""
    await join(others, expiry=60, now=None)
    for number in (1, 2, MAX_JOBS_PER_INSERT + 1):
        jobs = [due() for _ in range(number)]
        assert len(mine.enqueue(jobs)) == len(await mine.aenqueue(jobs)) == number


@duty("enqueue")
async def enqueues_in_sql(mine: SqlStore, others: SqlStore) -> None:
    """The documented function."""
    await in_sql(mine, "'send', '{\"order_id\": 7}', queue => 'mail', delay => 60, key => 'k'")


@duty("expires")
async def enqueues_what_expires(mine: SqlStore, others: SqlStore) -> None:
    """One job, and some of many."""
    await put(mine, until(NOW))
    assert len(await mine.aenqueue(iter([until(NOW), due(), until(NOW)]))) == 3


@duty("inbox")
async def remembers(mine: SqlStore, others: SqlStore) -> None:
    """A message that is new, and again."""
    async with mine.engines.asynchronous().begin() as conn:
        assert await mine.aremember("books", "m", conn)
        assert not await mine.aremember("books", "m", conn)


@duty("keys")
async def enqueues_with_a_key(mine: SqlStore, others: SqlStore) -> None:
    """What waits is found or replaced, what runs is waited for, what has ended holds its key."""
    first, _ = await placed(mine, keyed())
    assert await placed(mine, keyed()) == (first, "found")
    _, how = await placed(mine, keyed("replace", unique_for=60.0))
    assert how == "replaced"
    worker = await join(others)
    [claim] = await take(others, worker)
    _, how = await placed(mine, keyed("rerun"))
    assert how == "rerun"
    assert (await placed(mine, version(2, key="v")))[1] == "inserted"
    assert (await placed(mine, version(1, key="v")))[1] == "outdated"
    await placed(mine, keyed(key="held", unique_for=3600.0))
    await put(mine, *(keyed(key=str(n)) for n in range(3)), due())
    assert claim.id


@duty("keys")
async def holds_a_key_after_the_end(mine: SqlStore, others: SqlStore) -> None:
    """A window after the end."""
    first, _ = await placed(mine, keyed(unique_for=3600.0))
    worker = await join(others, now=None)
    claims = await take(others, worker)
    await others.settle(worker, [returned(claims[0], 1)])
    assert await placed(mine, keyed(unique_for=3600.0)) == (first, "found")


@duty("keys")
async def enqueues_with_a_key_in_sql(mine: SqlStore, others: SqlStore) -> None:
    """The documented function, twice with a key."""
    for _ in range(2):
        await in_sql(mine, "'index', '{}', key => 'k', on_conflict => 'replace', delay => 5")


@duty("supersede")
async def enqueues_what_supersedes(mine: SqlStore, others: SqlStore) -> None:
    """Two that follow each other, are merged, replaced and dropped, in one call and in two."""
    for older, newer in (
        ("Like", "Announce"), ("Create", "Update"), ("Update", "Update"), ("Add", "Remove"),
    ):  # fmt: skip
        await put(mine, activity(older, key=f"{older} in two"))
        await put(mine, activity(newer, key=f"{older} in two"))
        await put(mine, activity(older, key=older), activity(newer, key=older))


@duty("supersede")
async def enqueues_what_was_done(mine: SqlStore, others: SqlStore) -> None:
    """It is dropped, as nobody needs it again."""
    worker = await join(others)
    await placed(mine, droppable("Like"))
    await others.settle(worker, [returned(claim, 1) for claim in await take(others, worker)])
    assert (await placed(mine, droppable("Like")))[1] == "repeated"


@duty("supersede", "unjudged", "supersede_task")
async def enqueues_what_is_judged(mine: SqlStore, others: SqlStore) -> None:
    """In SQL; then somebody who has the rule asks it, about one alone and before another one."""
    rules = {"send": Unique(supersede=Supersede.activities())}
    await others.declare_supersede(rules)
    for _ in range(2):
        await in_sql(mine, "'send', '{\"type\": \"Update\"}', key => 'k'")
    assert await mine.judge(rules) == 1
    await in_sql(mine, "'send', '{\"type\": \"Update\"}', key => 'k'")
    await put(mine, activity("Update", key="k"))


@duty("graphs")
async def enqueues_a_graph(mine: SqlStore, others: SqlStore) -> None:
    """Steps, gates between them, and those that wait there."""
    await write_graph(mine, chain(a(), group(a(), a()), a()))


@duty("results")
async def waits_for_results(mine: SqlStore, others: SqlStore) -> None:
    """Of jobs that run, have succeeded and are dead."""
    ids = await put(others, a(), a())
    worker = await join(others)
    one, _ = await take(others, worker)
    await mine.await_ends(ids)
    await others.settle(worker, [returned(one, 7)], now=NOW)
    ends = await mine.endings(ids)
    assert sorted(str(each.result) for each in ends) == ["7", "None"]


@duty("enqueue")
async def enqueues_by_turns(mine: SqlStore, others: SqlStore) -> None:
    """One job and several, of a task that nobody has declared, take no more than others."""
    await put(mine, of("a"))
    await put(mine, of("a"), of("b"))


async def by_turns_with_a_key(mine: SqlStore, others: SqlStore) -> None:
    """Both together take no more than each."""
    unique = Unique(supersede=Supersede.activities())
    for terms in ({"unique": Unique()}, {"unique": unique, "task": "other"}):
        jobs: Sequence[NewJob] = [_both(n, **terms) for n in range(2)]
        await put(mine, *jobs)
        await put(mine, jobs[0])


def _both(n: int, **terms: Any) -> NewJob:
    asked = {"task": "fair", "args": '{"tenant": "a"}', "fair_by": "tenant", "key": str(n)}
    return due(**asked | terms)


async def in_sql(mine: SqlStore, arguments: str) -> None:
    """Call the documented function with these arguments."""

    def call(conn: Connection) -> None:
        quoted = arguments.replace(":", r"\:")
        assert conn.scalars(text(f"SELECT mutirao_enqueue({quoted})")).one() > 0

    await mine._sender.runner.run(call)
