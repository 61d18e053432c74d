"""Many idle workers: few of them look for a job, and it starts soon all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mutirao import Mutirao
from mutirao.model.jobs.job import Claim, NewWorker
from mutirao.sql.store.jobs import SqlStore
from tests.integration.worker.kit import ended, never_polling
from tests.support.engine import producer
from tests.support.hubs import hub
from tests.support.waiting import soon, until

pytestmark = pytest.mark.repeats("sqlite", decided="tests/integration/worker/test_idle_fleet.py")

MANY = 8


@pytest.fixture
def claimers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The workers that asked for jobs, in their order."""
    asked: list[int] = []
    claim = SqlStore.claim

    async def counted(store: SqlStore, worker: int, *args: Any, **named: Any) -> list[Claim]:
        asked.append(worker)
        return await claim(store, worker, *args, **named)

    monkeypatch.setattr(SqlStore, "claim", counted)
    return asked


@asynccontextmanager
async def idle(app: Mutirao, number: int, **settings: Any) -> AsyncIterator[None]:
    """Run so many workers that never poll; begin when all of them listen."""
    async with AsyncExitStack() as stack:
        workers = [never_polling(app, **settings) for _ in range(number)]
        for worker in workers:
            await stack.enter_async_context(worker)
        await until(lambda: listening(app, number))
        await until(lambda: all(worker.health().hears for worker in workers))
        yield


async def listening(app: Mutirao, number: int) -> bool:
    """Return whether so many workers are registered, and all of them listen."""
    return [worker.listening for worker in await app.store.workers()] == [True] * number


def counted(method: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the answers to a method of stores."""
    done: list[str] = []
    original = getattr(SqlStore, method)

    async def noted(*args: Any, **named: Any) -> Any:
        answer = await original(*args, **named)
        done.append(method)
        return answer

    monkeypatch.setattr(SqlStore, method, noted)
    return done


async def frozen(app: Mutirao, number: int, **serving: Any) -> None:
    """Register workers that are said to listen, and never look for anything."""
    new = NewWorker(name="frozen", host="h", pid=1, queues=None, concurrency=1, version="0")
    for _ in range(number):
        await app.store.register(replace(new, **serving), expiry=3_600.0)


@pytest.fixture
def only_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is slow enough, a second look would come before the first one."""
    monkeypatch.setattr(producer, "SECOND_WORKER_DELAY", 30.0)


async def require_few_claims(app: Mutirao, claimers: list[int]) -> None:
    """At most two for a job, however many workers are idle; and each of them gets its share."""

    @app.task
    async def send() -> None:
        pass

    jobs = 5 * MANY
    async with idle(app, MANY):
        claimers.clear()
        for _ in range(jobs):
            await soon(ended(app, send.enqueue().id))
    assert len(claimers) <= 2 * jobs
    assert len(set(claimers)) == MANY


@pytest.mark.usefixtures("only_the_first")
async def test_claims_for_a_job(app: Mutirao, claimers: list[int]) -> None:
    """PostgreSQL names whom it wakes; in a file all know who is the one to look."""
    await require_few_claims(app, claimers)


@pytest.mark.usefixtures("only_the_first")
async def test_claims_for_a_job_with_a_hub(migrated_url: str, claimers: list[int]) -> None:
    """A hub does so on each database."""
    async with hub() as place:
        app = Mutirao(migrated_url, hub=place)
        await require_few_claims(app, claimers)
        await app.aclose()
        app.close()


async def test_a_worker_that_freezes(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that is told first does nothing, so another one runs the job, until one is left."""
    held: set[int] = set()
    go, claim = asyncio.Event(), SqlStore.claim

    async def hanging(store: SqlStore, worker: int, *args: Any, **named: Any) -> list[Claim]:
        if not go.is_set() and (worker in held or len(held) < 3):
            held.add(worker)
            await go.wait()
        return await claim(store, worker, *args, **named)

    @app.task
    async def send() -> None:
        pass

    async with idle(app, 4):
        monkeypatch.setattr(SqlStore, "claim", hanging)
        try:
            assert (await soon(ended(app, send.enqueue().id))).attempt == 1
            assert len(held) == 3
            await soon(ended(app, send.enqueue().id))
        finally:
            go.set()


@pytest.mark.parametrize("number", [1, 3])
async def test_an_outdated_list(app: Mutirao, number: int) -> None:
    """Workers that are gone, and not yet missed, are named first: one that lives looks soon."""

    @app.task
    async def send() -> None:
        pass

    async with idle(app, 1):
        await frozen(app, number)
        for _ in range(2 * (number + 1)):
            await soon(ended(app, send.enqueue().id))


async def test_others_are_not_waited_for(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of other queues and tasks, however many, are never named instead: none looks late."""

    @app.task(queue="mail")
    async def send() -> None:
        pass

    async with idle(app, 1, queues=["mail", "urgent"]):
        await frozen(app, 10, queues=("x",))
        await frozen(app, 10, exclude_queues=("mail",))
        await frozen(app, 10, tasks=("x",))
        monkeypatch.setattr(producer, "SECOND_WORKER_DELAY", 10_000.0)
        for _ in range(5):
            await soon(ended(app, send.enqueue().id))


def together(app: Mutirao, number: int) -> Callable[..., Any]:
    """Make a task whose handlers end when so many of them run."""
    running, all_run = 0, asyncio.Event()

    @app.task
    async def meet() -> None:
        nonlocal running
        running += 1
        if running == number:
            all_run.set()
        await all_run.wait()

    return meet


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_burst(app: Mutirao, at_once: bool) -> None:
    """Wakes as many as it needs: each worker runs one of the jobs, all at the same time."""
    meet: Any = together(app, MANY)
    async with idle(app, MANY, concurrency=1):
        if at_once:
            ids = app.enqueue_many(meet.job() for _ in range(MANY))
        else:
            ids = [meet.enqueue().id for _ in range(MANY)]
        for id in ids:
            assert (await soon(ended(app, id))).attempt == 1


async def test_busy_workers(app: Mutirao) -> None:
    """Those that run something are told in vain; the one that is free looks soon."""
    go = asyncio.Event()

    @app.task
    async def hold() -> None:
        await go.wait()

    @app.task
    async def send() -> None:
        pass

    async with idle(app, 3, concurrency=1):
        for _ in range(2):
            hold.enqueue()
        for _ in range(6):
            await soon(ended(app, send.enqueue().id))
        go.set()


async def test_a_list_older_than_the_workers(
    pg_app: Mutirao, pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction commits long after it named workers: those that came since look as well."""
    looked = counted("lanes", monkeypatch)

    @pg_app.task
    async def send() -> None:
        pass

    await frozen(pg_app, 5)
    with psycopg.connect(pg_url.replace("+psycopg", "")) as connection:
        row = connection.execute("SELECT mutirao_enqueue('send')").fetchone()
        assert row is not None
        async with never_polling(pg_app):
            await until(lambda: looked)
            connection.commit()
            await soon(ended(pg_app, row[0]))
