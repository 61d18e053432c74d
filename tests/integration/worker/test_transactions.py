"""`job.transaction()`: writes, child jobs and the job's completion in one commit, or none of it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from mutirao import Job, JobRecord, JobState, Mutirao, Retry
from mutirao.errors import StaleRun, WrongState
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.waiting import soon, until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/transactions.py"
)

INSERT = text("INSERT INTO receipt VALUES (1)")
AGAIN = Retry.fixed(2, interval=0)
KINDS = ["coroutine", "plain"]
GIVES = ["session", "connection", "driver"]
PLAIN_INSERT = "INSERT INTO receipt VALUES (1)"


@pytest.fixture
def shop(app: Mutirao) -> Iterator[Shop]:
    """A program with a table of its own."""
    with Shop(app).opened() as shop:
        yield shop


class Shop:
    """The application's database, seen from outside."""

    def __init__(self, app: Mutirao) -> None:
        self.app = app
        self._engine = create_engine(app.url)

    @contextmanager
    def opened(self) -> Iterator[Shop]:
        """Make the table; close the connections at the end."""
        with self._engine.begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS receipt"))
            connection.execute(text("CREATE TABLE receipt (id integer)"))
        yield self
        self._engine.dispose()

    def receipts(self) -> int:
        """Return how many there are."""
        with self._engine.connect() as connection:
            return int(connection.scalar(text("SELECT count(*) FROM receipt")) or 0)


@asynccontextmanager
async def writing(job: Job, gives: str) -> AsyncIterator[Any]:
    """Open the transaction of a coroutine, and write a row."""
    if gives == "session":
        async with job.transaction() as session:
            assert isinstance(session, AsyncSession)
            await session.execute(INSERT)
            yield session
    elif gives == "driver":
        async with job.transaction(connection=True) as own:
            assert isinstance(own, (psycopg.AsyncConnection, aiosqlite.Connection))
            await own.execute(PLAIN_INSERT)
            yield own
    else:
        async with job.transaction(session=False) as connection:
            assert isinstance(connection, AsyncConnection)
            await connection.execute(INSERT)
            yield connection


@contextmanager
def writing_plainly(job: Job, gives: str) -> Iterator[Any]:
    """Open the transaction of a plain handler, and write a row."""
    if gives == "session":
        with job.transaction() as session:
            assert isinstance(session, Session)
            session.execute(INSERT)
            yield session
    elif gives == "driver":
        with job.transaction(connection=True) as own:
            assert isinstance(own, (psycopg.Connection, sqlite3.Connection))
            own.execute(PLAIN_INSERT)
            yield own
    else:
        with job.transaction(session=False) as connection:
            assert isinstance(connection, Connection)
            connection.execute(INSERT)
            yield connection


@pytest.mark.parametrize("gives", GIVES)
@pytest.mark.parametrize("kind", KINDS)
async def test_one_commit(shop: Shop, kind: str, gives: str) -> None:
    """Within it nothing is seen from outside; after it the rows, the children and the success."""
    app, inside, go = shop.app, threading.Event(), threading.Event()

    @app.task
    async def child(n: int) -> None:
        pass

    @app.task
    async def coroutine(job: Job) -> None:
        async with writing(job, gives) as given:
            await child.using(conn=given, delay=3600).aenqueue(1)
            await app.aenqueue_many([child.using(delay=3600).job(2)], conn=given)
            inside.set()
            await until(go.is_set)

    @app.task
    def plain(job: Job) -> None:
        with writing_plainly(job, gives) as given:
            child.using(conn=given, delay=3600).enqueue(1)
            app.enqueue_many([child.using(delay=3600).job(2)], conn=given)
            inside.set()
            go.wait(100)

    async with working(app):
        id = {"coroutine": coroutine, "plain": plain}[kind].enqueue().id
        await until(inside.is_set)
        before = (shop.receipts(), len(await app.ajobs()), (await app.ajob(id)).state)
        go.set()
        job = await ended(app, id)
        after = (shop.receipts(), len(await app.ajobs()))
    assert before == (0, 1, JobState.RUNNING)
    assert after == (1, 3)
    assert (job.state, outcomes(job)) == (JobState.SUCCEEDED, ["succeeded"])
    assert job.attempts[0].started_at <= job.attempts[0].finished_at


@pytest.mark.parametrize("gives", GIVES)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_exception_inside(shop: Shop, kind: str, gives: str) -> None:
    """Rolls everything back; the attempt has failed and is retried."""
    app = shop.app

    @app.task
    async def child() -> None:
        raise AssertionError

    @app.task(retry=AGAIN)
    async def coroutine(job: Job) -> None:
        async with writing(job, gives) as given:
            if job.attempt == 1:
                await child.using(conn=given).aenqueue()
                raise ValueError("after the writes")

    @app.task(retry=AGAIN)
    def plain(job: Job) -> None:
        with writing_plainly(job, gives) as given:
            if job.attempt == 1:
                child.using(conn=given).enqueue()
                raise ValueError("after the writes")

    async with working(app):
        job = await ended(app, {"coroutine": coroutine, "plain": plain}[kind].enqueue().id)
    assert outcomes(job) == ["retried", "succeeded"]
    assert job.attempts[0].error_type == "ValueError"
    assert (shop.receipts(), len(await app.ajobs())) == (1, 1)


@pytest.mark.parametrize("gives", GIVES)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_stale_run(shop: Shop, kind: str, gives: str) -> None:
    """Raises before the commit, and nothing of it lands: neither rows nor children."""
    app = shop.app
    raised: list[BaseException] = []

    @app.task
    async def child() -> None:
        raise AssertionError

    @app.task
    async def coroutine(job: Job) -> None:
        if job.run == 1:
            await take_away(app, job)
            with catching(raised):
                async with writing(job, gives) as given:
                    await child.using(conn=given).aenqueue()

    @app.task
    def plain(job: Job) -> None:
        if job.run == 1:
            asyncio.run_coroutine_threadsafe(take_away(app, job), loop).result(30)
            with catching(raised), writing_plainly(job, gives) as given:
                child.using(conn=given).enqueue()

    loop = asyncio.get_running_loop()
    async with working(app):
        id = {"coroutine": coroutine, "plain": plain}[kind].enqueue().id
        await until(lambda: raised)
        job = await ended(app, id)
    assert [type(error) for error in raised] == [StaleRun]
    assert "its writes were rolled back" in str(raised[0])
    assert outcomes(job) == ["succeeded"]
    assert (shop.receipts(), len(await app.ajobs())) == (0, 1)


async def take_away(app: Mutirao, job: Job) -> None:
    """Make the job wait again, so that the next claim has another run."""
    assert await app.store.release([(job.id, job.run)]) == {job.id}


@contextmanager
def catching(raised: list[BaseException]) -> Iterator[None]:
    """Keep what is raised, and let it go on."""
    try:
        yield
    except BaseException as error:
        raised.append(error)
        raise


async def test_taken_away_while_it_is_open(pg_app: Mutirao) -> None:
    """It is the commit that counts, not the beginning."""
    with Shop(pg_app).opened() as shop:
        raised: list[BaseException] = []

        @pg_app.task
        async def send(job: Job) -> None:
            if job.run == 1:
                with catching(raised):
                    async with job.transaction() as session:
                        await session.execute(INSERT)
                        await take_away(pg_app, job)

        async with working(pg_app):
            job = await ended(pg_app, send.enqueue().id)
            await until(lambda: raised)
        assert [type(error) for error in raised] == [StaleRun]
        assert (outcomes(job), shop.receipts()) == (["succeeded"], 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stale_run_that_is_not(app: Mutirao, kind: str) -> None:
    """A handler that raises StaleRun by itself does not lose its job."""

    @app.task(max_attempts=2)
    async def coroutine(job: Job) -> None:
        if job.attempt == 1:
            raise StaleRun("of another job, perhaps")

    @app.task(max_attempts=2)
    def plain(job: Job) -> None:
        if job.attempt == 1:
            raise StaleRun("of another job, perhaps")

    async with working(app):
        job = await ended(app, {"coroutine": coroutine, "plain": plain}[kind].enqueue().id)
    assert outcomes(job) == ["retried", "succeeded"]


@pytest.mark.parametrize("gives", GIVES)
@pytest.mark.parametrize("kind", KINDS)
async def test_the_handler_s_own_commit(shop: Shop, kind: str, gives: str) -> None:
    """Does not break the promise: what fails afterwards takes everything with it."""
    app = shop.app

    @app.task(max_attempts=1)
    async def coroutine(job: Job) -> None:
        async with writing(job, gives) as given:
            await given.commit()
            await given.execute(INSERT)
            raise ValueError("too late?")

    @app.task(max_attempts=1)
    def plain(job: Job) -> None:
        with writing_plainly(job, gives) as given:
            given.commit()
            given.execute(INSERT)
            raise ValueError("too late?")

    async with working(app):
        job = await ended(app, {"coroutine": coroutine, "plain": plain}[kind].enqueue().id)
    assert (outcomes(job), shop.receipts()) == (["dead"], 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_handler_s_own_commit_of_a_session(shop: Shop, kind: str) -> None:
    """Code that commits, as library code does, still ends in the one commit."""
    app = shop.app

    @app.task(max_attempts=1)
    async def coroutine(job: Job) -> None:
        async with job.transaction() as session:
            for _ in range(2):
                await session.execute(INSERT)
                await session.commit()
            assert shop.receipts() == 0

    @app.task(max_attempts=1)
    def plain(job: Job) -> None:
        with job.transaction() as session:
            for _ in range(2):
                session.execute(INSERT)
                session.commit()
            assert shop.receipts() == 0

    async with working(app):
        job = await ended(app, {"coroutine": coroutine, "plain": plain}[kind].enqueue().id)
    assert (outcomes(job), shop.receipts()) == (["succeeded"], 2)


@pytest.mark.parametrize("gives", GIVES)
@pytest.mark.parametrize("kind", KINDS)
async def test_the_handler_s_own_rollback(shop: Shop, kind: str, gives: str) -> None:
    """A handler that rolls everything back has not done its work: the attempt has failed."""
    app = shop.app

    @app.task(max_attempts=1)
    async def coroutine(job: Job) -> None:
        async with writing(job, gives) as given:
            await given.rollback()

    @app.task(max_attempts=1)
    def plain(job: Job) -> None:
        with writing_plainly(job, gives) as given:
            given.rollback()

    async with working(app):
        job = await ended(app, {"coroutine": coroutine, "plain": plain}[kind].enqueue().id)
    assert (outcomes(job), shop.receipts()) == (["dead"], 0)


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_end_of_the_driver_s_connection(shop: Shop, kind: str, end: str) -> None:
    """Is refused. Who goes on after a rollback that was none has not done the work."""
    app = shop.app

    @app.task(max_attempts=1)
    async def coroutine(job: Job) -> None:
        async with writing(job, "driver") as own:
            with pytest.raises(WrongState, match="raise an exception to roll back"):
                await getattr(own, end)()
            await own.execute(PLAIN_INSERT)

    @app.task(max_attempts=1)
    def plain(job: Job) -> None:
        with writing_plainly(job, "driver") as own:
            with pytest.raises(WrongState, match="raise an exception to roll back"):
                getattr(own, end)()
            with pytest.raises(WrongState), own:
                pass
            own.execute(PLAIN_INSERT)

    async with working(app):
        job = await ended(app, {"coroutine": coroutine, "plain": plain}[kind].enqueue().id)
    found = (outcomes(job), shop.receipts())
    assert found == ((["succeeded"], 2) if end == "commit" else (["dead"], 0))


@pytest.mark.parametrize("kind", KINDS)
async def test_an_end_in_sql(shop: Shop, kind: str) -> None:
    """Whoever ends it past the driver has not completed the job."""
    app = shop.app

    @app.task(max_attempts=1)
    async def coroutine(job: Job) -> None:
        async with writing(job, "driver") as own:
            await own.execute("ROLLBACK")

    @app.task(max_attempts=1)
    def plain(job: Job) -> None:
        with writing_plainly(job, "driver") as own:
            own.execute("ROLLBACK")

    async with working(app):
        job = await ended(app, {"coroutine": coroutine, "plain": plain}[kind].enqueue().id)
    assert (outcomes(job), shop.receipts()) == (["dead"], 0)
    assert job.attempts[0].error_type == "WrongState"


async def test_asyncpg_s_own_connection(pg_url: str) -> None:
    """Its own transactions are savepoints inside."""
    app = Mutirao(make_url(pg_url).set(drivername="postgresql+asyncpg"))
    with Shop(Mutirao(pg_url)).opened() as shop:

        @app.task(max_attempts=2, retry=AGAIN)
        async def send(job: Job) -> None:
            async with job.transaction(connection=True) as own:
                assert isinstance(own, asyncpg.Connection)
                await own.execute(PLAIN_INSERT)
                with suppress(ValueError):
                    async with own.transaction():
                        await own.execute(PLAIN_INSERT)
                        raise ValueError("alone")
                await send.using(conn=own, delay=3600).aenqueue()
                if job.attempt == 1:
                    raise ValueError("after the writes")

        async with working(app):
            job = await ended(app, (await send.aenqueue()).id)
        assert (outcomes(job), shop.receipts()) == (["retried", "succeeded"], 1)
        assert len(await app.ajobs()) == 2
        await app.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lost_connection(pg_app: Mutirao, kind: str) -> None:
    """Is replaced, and the attempt is not to blame for it."""
    end = "SELECT pg_terminate_backend(pg_backend_pid())"
    with Shop(pg_app).opened() as shop:

        @pg_app.task(max_attempts=1)
        async def coroutine(job: Job) -> None:
            async with writing(job, "driver") as own:
                if job.run == 1:
                    await own.execute(end)

        @pg_app.task(max_attempts=1)
        def plain(job: Job) -> None:
            with writing_plainly(job, "driver") as own:
                if job.run == 1:
                    own.execute(end)

        async with working(pg_app):
            task = {"coroutine": coroutine, "plain": plain}[kind]
            job = await ended(pg_app, task.enqueue().id)
        assert (outcomes(job)[-1], shop.receipts()) == ("succeeded", 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_savepoints(shop: Shop, kind: str) -> None:
    """May fail alone."""
    app = shop.app

    @app.task(max_attempts=1)
    async def coroutine(job: Job) -> None:
        async with job.transaction() as session:
            with suppress(ValueError):
                async with session.begin_nested():
                    await session.execute(INSERT)
                    raise ValueError("alone")
            await session.execute(INSERT)

    @app.task(max_attempts=1)
    def plain(job: Job) -> None:
        with job.transaction() as session:
            with suppress(ValueError), session.begin_nested():
                session.execute(INSERT)
                raise ValueError("alone")
            session.execute(INSERT)

    async with working(app):
        job = await ended(app, {"coroutine": coroutine, "plain": plain}[kind].enqueue().id)
    assert (outcomes(job), shop.receipts()) == (["succeeded"], 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_driver_s_own_connection(pg_app: Mutirao, kind: str) -> None:
    """Beneath the connection, in the same transaction."""
    with Shop(pg_app).opened() as shop:

        @pg_app.task(max_attempts=1)
        async def coroutine(job: Job) -> None:
            async with job.transaction(session=False) as connection:
                raw: Any = (await connection.get_raw_connection()).driver_connection
                await raw.execute("INSERT INTO receipt VALUES (1)")
                assert shop.receipts() == 0

        @pg_app.task(max_attempts=1)
        def plain(job: Job) -> None:
            with job.transaction(session=False) as connection:
                raw: Any = connection.connection.driver_connection
                raw.execute("INSERT INTO receipt VALUES (1)")
                assert shop.receipts() == 0

        async with working(pg_app):
            task = {"coroutine": coroutine, "plain": plain}[kind]
            job = await ended(pg_app, task.enqueue().id)
        assert (outcomes(job), shop.receipts()) == (["succeeded"], 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_exception_after_the_commit(
    shop: Shop, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The job is done; the error is logged, not lost."""
    app = shop.app

    @app.task
    async def coroutine(job: Job) -> None:
        async with job.transaction() as session:
            await session.execute(INSERT)
        raise ValueError("afterwards")

    @app.task
    def plain(job: Job) -> None:
        with job.transaction() as session:
            session.execute(INSERT)
        raise ValueError("afterwards")

    async with working(app):
        job = await ended(app, {"coroutine": coroutine, "plain": plain}[kind].enqueue().id)
    assert (outcomes(job), shop.receipts()) == (["succeeded"], 1)
    assert "completed by its transaction, and raised afterwards" in caplog.text
    assert "ValueError: afterwards" in caplog.text


async def test_a_timeout_while_it_is_open(shop: Shop) -> None:
    """A cancelled coroutine rolls back like any that raises."""
    app = shop.app

    @app.task(retry=AGAIN, timeout=3)  # enough for the second attempt, on a slow machine
    async def send(job: Job) -> None:
        async with job.transaction() as session:
            await session.execute(INSERT)
            if job.attempt == 1:
                await asyncio.Event().wait()

    async with working(app):
        job = await ended(app, send.enqueue().id)
    assert (outcomes(job), shop.receipts()) == (["retried", "succeeded"], 1)


async def test_two_transactions(shop: Shop) -> None:
    """The first one has completed the job: the second one is stale."""
    app = shop.app
    raised: list[BaseException] = []

    @app.task
    async def send(job: Job) -> None:
        for _ in range(2):
            with catching(raised):
                async with job.transaction() as session:
                    await session.execute(INSERT)

    async with working(app):
        job = await ended(app, send.enqueue().id)
    assert (outcomes(job), shop.receipts()) == (["succeeded"], 1)
    assert [type(error) for error in raised] == [StaleRun]


async def test_entered_twice(app: Mutirao) -> None:
    """Each is for one use."""
    raised: list[BaseException] = []

    @app.task(max_attempts=1)
    async def send(job: Job) -> None:
        transaction = job.transaction()
        async with transaction:
            pass
        with catching(raised):
            async with transaction:
                pass

    async with working(app):
        job = await ended(app, send.enqueue().id)
    assert outcomes(job) == ["succeeded"]
    assert [type(error) for error in raised] == [WrongState]


async def test_jobs_enqueued_without_it(pg_app: Mutirao) -> None:
    """Stand for themselves: they stay when the transaction does not."""

    @pg_app.task
    async def child() -> None:
        pass

    @pg_app.task(max_attempts=1)
    async def send(job: Job) -> None:
        async with job.transaction():
            await child.aenqueue()
            raise ValueError

    async with working(pg_app):
        await ended(pg_app, send.enqueue().id)
        assert (await ended(pg_app, 2)).state is JobState.SUCCEEDED


async def test_history_tells_it_like_any_other_success(app: Mutirao) -> None:
    """Completed by its transaction or by returning: the rows are alike."""

    @app.task
    async def by_transaction(job: Job) -> None:
        async with job.transaction():
            pass

    @app.task
    async def by_return() -> None:
        pass

    async with working(app):
        one = await ended(app, by_transaction.enqueue().id)
        two = await ended(app, by_return.enqueue().id)
    assert [_told(one)] == [_told(two)]


def _told(record: JobRecord) -> list[object]:
    return [(a.attempt, a.run, a.worker, a.outcome, a.error) for a in record.attempts]


async def test_the_worker_goes_on_beside_an_open_transaction(pg_app: Mutirao) -> None:
    """Every slot may hold one, and claiming, settling and beating still have connections."""
    began: list[int] = []
    go = asyncio.Event()

    @pg_app.task
    async def hold(job: Job) -> None:
        async with job.transaction() as session:
            await session.execute(text("SELECT 1"))
            began.append(job.id)
            await go.wait()

    async with working(pg_app, concurrency=30):
        ids = pg_app.enqueue_many([hold.job()] * 30)
        await until(lambda: len(began) == 30)
        go.set()
        for id in ids:
            assert outcomes(await soon(ended(pg_app, id))) == ["succeeded"]
