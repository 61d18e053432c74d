"""An attempt that takes too long: a coroutine is cancelled, a process killed, a thread given up."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from mutirao import Job, JobState, Mutirao, Retry
from mutirao.errors import StaleRun
from tests.integration.worker import children
from tests.integration.worker.kit import ended, outcomes, until_attempts, working
from tests.support.engine import dispatcher
from tests.support.waiting import soon, until

AGAIN = Retry.fixed(2, interval=0)


@pytest.fixture
def url(pg_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return pg_url


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a cancelled coroutine hardly any time to end."""
    monkeypatch.setattr(dispatcher, "CANCEL_TIMEOUT", 0.05)


async def test_a_coroutine_is_cancelled(app: Mutirao) -> None:
    """Its cleaning up runs; the attempt has failed, and is retried."""
    cleaned_up: list[int] = []

    @app.task(retry=AGAIN, timeout=0.1)
    async def slow(job: Job) -> None:
        try:
            if job.attempt == 1:
                await asyncio.Event().wait()
        finally:
            cleaned_up.append(job.attempt)

    async with working(app):
        job = await ended(app, slow.enqueue().id)
    assert outcomes(job) == ["retried", "succeeded"]
    assert job.attempts[0].error_type == "AttemptTimeout"
    assert "longer than its timeout of 0.1 s" in (job.attempts[0].error or "")
    assert cleaned_up == [1, 2]


async def test_the_last_attempt(app: Mutirao) -> None:
    """Dead, by its timeout."""

    @app.task(max_attempts=1)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with working(app):
        job = await ended(app, slow.using(timeout=0.1).enqueue().id)
    assert (job.state, job.error_type) == (JobState.DEAD, "AttemptTimeout")


@pytest.mark.parametrize(
    ("of_task", "of_job", "expected"), [(60.0, 0.1, "dead"), (0.1, 60.0, "succeeded")]
)
async def test_the_job_s_own_timeout(
    pg_app: Mutirao, of_task: float, of_job: float, expected: str
) -> None:
    """Stands instead of the task's."""
    took_longer = asyncio.Event()

    @pg_app.task(max_attempts=1, timeout=of_task)
    async def slow(job: Job) -> None:
        assert job.timeout == of_job
        if of_task < of_job:
            asyncio.get_running_loop().call_later(2 * of_task, took_longer.set)
        await took_longer.wait()

    async with working(pg_app):
        id = slow.using(timeout=of_job).enqueue().id
        job = await ended(pg_app, id)
    assert outcomes(job) == [expected]


async def test_by_exception_type(pg_app: Mutirao) -> None:
    """A timeout is an error like others, and a TimeoutError."""

    @pg_app.task(retry=Retry.fixed(5, interval=0, never=(TimeoutError,)), timeout=0.1)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with working(pg_app):
        assert outcomes(await ended(pg_app, slow.enqueue().id)) == ["dead"]


async def test_a_swallowed_cancellation(pg_app: Mutirao) -> None:
    """An attempt that ran into its timeout has failed, whatever its handler returns then."""

    @pg_app.task(max_attempts=1, timeout=0.1)
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "half of it"
        return "all of it"

    async with working(pg_app):
        assert (await ended(pg_app, stubborn.enqueue().id)).error_type == "AttemptTimeout"


async def test_a_transaction_in_spite_of_the_cancellation(pg_app: Mutirao) -> None:
    """What a handler commits together with its job while it is cancelled is done."""

    @pg_app.task(max_attempts=1, timeout=0.1)
    async def thorough(job: Job) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            async with job.transaction():
                pass

    async with working(pg_app):
        assert outcomes(await ended(pg_app, thorough.enqueue().id)) == ["succeeded"]


async def test_another_error_while_cancelled(pg_app: Mutirao) -> None:
    """The timeout is what happened, not what the cleaning up made of it."""

    @pg_app.task(max_attempts=1, timeout=0.1)
    async def clumsy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while cleaning up")

    async with working(pg_app):
        assert (await ended(pg_app, clumsy.enqueue().id)).error_type == "AttemptTimeout"


@pytest.mark.usefixtures("impatient")
async def test_a_coroutine_that_ignores_cancellation(
    app: Mutirao, caplog: pytest.LogCaptureFixture
) -> None:
    """It is given up: its job is retried, its slot is lost until it returns."""
    enough, returned = asyncio.Event(), asyncio.Event()

    @app.task(retry=AGAIN, timeout=0.1)
    async def deaf(job: Job) -> None:
        while job.attempt == 1 and not enough.is_set():
            try:
                await enough.wait()
            except asyncio.CancelledError:
                continue
        if job.attempt == 1:
            returned.set()

    @app.task
    async def other() -> None:
        pass

    async with working(app, concurrency=1, heartbeat=0.05, expiry=60):
        try:
            first, second = deaf.enqueue().id, other.enqueue().id
            await until_attempts(app, first, 1)
            await until_stuck(app, 1)
            assert (await app.ajob(second)).state is not JobState.SUCCEEDED
        finally:
            enough.set()
        assert outcomes(await ended(app, first)) == ["retried", "succeeded"]
        await ended(app, second)
        await soon(returned.wait())
        await until_stuck(app, 0)
    assert f"job {first} (deaf) is stuck" in caplog.text
    assert f"job {first} (deaf) returned after it was given up" in caplog.text


async def until_stuck(app: Mutirao, slots: int) -> None:
    """Wait until the only worker says that it has lost so many slots."""

    async def said() -> bool:
        return [worker.stuck for worker in await app.store.workers()] == [slots]

    await until(said)


async def test_a_thread_is_given_up(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """It is reported as stuck and its job retried; its slot counts as lost until it returns."""
    enough, returned = threading.Event(), threading.Event()

    @app.task(retry=AGAIN, timeout=0.5)  # enough for the second attempt, on a busy machine
    def slow(job: Job) -> None:
        if job.attempt == 1:
            enough.wait(100)
            returned.set()

    @app.task
    async def other() -> None:
        pass

    with caplog.at_level(logging.INFO, "mutirao"):
        async with working(app, concurrency=1, heartbeat=0.05, expiry=60):
            first, second = slow.enqueue().id, other.enqueue().id
            job = await until_attempts(app, first, 1)
            assert (outcomes(job), job.error_type) == (["retried"], "AttemptTimeout")
            await until_stuck(app, 1)
            assert (await app.ajob(second)).state is not JobState.SUCCEEDED
            enough.set()
            assert outcomes(await ended(app, first)) == ["retried", "succeeded"]
            await ended(app, second)
            await until_stuck(app, 0)
    assert returned.is_set()
    assert f"job {first} (slow) is stuck: a thread cannot be ended" in caplog.text
    assert "a stuck handler has returned" in caplog.text


async def test_other_slots_go_on_beside_a_stuck_one(app: Mutirao) -> None:
    """One of two is lost, the job is retried in the other."""
    enough = threading.Event()

    @app.task(retry=AGAIN, timeout=0.5)  # enough for the second attempt, on a busy machine
    def slow(job: Job) -> None:
        if job.attempt == 1:
            enough.wait(100)

    async with working(app, concurrency=2):
        job = await ended(app, slow.enqueue().id)
        assert outcomes(job) == ["retried", "succeeded"]
        enough.set()


@pytest.mark.parametrize("late", ["result", "error"])
async def test_a_late_result_of_a_thread(app: Mutirao, late: str) -> None:
    """Is dropped: the attempt has ended, whatever it says now."""
    enough, second, held = threading.Event(), asyncio.Event(), asyncio.Event()

    @app.task(retry=Retry.fixed(3, interval=0))
    def slow(job: Job) -> None:
        if job.attempt == 1:
            enough.wait(100)
            if late == "error":
                raise ValueError("late")
            return
        asyncio.run_coroutine_threadsafe(hold(), loop).result(60)

    async def hold() -> None:
        second.set()
        await held.wait()

    loop = asyncio.get_running_loop()
    async with working(app, concurrency=2, heartbeat=0.05, expiry=60):
        id = slow.using(timeout=3).enqueue().id  # for which the second attempt may be held
        await soon(second.wait())
        enough.set()
        await until_stuck(app, 0)
        held.set()
        job = await ended(app, id)
    assert outcomes(job) == ["retried", "succeeded"]


@pytest.mark.parametrize("before", ["the retry", "the next attempt has begun"])
async def test_a_late_transaction_of_a_thread(app: Mutirao, before: str) -> None:
    """Is fenced off before it commits: it raises, and nothing of it lands."""
    enough, began, held = threading.Event(), asyncio.Event(), asyncio.Event()
    raised: list[type[BaseException]] = []

    @app.task
    def slow(job: Job) -> None:
        if job.attempt > 1:
            asyncio.run_coroutine_threadsafe(hold(), loop).result(60)
            return
        enough.wait(100)
        try:
            with job.transaction() as session:
                session.execute(text("INSERT INTO receipt VALUES (1)"))
        except BaseException as error:
            raised.append(type(error))
            raise

    async def hold() -> None:
        began.set()
        await held.wait()

    loop = asyncio.get_running_loop()
    make_table(app)
    wait = 3600 if before == "the retry" else 0
    slow_once = app.task(name="x", retry=Retry.fixed(2, interval=wait), timeout=3)(slow.function)
    async with working(app, concurrency=2, heartbeat=0.05, expiry=60):
        id = slow_once.enqueue().id
        job = await until_attempts(app, id, 1) if wait else None
        if job is None:
            await soon(began.wait())
        enough.set()
        await until(lambda: raised)
        held.set()
        if job is None:
            job = await ended(app, id)
    assert raised == [StaleRun]
    assert outcomes(job) == (["retried"] if wait else ["retried", "succeeded"])
    assert rows(app) == []


def make_table(app: Mutirao) -> None:
    """Give the application a table of its own."""
    with app.store.engines.sync().begin() as connection:  # type: ignore[attr-defined]
        connection.execute(text("DROP TABLE IF EXISTS receipt"))
        connection.execute(text("CREATE TABLE receipt (id integer)"))


def rows(app: Mutirao) -> list[int]:
    """Return what is in that table."""
    with app.store.engines.sync().begin() as connection:  # type: ignore[attr-defined]
        return list(connection.scalars(text("SELECT id FROM receipt ORDER BY id")))


async def test_a_process_is_killed(app: Mutirao, tmp_path: Path) -> None:
    """Though it ignores signals; the next attempt has another one, and the slot is free."""
    children.register(app)
    path = tmp_path / "pid"
    async with working(app, concurrency=1):
        id = app.submit(children.hang_once.using(timeout=1).job(str(path))).id
        job = await ended(app, id)
        assert outcomes(job) == ["retried", "succeeded"]
        assert job.attempts[0].error_type == "AttemptTimeout"
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.read_text()), 0)


async def test_the_time_in_the_prefetch_buffer_does_not_count(pg_app: Mutirao) -> None:
    """A timeout is for the handler, from its start."""
    release = asyncio.Event()

    @pg_app.task
    async def first() -> None:
        await release.wait()

    @pg_app.task(timeout=0.3, max_attempts=1)
    async def second() -> None:
        pass

    async with working(pg_app, concurrency=1):
        ids = pg_app.enqueue_many([first.job(), *[second.job() for _ in range(3)]])
        asyncio.get_running_loop().call_later(1.0, release.set)
        for id in ids:
            assert outcomes(await ended(pg_app, id)) == ["succeeded"]
