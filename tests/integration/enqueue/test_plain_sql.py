"""Any program enqueues with one statement, in its own transaction, whatever language it is in."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from mutirao.model.jobs.job import NewJob
from mutirao.model.keys.uniqueness import OnConflict, Placed, Unique
from tests.integration.enqueue.holders import AlchemyAsyncpg, Holder, Psycopg, Sqlite3
from tests.integration.enqueue.kit import SEVERAL, Observer, kinds, numbered

LEAST = {
    "postgresql": "SELECT mutirao_enqueue('shop.send')",
    "sqlite": "INSERT INTO mutirao_job (task) VALUES ('shop.send')",
}
FULL = {
    "postgresql": """
        SELECT mutirao_enqueue(
            'shop.send', args => '{"n":  1}', queue => 'mail', priority => 3,
            run_at => '2031-05-17 03:04:05+09', max_attempts => 4, timeout => 12.5, key => 'k',
            tags => '["blue"]', metadata => '{"tenant":  "acme"}', traceparent => '00-af-b7-01'
        )""",
    "sqlite": """
        INSERT INTO mutirao_job (
            task, args, queue, priority, run_at, max_attempts, timeout, key, tags, metadata,
            traceparent
        ) VALUES (
            'shop.send', '{"n":  1}', 'mail', 3, unixepoch('2031-05-16 18:04:05') * 1000000,
            4, 12.5, 'k', '["blue"]', '{"tenant":  "acme"}', '00-af-b7-01'
        )""",
}
few = kinds(Psycopg, AlchemyAsyncpg, Sqlite3)


@few
async def test_the_least(holder: Holder, observer: Observer) -> None:
    """The name of a task is enough; the job is live and due when its transaction commits."""
    await holder.execute(LEAST[holder.backend])
    assert observer.ids() == []
    await holder.commit()
    [row] = observer.jobs()
    assert (row.task, row.args, row.queue, row.priority) == ("shop.send", {}, "default", 0)
    assert row.live == row.id
    assert row.due == row.run_at == row.enqueued_at
    assert abs(row.due - datetime.now(UTC)) < timedelta(minutes=1)


@few
async def test_every_option(holder: Holder, observer: Observer) -> None:
    """Options have the names they have everywhere."""
    await holder.execute(FULL[holder.backend])
    await holder.commit()
    [row] = observer.jobs()
    assert (row.args, row.queue, row.priority) == ({"n": 1}, "mail", 3)
    assert row.due == row.run_at == datetime(2031, 5, 16, 18, 4, 5, tzinfo=UTC)
    assert (row.max_attempts, row.timeout, row.key) == (4, 12.5, "k")
    assert (row.tags, row.metadata) == (["blue"], {"tenant": "acme"})
    assert row.traceparent == "00-af-b7-01"


@kinds(Psycopg)
async def test_a_delay(holder: Holder, observer: Observer) -> None:
    """Seconds from now, by the database's clock."""
    await holder.execute("SELECT mutirao_enqueue('shop.send', delay => 1.5)")
    await holder.commit()
    [row] = observer.jobs()
    assert row.due - row.enqueued_at == timedelta(seconds=1.5)


@few
async def test_rolled_back(holder: Holder, observer: Observer) -> None:
    """It is that program's transaction."""
    await holder.execute(LEAST[holder.backend])
    await holder.rollback()
    assert observer.ids() == []


@few
async def test_beside_others(holder: Holder, observer: Observer) -> None:
    """Jobs by plain SQL and by the library share one sequence of ids."""
    ids = await holder.enqueue(numbered(SEVERAL))
    await holder.execute(LEAST[holder.backend])
    later = await holder.enqueue(numbered(SEVERAL))
    await holder.commit()
    everyone = observer.ids()
    assert (everyone[:SEVERAL], everyone[-SEVERAL:]) == (ids, later)
    assert len(everyone) == 2 * SEVERAL + 1


UNFIT = {
    "task": "''",
    "args": "'[1]'",
    "queue": f"'{'q' * 101}'",
    "max_attempts": "0",
    "timeout": "0",
    "key": f"'{'k' * 201}'",
    "tags": """'{"blue": 1}'""",
    "metadata": "'7'",
    "run_at": "",
}
LATE = {
    "postgresql": "'9999-05-31 00:00Z'",
    "sqlite": "253383724800000000",
}  # as if it were blocked


@pytest.mark.parametrize("name", UNFIT)
@kinds(Psycopg, Sqlite3)
async def test_what_does_not_fit(holder: Holder, observer: Observer, name: str) -> None:
    """A constraint that tells its column refuses it; nothing is written."""
    given = {"task": "'shop.send'"} | {name: UNFIT[name] or LATE[holder.backend]}
    if holder.backend == "sqlite":
        names, values = ", ".join(given), ", ".join(given.values())
        with pytest.raises(sqlite3.IntegrityError, match=r"CHECK|has to be a JSON"):
            await holder.execute(f"INSERT INTO mutirao_job ({names}) VALUES ({values})")  # noqa: S608
    else:
        named = ", ".join(f"{each} => {value}" for each, value in given.items())
        with pytest.raises(psycopg.errors.CheckViolation, match=f"mutirao_job_{name}_check"):
            await holder.execute(f"SELECT mutirao_enqueue({named})")
    await holder.rollback()
    assert observer.ids() == []


KEYED = """
SELECT mutirao_enqueue(
    'shop.send', args => '{{"n": {n}}}', key => 'k', on_conflict => '{mode}', scope => 'shop'
)"""


@kinds(Psycopg)
async def test_unique_keys(holder: Holder, observer: Observer) -> None:
    """The function follows the same rules, and returns the id of the job that stands."""
    for n, mode in enumerate(("keep", "keep", "replace", "rerun")):
        await holder.execute(KEYED.format(n=n, mode=mode))
    await holder.commit()
    assert [row.args for row in observer.jobs() if row.live] == [{"n": 3}]


@kinds(Psycopg)
async def test_a_key_that_must_be_free(holder: Holder, observer: Observer) -> None:
    """A violation of uniqueness, as of any index."""
    await holder.execute(KEYED.format(n=0, mode="error"))
    await holder.commit()
    with pytest.raises(psycopg.errors.UniqueViolation, match="has the key k already"):
        await holder.execute(KEYED.format(n=1, mode="error"))
    await holder.rollback()
    assert len(observer.ids()) == 1


ENDED = """
WITH ended AS (DELETE FROM mutirao_live RETURNING id)
INSERT INTO mutirao_attempt (job, run, attempt, outcome, started_at, finished_at)
SELECT id, 1, 1, 'succeeded', now(), now() FROM ended"""
VERSIONED = """
SELECT mutirao_enqueue(
    'shop.send', key => 'k', on_conflict => 'rerun',
    version => extract(epoch FROM timestamptz '2026-11-24 09:00:00.00000{n}Z')
)"""


@kinds(Psycopg)
async def test_versions(holder: Holder, observer: Observer) -> None:
    """An older one leaves the newer one alone; a time is in seconds since 1970, as in Python."""
    for n in (2, 1, 2, 3):
        await holder.execute(VERSIONED.format(n=n))
    moment = datetime(2026, 11, 24, 9, 0, 0, 2, tzinfo=UTC)
    unique = Unique(on_conflict=OnConflict.RERUN, version=moment.timestamp())
    [late] = await holder.enqueue([NewJob(task="shop.send", key="k", unique=unique)])
    await holder.commit()
    jobs = observer.jobs()
    assert [row.live is not None for row in jobs] == [False, False, True]
    assert isinstance(late, Placed)
    assert (late.how, int(late)) == ("outdated", jobs[2].id)


@pytest.mark.parametrize("others", ["", "key => 'k',", "key => 'k', on_conflict => 'keep',"])
@kinds(Psycopg)
async def test_a_version_that_does_not_fit(holder: Holder, others: str) -> None:
    """It needs a key, and a rule by which the newer one takes the older one's place."""
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"on_conflict is (not|keep)"):
        await holder.execute(f"SELECT mutirao_enqueue('shop.send', {others} version => 1)")


@pytest.mark.parametrize("number", ["'NaN'", "'infinity'", "9223372036854775808"])
@kinds(Psycopg)
async def test_a_version_out_of_range(holder: Holder, number: str) -> None:
    """Numbers of 64 bits are enough for everybody, and fit every database."""
    options = f"key => 'k', on_conflict => 'rerun', version => {number}"
    with pytest.raises(psycopg.errors.CheckViolation, match="mutirao_job_version_check"):
        await holder.execute(f"SELECT mutirao_enqueue('shop.send', {options})")


@pytest.mark.parametrize("length", ["'infinity'", "31 * 86400"])
@kinds(Psycopg)
async def test_a_key_held_for_long(holder: Holder, observer: Observer, length: str) -> None:
    """For ever is infinity. The key is held although the job has ended."""
    options = f"key => 'k', on_conflict => 'keep', unique_for => {length}"
    for _ in range(2):
        await holder.execute(f"SELECT mutirao_enqueue('shop.send', {options})")
        await holder.execute(ENDED)
    await holder.commit()
    assert len(observer.jobs()) == 1


@pytest.mark.parametrize("length", ["1e300", "'nan'", "1.1e10", "0"])
@kinds(Psycopg)
async def test_a_key_held_for_too_long(holder: Holder, observer: Observer, length: str) -> None:
    """No longer than arithmetic with times can go."""
    options = f"key => 'k', on_conflict => 'keep', unique_for => {length}"
    with pytest.raises(psycopg.errors.CheckViolation, match="mutirao_key_unique_for_check"):
        await holder.execute(f"SELECT mutirao_enqueue('shop.send', {options})")
    await holder.rollback()
    assert observer.ids() == []


@pytest.mark.parametrize("wrong", ["on_conflict => 'drop', key => 'k'", "on_conflict => 'keep'"])
@kinds(Psycopg)
async def test_a_wrong_conflict(holder: Holder, wrong: str) -> None:
    """An unknown word, or no key, is told with what to give."""
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="on_conflict is"):
        await holder.execute(f"SELECT mutirao_enqueue('shop.send', {wrong})")
