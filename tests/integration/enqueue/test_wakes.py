"""Idle workers on PostgreSQL are told of new jobs: at commit, once a call, if any listens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psycopg
import pytest

from mutirao.model.jobs.job import NewJob, Wake
from mutirao.notifiers.postgresql import parse
from tests.integration.enqueue.holders import (
    AlchemyAsyncpg,
    AlchemyConnection,
    Asyncpg,
    AsyncpgAutocommit,
    Holder,
    Psycopg,
    PsycopgAutocommit,
)
from tests.integration.enqueue.kit import MANY, Observer, kinds

pytestmark = pytest.mark.usefixtures("small_chunks")
sizes = pytest.mark.parametrize("size", [1, MANY])

SOON = datetime(2031, 1, 1, tzinfo=UTC)


class Listener:
    """An idle worker on its own connection."""

    def __init__(self, dsn: str) -> None:
        self._conn = psycopg.connect(dsn, autocommit=True)
        self._payloads: list[str] = []
        # A handler hears what comes with any statement; `notifies()` of old versions does not.
        self._conn.add_notify_handler(lambda notify: self._payloads.append(notify.payload))
        self._conn.execute("LISTEN mutirao")

    def register(self, **serves: list[str]) -> int:
        """Say that a worker listens, which serves everything or this; return its id."""
        row = self._conn.execute(
            "INSERT INTO mutirao_worker"
            " (name, host, pid, concurrency, version, expires_at, queues, exclude_queues, tasks)"
            " VALUES ('w', 'h', 1, 1, '0', statement_timestamp() + interval '1 hour',"
            " %s::json, %s::json, %s::json) RETURNING id",
            [
                json.dumps(serves[name]) if name in serves else None
                for name in ("queues", "exclude_queues", "tasks")
            ],
        ).fetchone()
        assert row is not None
        return int(row[0])

    def say(self, statement: str) -> None:
        """Execute a statement."""
        self._conn.execute(statement)

    def wakes(self) -> list[Wake]:
        """Return what the notifications so far say."""
        return [parse(payload) for payload in self.heard()]

    def heard(self) -> list[str]:
        """Return everything notified so far, up to a notification of our own."""
        self._conn.execute("SELECT pg_notify('mutirao', 'end')")
        deadline = time.monotonic() + 30
        while "end" not in self._payloads:
            assert time.monotonic() < deadline, f"heard only {self._payloads}"
            self._conn.execute("SELECT 1")
        *payloads, _ = self._payloads
        self._payloads.clear()
        return payloads

    def close(self) -> None:
        """Hang up."""
        self._conn.close()


@pytest.fixture
def listener(observer: Observer) -> Iterator[Listener]:
    """Somebody who hears notifications, and is not registered yet."""
    listening = Listener(observer.url.replace("+psycopg", ""))
    yield listening
    listening.close()


def lane(job: NewJob) -> str:
    """Return the notification of one lane: for all, priority, run_at in microseconds, queue."""
    assert job.run_at is not None
    return f"* {job.priority} {int(job.run_at.timestamp()) * 1_000_000} {job.queue}"


def in_one_lane(size: int) -> list[NewJob]:
    """Return jobs of one lane whose earliest is the last."""
    due = [SOON + timedelta(seconds=size - n) for n in range(size)]
    return [NewJob(task="t", queue="my mail", priority=-4, run_at=at) for at in due]


@sizes
@kinds(Psycopg, Asyncpg, AlchemyConnection, AlchemyAsyncpg)
async def test_once_at_commit(holder: Holder, listener: Listener, size: int) -> None:
    """Told which lane and from when on, when the jobs can be seen and not before."""
    listener.register()
    jobs = in_one_lane(size)
    await holder.enqueue(jobs)
    assert listener.heard() == []
    await holder.commit()
    assert listener.heard() == [lane(jobs[-1])]


@sizes
@kinds(Psycopg, Asyncpg)
async def test_not_after_a_rollback(holder: Holder, listener: Listener, size: int) -> None:
    """Jobs that never were wake nobody."""
    listener.register()
    await holder.enqueue(in_one_lane(size))
    await holder.rollback()
    assert listener.heard() == []


@pytest.mark.parametrize("size", [2, MANY])
@kinds(Psycopg, AsyncpgAutocommit)
async def test_several_lanes(holder: Holder, listener: Listener, size: int) -> None:
    """One notification all the same: it names no lane, and means all of them."""
    listener.register()
    await holder.enqueue([*in_one_lane(size), NewJob(task="t", queue="my mail")])
    await holder.commit()
    assert listener.heard() == [""]


@sizes
@kinds(PsycopgAutocommit)
async def test_spared_while_nobody_listens(holder: Holder, listener: Listener, size: int) -> None:
    """A notification slows every commit of the database down: not sent for nobody."""
    await holder.enqueue(in_one_lane(size))
    assert listener.heard() == []


@sizes
@kinds(PsycopgAutocommit)
async def test_due_now(holder: Holder, observer: Observer, listener: Listener, size: int) -> None:
    """A job without a time wakes for the moment at which it is due."""
    listener.register()
    await holder.enqueue([NewJob(task="t")] * size)
    [payload] = listener.heard()
    whom, priority, micros, queue = payload.split(" ", 3)
    assert (whom, priority, queue) == ("*", "0", "default")
    assert int(micros) == round(observer.jobs()[0].due.timestamp() * 1_000_000)


@kinds(PsycopgAutocommit)
async def test_one_of_many_looks_at_once(holder: Holder, listener: Listener) -> None:
    """The next job is for another worker; three others look later, from all over the list."""
    workers = [listener.register() for _ in range(8)]
    for _ in range(8):
        await holder.enqueue([NewJob(task="t")])
    wakes = listener.wakes()
    first = [workers.index(*wake.first or ()) for wake in wakes]
    assert all(a != b for a, b in pairwise(first))
    places = [[workers.index(each) for each in wake.then] for wake in wakes]
    assert places == [[(place + step) % 8 for step in (2, 4, 6)] for place in first]
    assert {wake.newest for wake in wakes} == {workers[-1]}


@pytest.mark.parametrize("between", [0, 1, 2, 3, 7])
@kinds(PsycopgAutocommit)
async def test_each_gets_its_share(holder: Holder, listener: Listener, between: int) -> None:
    """Whatever jobs come between that others look for, as those of another lane."""
    workers = [listener.register() for _ in range(8)]
    for _ in range(20):
        await holder.enqueue([NewJob(task="t")])
        for _ in range(between):
            listener.say("SELECT mutirao_next_id()")
    assert {wake.first for wake in listener.wakes()} == {(worker,) for worker in workers}


@pytest.mark.parametrize("name", ["caf\udce9", "\0"])
@kinds(PsycopgAutocommit)
async def test_a_name_that_no_text_has(holder: Holder, listener: Listener, name: str) -> None:
    """No worker can be written down with it, so nobody's enqueueing meets it."""
    listener.register()
    with pytest.raises(psycopg.DataError):
        listener.register(exclude_queues=[name])
    await holder.enqueue([NewJob(task="t")])
    assert len(listener.heard()) == 1


@kinds(PsycopgAutocommit)
async def test_as_many_as_there_are_jobs(holder: Holder, listener: Listener) -> None:
    """In one lane; all where there are as many jobs as workers, or jobs of several lanes."""
    workers = {listener.register() for _ in range(8)}
    await holder.enqueue([NewJob(task="t"), NewJob(task="t"), NewJob(task="u")])
    await holder.enqueue([NewJob(task="t")] * 8)
    await holder.enqueue([NewJob(task="t"), NewJob(task="t", priority=1)])
    some, everybody, everywhere = listener.wakes()
    assert some.first is not None
    assert {*some.first, *some.then} < workers
    assert (len(set(some.first)), len({*some.first, *some.then})) == (3, 6)
    assert (everybody.queue, everybody.first) == ("default", None)
    assert everywhere == Wake()


@kinds(PsycopgAutocommit)
async def test_those_who_serve_it(holder: Holder, listener: Listener) -> None:
    """Workers of other queues or of other tasks are not named; where only they are idle, nobody."""
    listener.register(queues=["mail"])
    listener.register(exclude_queues=["default", "x"])
    listener.register(tasks=["other", "t2"])
    await holder.enqueue([NewJob(task="t")])
    await holder.enqueue([NewJob(task="t")] * 2)
    assert listener.heard() == []
    serving = {
        listener.register(),
        listener.register(queues=["x", "default"]),
        listener.register(exclude_queues=["mail"]),
        listener.register(tasks=["t"]),
    }
    await holder.enqueue([NewJob(task="t")])
    await holder.enqueue([NewJob(task="t", fair_by="n", args='{"n": 1}')])
    wakes = listener.wakes()
    assert [{*(wake.first or ()), *wake.then} for wake in wakes] == [serving, serving]


@kinds(PsycopgAutocommit)
async def test_of_any_task(holder: Holder, listener: Listener) -> None:
    """Where it is not known whose task it is, and some serve only certain ones: all look."""
    workers = [listener.register(), listener.register()]
    said = "SELECT mutirao_wake('default', 0, statement_timestamp(), 2)"
    listener.say(said)
    listener.register(tasks=["t"])
    listener.say(said)
    assert [wake.first for wake in listener.wakes()] == [(workers[0],), None]
