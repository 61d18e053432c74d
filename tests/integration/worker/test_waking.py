"""How soon jobs start: an idle worker is woken, a scheduled job begins on time, without polling."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import make_url

from mutirao import Mutirao, NewJob
from mutirao.errors import NothingToRedrive, StoreUnavailable
from mutirao.model.jobs.job import LaneHead, Wake
from mutirao.ports import Notifier
from mutirao.sql.store.jobs import SqlStore
from tests.integration.worker.kit import ended, never_polling
from tests.support.engine import WINDOW_SECONDS, producer
from tests.support.postgresql import PostgresServer
from tests.support.waiting import DEADLINE, soon, until

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance/test_notifiers.py")

ONE_AFTER_ANOTHER = 30  # jobs
DRIVERS = ["psycopg", "asyncpg", "psycopg2"]


@pytest.fixture
def driven(pg_url: str) -> Callable[[str], Mutirao]:
    """Make applications on PostgreSQL by driver."""

    def make(driver: str) -> Mutirao:
        return Mutirao(pg_url.replace("+psycopg", f"+{driver}"))

    return make


async def idle(app: Mutirao) -> None:
    """Wait until the only worker is listening, and has nothing to do."""

    await until(lambda: listens(app, True))


async def listens(app: Mutirao, expected: bool) -> bool:
    """Return whether the only worker is listening, or is not."""
    return [worker.listening for worker in await app.store.workers()] == [expected]


async def test_an_idle_worker_is_woken(app: Mutirao) -> None:
    """Again and again, though it never polls."""

    @app.task
    async def send() -> None:
        pass

    async with never_polling(app):
        for _ in range(20):
            await idle(app)
            job = await soon(ended(app, send.enqueue().id))
            assert job.attempts[0].started_at > job.enqueued_at


async def test_one_after_another(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a worker that came to be slowly, among them: each is told of, and claimed, once."""
    calls = Counter[str]()

    def counted(name: str) -> None:
        method = getattr(SqlStore, name)

        async def call(*args: Any, **named: Any) -> Any:
            calls[name] += 1
            if name == "register":
                await asyncio.sleep(2 * WINDOW_SECONDS)
            return await method(*args, **named)

        monkeypatch.setattr(SqlStore, name, call)

    for name in ("register", "listen", "claim"):
        counted(name)
    began = asyncio.Event()

    @app.task
    async def send() -> None:
        began.set()

    await send.aenqueue()
    async with never_polling(app):
        for _ in range(ONE_AFTER_ANOTHER):
            await soon(began.wait())
            began.clear()
            await send.aenqueue()
        await soon(began.wait())
    assert calls["listen"] == 0
    assert (
        calls["claim"] <= 1.5 * ONE_AFTER_ANOTHER
    )  # the second look of a wake-up may find nothing


async def claims_with(url: str, notifier: Notifier) -> None:
    """Enqueue a job, and wait until a worker with this notifier, which never polls, has done it."""
    app = Mutirao(url, notifier=notifier)

    @app.task
    async def send() -> None:
        pass

    handle = await send.aenqueue()
    async with never_polling(app):
        await soon(ended(app, handle.id))
    await app.aclose()


async def test_it_listens_before_it_looks(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before it listened was not announced, so a look before that is in vain."""
    did: list[str] = []
    read = SqlStore.lanes

    async def look(*args: Any, **named: Any) -> list[LaneHead]:
        did.append("looked")
        return await read(*args, **named)

    class Listening:
        async def listen(self) -> AsyncIterator[Wake]:
            notifier = SqlStore(url).notifier()
            assert notifier is not None
            async for wake in notifier.listen():
                did.append("listened")
                yield wake

    monkeypatch.setattr(SqlStore, "lanes", look)
    monkeypatch.setattr(producer, "LISTENER_TIMEOUT", DEADLINE)
    await claims_with(url, Listening())
    assert did[:2] == ["listened", "looked"]


@pytest.mark.parametrize("fails", [True, False])
async def test_who_cannot_listen_claims(
    url: str, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """At once if that fails, a little later if it never comes about."""

    class Deaf:
        async def listen(self) -> AsyncIterator[Wake]:
            if fails:
                raise StoreUnavailable("nobody may listen here")
            await asyncio.Event().wait()
            yield Wake()

    monkeypatch.setattr(producer, "LISTENER_TIMEOUT", 10 * DEADLINE if fails else 0.01)
    await claims_with(url, Deaf())


async def test_in_any_lane(app: Mutirao) -> None:
    """Of queues and priorities that it has never seen."""

    @app.task
    async def send() -> None:
        pass

    async with never_polling(app):
        for n in range(5):
            call = send.using(queue=f"q{n}", priority=n - 2)
            await soon(ended(app, call.enqueue().id))


async def test_by_a_transaction_of_the_caller(app: Mutirao) -> None:
    """When it commits, not before."""

    @app.task
    async def send() -> None:
        pass

    async with never_polling(app):
        await idle(app)
        engine = app.store.engines.sync()  # type: ignore[attr-defined]
        with engine.begin() as connection:
            handle = send.using(conn=connection).enqueue()
        await soon(ended(app, handle.id))


async def test_by_a_transaction_from_when_it_was_busy(pg_app: Mutirao) -> None:
    """Nobody listened when the job was enqueued; the worker is idle when it is committed."""
    go = asyncio.Event()

    @pg_app.task
    async def send() -> None:
        await go.wait()

    await pg_app.aenqueue_many([send.job() for _ in range(ONE_AFTER_ANOTHER)])
    async with never_polling(pg_app, concurrency=1):
        await until(lambda: listens(pg_app, False))
        engine = pg_app.store.engines.sync()  # type: ignore[attr-defined]
        with engine.begin() as connection:
            handle = send.using(conn=connection).enqueue()
            go.set()
            await idle(pg_app)
        await soon(ended(pg_app, handle.id))


async def test_by_a_transaction_from_before_it_started(pg_app: Mutirao) -> None:
    """There was no worker when the job was enqueued."""

    @pg_app.task
    async def send() -> None:
        pass

    engine = pg_app.store.engines.sync()  # type: ignore[attr-defined]
    with engine.connect() as connection:
        handle = send.using(conn=connection).enqueue()
        async with never_polling(pg_app):
            await idle(pg_app)
            connection.commit()
            await soon(ended(pg_app, handle.id))


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_by_plain_sql(pg_app: Mutirao, driver: str) -> None:
    """Of any program, with the documented statement."""

    @pg_app.task
    async def send(order_id: int) -> None:
        pass

    url = make_url(pg_app.url).set(drivername="postgresql").render_as_string(hide_password=False)
    statement = """SELECT mutirao_enqueue('send', '{"order_id": 7}')"""
    async with never_polling(pg_app):
        for _ in range(3):
            await idle(pg_app)
            if driver == "psycopg":
                async with await psycopg.AsyncConnection.connect(url) as raw:
                    [id] = await (await raw.execute(statement)).fetchone() or [0]
            else:
                connection = await asyncpg.connect(url)
                id = await connection.fetchval(statement)
                await connection.close()
            await soon(ended(pg_app, id))


@pytest.mark.parametrize("driver", DRIVERS)
async def test_with_each_driver(driven: Callable[[str], Mutirao], driver: str) -> None:
    """A worker works and is woken whichever driver its URL names."""
    app = driven(driver)
    done: list[int] = []

    @app.task
    async def coroutine(n: int) -> None:
        done.append(n)

    @app.task
    def plain(n: int) -> None:
        done.append(n)

    async with never_polling(app):
        for n in range(3):
            await idle(app)
            for task in (coroutine, plain):
                handle = await task.aenqueue(n)
                await soon(ended(app, handle.id))
    await app.aclose()
    assert done == [0, 0, 1, 1, 2, 2]


async def test_scheduled_jobs_start_on_time(app: Mutirao) -> None:
    """Neither early nor late, those given by moment and those by delay; one after another."""
    started: dict[int, datetime] = {}

    @app.task
    async def send(n: int) -> None:
        started[n] = datetime.now(UTC)

    async with never_polling(app):
        now = datetime.now(UTC)
        due = [now + timedelta(seconds=0.3 + 0.15 * n) for n in range(6)]
        ids = [send.using(run_at=at).enqueue(n).id for n, at in enumerate(due)]
        ids.append(send.using(delay=0.5).enqueue(6).id)
        for id in ids:
            await soon(ended(app, id))
    for n, at in enumerate(due):
        assert at <= started[n] < at + timedelta(seconds=DEADLINE)
    assert sorted(started)[:6] == [0, 1, 2, 3, 4, 5]


async def test_scheduled_jobs_of_one_batch(app: Mutirao) -> None:
    """A notification names the earliest only; the others are on time all the same."""
    started: dict[int, datetime] = {}

    @app.task
    async def send(n: int) -> None:
        started[n] = datetime.now(UTC)

    async with never_polling(app):
        await idle(app)
        due = [datetime.now(UTC) + timedelta(seconds=0.3 + 0.2 * n) for n in range(5)]
        ids = app.enqueue_many(send.using(run_at=at).job(n) for n, at in enumerate(due))
        for id in ids:
            await soon(ended(app, id))
    assert all(at <= started[n] for n, at in enumerate(due))


async def test_scheduled_before_the_worker_starts(app: Mutirao) -> None:
    """What it finds waiting, it starts on time as well, the second of a lane too."""

    @app.task
    async def send() -> None:
        pass

    now = datetime.now(UTC)
    ids = app.enqueue_many(
        send.using(run_at=now + timedelta(seconds=0.5 + 0.3 * n)).job() for n in range(4)
    )
    async with never_polling(app):
        for id in ids:
            await soon(ended(app, id))


async def test_an_earlier_job_in_a_lane_that_sleeps(app: Mutirao) -> None:
    """A worker that waits for a later job hears of one that is due before it."""

    @app.task
    async def send() -> None:
        pass

    async with never_polling(app):
        send.using(delay=3600).enqueue()
        await idle(app)
        await soon(ended(app, send.enqueue().id))
        await soon(ended(app, send.using(delay=0.3).enqueue().id))


async def test_back_dated_jobs(app: Mutirao) -> None:
    """Due long before those that the lane has been read to."""

    @app.task
    async def send() -> None:
        pass

    async with never_polling(app):
        await ended(app, send.enqueue().id)
        await idle(app)
        past = datetime.now(UTC) - timedelta(days=400)
        await soon(ended(app, send.using(run_at=past).enqueue().id))


async def test_retrying_by_hand(app: Mutirao) -> None:
    """A waiting job that somebody makes due starts at once."""

    @app.task
    async def send() -> None:
        pass

    async with never_polling(app):
        id = send.using(delay=3600).enqueue().id
        await idle(app)
        assert await app.aretry(id) == [id]
        await soon(ended(app, id))


async def test_redriving_by_hand(app: Mutirao) -> None:
    """So does one that is enqueued again."""
    broken = True

    @app.task(max_attempts=1)
    async def send() -> None:
        if broken:
            raise ValueError

    async with never_polling(app):
        id = send.enqueue().id
        await ended(app, id)
        broken = False
        await idle(app)
        with pytest.raises(NothingToRedrive, match="there is no job 999: it was never"):
            await app.aredrive(999)
        [again] = await app.aredrive(id)
        await soon(ended(app, again))
        [once_more] = await app.aredrive(again)
        assert (await soon(ended(app, once_more))).redrive_of == again


async def test_polling_alone_is_enough(postgres: PostgresServer, pg_url: str) -> None:
    """Without a notifier jobs are found all the same."""
    app = Mutirao(pg_url)
    app._notifier = None

    @app.task
    async def send() -> None:
        pass

    async with app.worker(poll=0.05):
        for _ in range(3):
            await soon(ended(app, send.enqueue().id))
    await app.aclose()


async def test_a_worker_that_slept_through(app: Mutirao) -> None:
    """Many jobs in many lanes while it was busy: all are found when it has room again."""
    go = asyncio.Event()
    began = asyncio.Event()

    @app.task
    async def hold() -> None:
        began.set()
        await go.wait()

    @app.task
    async def send() -> None:
        pass

    async with never_polling(app, concurrency=1):
        first = hold.enqueue().id
        await soon(began.wait())
        ids = app.enqueue_many(
            NewJob(task="send", queue=f"q{n % 7}", priority=n % 3) for n in range(200)
        )
        go.set()
        jobs: list[Any] = [await soon(ended(app, id)) for id in (first, *ids)]
    assert len(jobs) == 201
