"""BEGIN travels with the first statement of a handler, which is in the transaction in any case."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from mutirao.model.jobs.job import Gives, JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import due, job_of, join, put, take_one
from mutirao_conformance.transactions import Watched

PLAIN = "INSERT INTO receipt VALUES (1)"
VALUES = "INSERT INTO receipt VALUES (%s)"
CALLED = "WITH w AS (INSERT INTO receipt VALUES (1) RETURNING id) SELECT * FROM w"


class Failed(Exception):
    """What a handler raises."""


def _plain(own: Any) -> None:
    own.execute(PLAIN)


def _of_values(own: Any) -> None:
    own.execute(VALUES, (1,))


def _prepared(own: Any) -> None:
    own.execute(PLAIN, prepare=True)


def _several(own: Any) -> None:
    own.execute(f"SELECT 1; {PLAIN}")


def _many(own: Any) -> None:
    own.cursor().executemany(VALUES, [(1,)])


def _copied(own: Any) -> None:
    with own.cursor().copy("COPY receipt FROM STDIN") as copy:
        copy.write_row((1,))


def _streamed(own: Any) -> None:
    list(own.cursor().stream("INSERT INTO receipt VALUES (1) RETURNING id"))


def _in_a_block(own: Any) -> None:
    with own.transaction():
        own.execute(PLAIN)


def _in_a_pipeline(own: Any) -> None:
    with own.pipeline():
        own.execute(PLAIN)


def _by_another_cursor(own: Any) -> None:
    psycopg.ClientCursor(own).execute(VALUES, (1,))


def _after_a_server_s_cursor(own: Any) -> None:
    with own.cursor("walk") as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchall()
    own.execute(PLAIN)


def _after_what_is_refused(own: Any) -> None:
    with pytest.raises(psycopg.ProgrammingError, match="can't change 'autocommit' now"):
        own.autocommit = True
    own.execute(PLAIN)


FIRST = [
    *(_plain, _of_values, _prepared, _several, _many, _copied, _streamed, _in_a_block),
    *(_in_a_pipeline, _by_another_cursor, _after_a_server_s_cursor, _after_what_is_refused),
]


async def _async_plain(own: Any) -> None:
    await own.execute(PLAIN)


async def _async_of_values(own: Any) -> None:
    await own.execute(VALUES, (1,))


async def _async_prepared(own: Any) -> None:
    await own.execute(PLAIN, prepare=True)


async def _async_copied(own: Any) -> None:
    async with own.cursor().copy("COPY receipt FROM STDIN") as copy:
        await copy.write_row((1,))


async def _async_in_a_block(own: Any) -> None:
    async with own.transaction():
        await own.execute(PLAIN)


async def _async_in_a_pipeline(own: Any) -> None:
    async with own.pipeline():
        await own.execute(PLAIN)


AFIRST = [
    *(_async_plain, _async_of_values, _async_prepared),
    *(_async_copied, _async_in_a_block, _async_in_a_pipeline),
]


class Bench:
    """A store of one connection, seen from outside."""

    def __init__(self, url: str) -> None:
        self.store = SqlStore(url, pool_size=1)
        self.outside = psycopg.connect(url.replace("+psycopg", ""), autocommit=True)
        self.outside.execute("CREATE TABLE receipt (id integer)")

    async def transaction(self, gives: Gives = "driver") -> Any:
        """Return the transaction of a job that is enqueued and claimed."""
        await put(self.store, due())
        claim = await take_one(self.store, await join(self.store, now=None))
        return self.store.transaction(job_of(claim), Watched(), gives=gives)

    def receipts(self) -> int:
        """Return how many rows are committed."""
        [(count,)] = self.outside.execute("SELECT count(*) FROM receipt").fetchall()
        return int(count)

    async def states(self) -> list[JobState]:
        """Return the states of all jobs, the oldest last."""
        return [job.state for job in await self.store.jobs(JobFilter())]


@pytest.fixture
async def bench(migrated_postgresql_url: str) -> AsyncIterator[Bench]:
    """A store with a table beside it."""
    bench = Bench(migrated_postgresql_url)
    yield bench
    bench.outside.close()
    await bench.store.close()


@pytest.mark.parametrize("first", FIRST)
async def test_is_in_the_transaction(bench: Bench, first: Callable[[Any], None]) -> None:
    """Nothing of it is seen before the end, and nothing stays if the block raises."""
    for _ in range(2):  # the second time on a connection that was used
        before = bench.receipts()
        with await bench.transaction() as own:
            first(own)
            assert bench.receipts() == before
            assert own.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        assert bench.receipts() == before + 1
        with pytest.raises(Failed), await bench.transaction() as own:  # noqa: PT012
            first(own)
            raise Failed
        assert bench.receipts() == before + 1
    assert (await bench.states()).count(JobState.SUCCEEDED) == 2


@pytest.mark.parametrize("first", AFIRST)
async def test_is_in_the_transaction_of_a_coroutine(
    bench: Bench, first: Callable[[Any], Any]
) -> None:
    """Likewise."""
    for _ in range(2):
        before = bench.receipts()
        async with await bench.transaction() as own:
            await first(own)
            assert bench.receipts() == before
        assert bench.receipts() == before + 1
        with pytest.raises(Failed):  # noqa: PT012
            async with await bench.transaction() as own:
                await first(own)
                raise Failed
        assert bench.receipts() == before + 1
    assert (await bench.states()).count(JobState.SUCCEEDED) == 2


@pytest.mark.parametrize("gives", ["driver", "session", "connection"])
async def test_none_at_all(bench: Bench, gives: Gives) -> None:
    """A handler that says nothing completes its job; one that raises does not."""
    with await bench.transaction(gives):
        pass
    async with await bench.transaction(gives):
        pass
    with pytest.raises(Failed), await bench.transaction(gives):
        raise Failed
    with pytest.raises(Failed):
        async with await bench.transaction(gives):
            raise Failed
    done, running = JobState.SUCCEEDED, JobState.RUNNING
    assert sorted(await bench.states()) == sorted([done, done, running, running])


@pytest.mark.parametrize("again", [PLAIN, "INSERT INTO receipt VALUES (%(id)s)"])
async def test_that_is_refused(bench: Bench, again: str) -> None:
    """Its error is the driver's; the transaction has failed, and the next one is another."""
    values = {"id": 1} if "%" in again else None
    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero), await bench.transaction() as own:
            own.execute("SELECT 1 / %s", (0,))
        with pytest.raises(psycopg.errors.UndefinedTable), await bench.transaction() as own:
            own.execute("INSERT INTO nowhere VALUES (%s)", (1,), prepare=True)
        with await bench.transaction() as own:
            own.execute(again, values, prepare=True)
    assert bench.receipts() == 3


async def test_what_it_returns(bench: Bench) -> None:
    """Its own rows, however it travels."""
    for _ in range(3):
        with await bench.transaction() as own:
            assert own.execute("SELECT %s::int, 'x'", (7,), prepare=True).fetchall() == [(7, "x")]
            assert own.execute(CALLED).fetchall() == [(1,)]
