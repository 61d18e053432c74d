"""Workers and programs with a hub: who is woken, and what happens while the hub is away."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from mutirao import Mutirao, NewJob
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import ConfigurationError, InvalidJob
from mutirao.hub.address import parse_address
from mutirao.hub.looking import LookedAt
from mutirao.hub.protocol import Serves, WakeLine
from mutirao.hub.service import HubSettings, serving
from mutirao.model.jobs.job import LaneHead, Wake
from mutirao.notifiers.hub import HubNotifier
from mutirao.notifiers.hub_client import HubClient
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.notifier import listening
from tests.integration.worker.kit import ended, never_polling
from tests.support.engine import SELDOM, EmbeddedWorker, Hearing
from tests.support.hubs import hub, hub_process
from tests.support.postgresql import PostgresServer
from tests.support.servers import free_port
from tests.support.waiting import soon, until


async def nothing() -> None:
    """Do nothing."""


def with_hub(url: str, place: str | None = None) -> Mutirao:
    """Return an application with one task, and a hub."""
    app = Mutirao(url, hub=place)
    app.task(nothing)
    return app


@pytest.fixture
async def place() -> AsyncIterator[str]:
    """A hub that looks at nothing: it knows what it is told."""
    async with hub() as place:
        yield place


async def hears(worker: EmbeddedWorker, expected: bool) -> None:
    """Wait until wake-ups reach a worker, or do not."""
    await until(lambda: worker.health().hears is expected)


async def test_a_session_tells_when_it_commits(lite_url: str, place: str) -> None:
    """Not before, nor when a savepoint is released; each commit tells again."""
    app = with_hub(lite_url, place)
    job = NewJob(task="nothing", queue="mail")
    engine = create_engine(lite_url)
    notifier = HubNotifier(parse_address(place), app.hub_name, Serves())
    async with listening(notifier) as wakes:
        with Session(engine) as session:
            for _ in range(2):
                with session.begin_nested():
                    app.submit(job, session)
                app.submit(job, session)
                app.wake("before the commit")
                session.commit()
                assert (await soon(anext(wakes))).queue == "before the commit"
                assert (await soon(anext(wakes))).queue == "mail"
            app.submit(job, session)
            session.rollback()
        app.wake("after the rollback")
        assert (await soon(anext(wakes))).queue == "after the rollback"
    engine.dispose()
    await app.aclose()


async def test_an_asynchronous_session_tells_too(lite_url: str, place: str) -> None:
    """And so does what an application writes in a transaction of its own, by each call."""
    app = with_hub(lite_url, place)
    engine = create_async_engine(lite_url.replace("sqlite:", "sqlite+aiosqlite:"))
    notifier = HubNotifier(parse_address(place), app.hub_name, Serves())
    async with listening(notifier) as wakes:
        async with AsyncSession(engine) as session, session.begin():
            await app.asubmit(NewJob(task="nothing", queue="async"), session)
        assert (await soon(anext(wakes))).queue == "async"
        [id] = await app.aenqueue_many(NewJob(task="nothing", queue="many") for _ in range(1))
        assert (await soon(anext(wakes))).queue == "many"
        await app.aretry(id)
        assert await soon(anext(wakes)) == Wake()
    await engine.dispose()
    await app.aclose()


async def test_whoever_commits_may_tell(lite_url: str, place: str) -> None:
    """`wake`, after a commit of which nobody learns; and with names that no queue has, an error."""
    app = with_hub(lite_url, place)
    async with never_polling(app) as worker:
        await hears(worker, True)
        with closing(sqlite3.connect(app.database.removeprefix("sqlite:///"))) as connection:
            handle = app.submit(NewJob(task="nothing"), connection)
            connection.commit()
        app.wake()
        await soon(ended(app, handle.id))
    with pytest.raises(InvalidJob, match="queue name"):
        app.wake("")
    await app.aclose()


async def test_the_environment_says_where_it_is(
    lite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read when it is first needed, not before."""
    app, without = with_hub(lite_url), Mutirao(lite_url)
    without.wake()
    async with hub(token="secret") as place:
        monkeypatch.setenv("MUTIRAO_HUB", place)
        monkeypatch.setenv("MUTIRAO_HUB_TOKEN", "secret")
        async with never_polling(app) as worker:
            await hears(worker, True)
            await soon(ended(app, (await app.asubmit(NewJob(task="nothing"))).id))
        await app.aclose()
    monkeypatch.setenv("MUTIRAO_HUB", "hub:8770")
    with pytest.raises(ConfigurationError, match="give one like"):
        Mutirao(lite_url).enqueue_many([NewJob(task="nothing")])


def test_a_hub_beside_a_store_is_refused(lite_url: str) -> None:
    """And so is what is no URL of a hub."""
    with pytest.raises(ConfigurationError, match="hub= and a store"):
        Mutirao(store=SqlStore(lite_url), hub="tcp://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="begins with 'http'"):
        Mutirao(lite_url, hub="http://hub")


async def test_while_the_hub_is_away_workers_poll(
    lite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Killed, then frozen, then back: jobs are done each time, and the log says each once."""
    bind = f"127.0.0.1:{free_port()}"
    app = with_hub(lite_url, f"tcp://{bind}")
    async with app.worker(poll=0.4) as worker:
        for stop in ("kill", "freeze"):
            with hub_process("--database", lite_url, bind=bind) as process:
                await hears(worker, True)
                await soon(ended(app, app.submit(NewJob(task="nothing")).id))
                getattr(process, stop)()
                await soon(ended(app, app.submit(NewJob(task="nothing")).id))
                await hears(worker, False)
                await soon(ended(app, app.submit(NewJob(task="nothing")).id))
        with hub_process(bind=bind):
            await hears(worker, True)
            records = [*caplog.records]
    said = [record.getMessage() for record in records if record.levelname == "WARNING"]
    listened = [each for each in said if each.startswith("cannot listen")]
    assert len(listened) == said.count("the hub is back; listening again") >= 2
    assert app.worker().health().hears is None
    await app.aclose()


async def test_a_deaf_hub_does_not_keep_anybody_waiting() -> None:
    """Neither one that never answers nor one that is not there: what is too much is dropped."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as deaf:
        for port in (deaf.getsockname()[1], 1):
            client = HubClient(parse_address(f"tcp://127.0.0.1:{port}"), "shop")
            began = time.thread_time()
            for n in range(5_000):
                client.send(hint(n))
            assert time.thread_time() - began < 1.0  # 0.01 s; of this thread's own
            assert client._waiting.qsize() <= 1_000
            client.close()


def hint(number: int) -> WakeLine:
    """Return a hint that no other number has."""
    return WakeLine(f"q-{number}")


async def test_a_fork_tells_too(place: str) -> None:
    """With a thread of its own."""
    notifier = HubNotifier(parse_address(place), "shop", Serves())
    client = HubClient(parse_address(place), "shop")
    async with listening(notifier) as wakes:
        client.send(hint(1))
        assert (await soon(anext(wakes))).queue == "q-1"
        child = os.fork()
        if not child:
            client.send(hint(2))
            client.flush(10.0)
            os._exit(0)
        assert (await soon(anext(wakes))).queue == "q-2"
        await asyncio.to_thread(os.waitpid, child, 0)
    await asyncio.to_thread(client.close)


class Chooser:
    """A notifier that chooses whom it wakes."""

    complete = True

    def attend(self, idle: bool) -> None:
        """Heed nothing."""

    async def listen(self) -> AsyncIterator[Wake]:
        """Say that it listens, and nothing more."""
        yield Wake()
        await asyncio.Event().wait()


def test_workers_poll_seldom_while_the_hub_looks() -> None:
    """As usual while it does not: what others commit would be found later."""
    chooser, settings = Chooser(), WorkerSettings(poll=2.0)
    hearing = Hearing(chooser, settings)
    assert hearing.poll == 2.0 * SELDOM
    chooser.complete = False
    assert hearing.poll == Hearing(None, settings).poll == 2.0


async def test_one_look_serves_the_fleet(lite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle workers read nothing of the lanes while the hub looks at them."""
    read = SqlStore.lanes
    readers: list[int] = []

    async def counted(store: SqlStore, *args: object, **named: object) -> list[LaneHead]:
        readers.append(id(store))
        return await read(store, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(SqlStore, "lanes", counted)
    own = SqlStore(lite_url)
    looker = LookedAt(own.engines.called, own)
    async with serving(HubSettings(bind="127.0.0.1:0", every=0.02), [looker]) as place:
        app = with_hub(lite_url, place)
        notifier = HubNotifier(parse_address(place), app.hub_name, Serves())
        async with listening(notifier) as wakes:
            while not notifier.complete:
                await soon(anext(wakes))
        async with app.worker(poll=0.5) as one, app.worker(poll=0.5) as two:
            await hears(one, True)
            await hears(two, True)
            await until(lambda: len(readers) > 20)
            readers.clear()
            since = time.monotonic()
            await until(lambda: readers.count(id(own)) > 100)
            seldom = (time.monotonic() - since) / (0.5 * SELDOM)  # how often each of them polls
            assert len(readers) - readers.count(id(own)) <= 2 + 2 * seldom
        await app.aclose()


async def test_a_database_that_is_away(
    postgres: PostgresServer, pg_url: str, lite_url: str
) -> None:
    """Its workers learn that nobody looks; others are looked at all the same."""
    gone = SqlStore(pg_url.replace(f":{postgres.port}/", ":1/"))
    here = SqlStore(lite_url)
    watched = [LookedAt("gone", gone), LookedAt("here", here)]
    async with serving(HubSettings(bind="127.0.0.1:0", every=0.02), watched) as place:
        for name, complete in (("gone", False), ("here", True)):
            notifier = HubNotifier(parse_address(place), name, Serves())
            wakes = notifier.listen()
            await soon(anext(wakes))
            if complete and not notifier.complete:
                await soon(anext(wakes))
            assert notifier.complete is complete
            await wakes.aclose()
