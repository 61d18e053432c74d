"""What was asked arrives as it was asked: values are bound, and the clock is the database's."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import asyncpg
import pytest

from mutirao.model.jobs.job import MAX_PRIORITY, MIN_PRIORITY, NewJob
from mutirao.sql.enqueue.job_columns import FACTS
from tests.integration.enqueue.holders import (
    AlchemyAsyncpg,
    AlchemyConnection,
    Asyncpg,
    AsyncpgAutocommit,
    Holder,
    Psycopg,
    Psycopg2,
    Sqlite3,
)
from tests.integration.enqueue.kit import AWKWARD, Observer, awkward, kinds, numbered, varied

pytestmark = pytest.mark.usefixtures("small_chunks")

TOKYO = timezone(timedelta(hours=9))
MOMENT = datetime(2031, 5, 17, 3, 4, 5, 678901, tzinfo=TOKYO)
FULL = NewJob(
    task="shop.send",
    args='{"order": 7,  "big": 123456789012345678901234567890, "odd":"\\u00e9\\u0000"}',
    queue="mail",
    priority=-3,
    run_at=MOMENT,
    max_attempts=4,
    timeout=12.5,
    key="receipt-7",
    tags=("blue", "green,yellow"),
    metadata={"tenant": "acme", "deep": {"list": [1, None, 0.5]}},
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    redrive_of=2**53 + 1,
    on_dead_of=2**62,
    tenant="acme",
    group="north",
    fingerprint="f" * 32,
)
LEAST = NewJob(task="t")

# How many plain jobs go along: none, some in the same statement, enough for COPY.
alongside = pytest.mark.parametrize("companions", [0, 60])
DRIVERS = (Psycopg, Psycopg2, Asyncpg, AlchemyConnection, AlchemyAsyncpg, Sqlite3)


async def write(holder: Holder, observer: Observer, *jobs: NewJob, companions: int = 0) -> Any:
    """Enqueue jobs, one call for each where there are no companions; return their rows."""
    calls = [[*jobs, *numbered(companions)]] if companions else [[job] for job in jobs]
    ids = [id for call in calls for id in await holder.enqueue(call)]
    await holder.commit()
    rows = {row.id: row for row in observer.jobs()}
    return [rows[id] for id in ids[: len(jobs)]]


def fields(row: Any) -> dict[str, Any]:
    """Return what a row says was asked, but for its arguments and times."""
    return {name: getattr(row, name) for name in FACTS if name != "args"}


@varied(DRIVERS, "companions", 60, 0, 3)
async def test_every_field(holder: Holder, observer: Observer, companions: int) -> None:
    """Each option reaches the database, those left out are absent, none mixes with another's.

    A moment is kept exactly; a delay is added to the moment of the call, which is now.
    """
    asked = [MIN_PRIORITY, -1, 1, MAX_PRIORITY]  # the whole range
    delays = [0.0, 1.25, 86_400.0]
    others = [NewJob(task="t", priority=priority) for priority in asked]
    others += [NewJob(task="t", delay=delay) for delay in delays]
    before = datetime.now(UTC)
    rows = await write(holder, observer, FULL, LEAST, *others, companions=companions)
    full, least, *rest = rows
    urgent, delayed = rest[: len(asked)], rest[len(asked) :]
    assert [row.priority for row in urgent] == asked
    assert fields(full) == {
        "task": "shop.send",
        "queue": "mail",
        "priority": -3,
        "max_attempts": 4,
        "timeout": 12.5,
        "key": "receipt-7",
        "tags": ["blue", "green,yellow"],
        "metadata": {"tenant": "acme", "deep": {"list": [1, None, 0.5]}},
        "traceparent": FULL.traceparent,
        "redrive_of": 2**53 + 1,
        "on_dead_of": 2**62,
        "tenant": "acme",
        "group": "north",
        "fingerprint": "f" * 32,
    }
    absent = dict.fromkeys(fields(full)) | {"task": "t", "queue": "default", "priority": 0}
    assert fields(least) == absent
    assert observer.texts()[:2] == [FULL.args, "{}"]
    assert full.live == full.id
    assert full.run_at == full.due == MOMENT
    assert before <= least.enqueued_at <= datetime.now(UTC)
    for row, delay in zip([least, *delayed], [0.0, *delays], strict=True):
        assert row.run_at - row.enqueued_at == timedelta(seconds=delay)
        assert row.due == row.run_at


@varied(DRIVERS, "companions", 60, 0, 3)
async def test_awkward_texts(holder: Holder, observer: Observer, companions: int) -> None:
    """Whatever looks like a quote, an escape, a placeholder or an end of line is text."""
    jobs = [awkward(value) for value in AWKWARD]
    rows = await write(holder, observer, *jobs, companions=companions)
    for value, job, row in zip(AWKWARD, jobs, rows, strict=True):
        texts = [row.task, row.queue, row.key, row.traceparent]
        assert texts == [value] * 4
        assert (row.tags, row.metadata) == ([value, "b"], {value: value})
        assert row.args == json.loads(job.args)
    assert observer.texts()[: len(jobs)] == [job.args for job in jobs]


@varied(DRIVERS, "companions", 60, 0, 3)
async def test_large_payloads(holder: Holder, observer: Observer, companions: int) -> None:
    """A mebibyte is one value like any other, also several of them."""
    jobs = [NewJob(task="t", args=json.dumps({"big": f"{n}" * (1 << 20)})) for n in range(5)]
    await write(holder, observer, *jobs, companions=companions)
    assert observer.texts()[:5] == [job.args for job in jobs]


@alongside
@kinds(Psycopg, Sqlite3)
async def test_arguments_cannot_pass_for_options(
    holder: Holder, observer: Observer, companions: int
) -> None:
    """Text that is no JSON object is refused, and becomes no other field of the job."""
    forged = NewJob(task="t", args='{}, "queue": "forged"')
    with pytest.raises(Exception, match=r"(?i)json"):
        await holder.enqueue([forged, *numbered(companions)])
    await holder.rollback()
    assert observer.ids() == []


@alongside
@kinds(Asyncpg, AsyncpgAutocommit)
async def test_codecs_of_the_connection(
    holder: Holder, observer: Observer, companions: int
) -> None:
    """What a program taught asyncpg about JSON and times is its own business."""
    conn: asyncpg.Connection = holder.conn

    def never(value: object) -> str:
        raise AssertionError(value)

    for name in ("json", "jsonb", "timestamptz", "numeric", "int2"):
        await conn.set_type_codec(name, schema="pg_catalog", encoder=never, decoder=never)
    await holder.enqueue([FULL, *numbered(companions)])
    await holder.commit()
    assert observer.jobs()[0].due == MOMENT


@alongside
@kinds(Psycopg, Psycopg2)
async def test_other_client_encodings(holder: Holder, observer: Observer, companions: int) -> None:
    """A client that speaks Latin-1 enqueues what Latin-1 can say."""
    if isinstance(holder, Psycopg2):
        holder.conn.set_client_encoding("latin1")
    else:
        await holder.execute("SET client_encoding TO latin1")
    await write(holder, observer, awkward("olá, über\\"), companions=companions)
    assert observer.jobs()[0].task == "olá, über\\"


@alongside
@kinds(Psycopg, AlchemyAsyncpg)
async def test_settings_of_the_session(holder: Holder, observer: Observer, companions: int) -> None:
    """Neither its time zone nor its date style changes a moment."""
    await holder.execute("SET timezone TO 'America/Sao_Paulo'")
    await holder.execute("SET datestyle TO 'SQL, DMY'")
    full, least = await write(holder, observer, FULL, LEAST, companions=companions)
    assert full.run_at == MOMENT
    assert abs(least.run_at - datetime.now(UTC)) < timedelta(minutes=1)
