"""What runs when a job dies: a job of its own, linked to the dead one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mutirao import Dead, DeadJob, Job, JobRecord, JobState, Mutirao, NewJob, Retry
from mutirao.errors import InvalidTask
from mutirao.model.jobs.job import NewWorker
from tests.integration.worker.kit import ended, outcomes, until_attempts, working
from tests.support.waiting import until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/settling.py"
)

ONCE = Retry.never()


async def handler_job(app: Mutirao, dead: int) -> JobRecord:
    """Wait for the finished job that handled a death; return it."""

    async def found() -> JobRecord | None:
        jobs = await app.ajobs()
        ids = [job.id for job in jobs if job.on_dead_of == dead]
        return await ended(app, ids[0]) if ids else None

    return await until(found)


@pytest.mark.parametrize("kind", ["coroutine", "plain", "unannotated", "with its job"])
async def test_a_death_is_told(app: Mutirao, kind: str) -> None:
    """The handler learns of the job that died, in the task's queue, as a job linked to it."""
    received: list[Any] = []

    @app.task(queue="mail", max_attempts=2, retry=Retry.fixed(interval=0))
    async def send(order_id: int, note: str = "") -> None:
        raise ValueError("no such order")

    if kind == "coroutine":

        @send.on_dead
        async def coroutine(dead: DeadJob) -> None:
            received.append(dead)

    elif kind == "plain":

        @send.on_dead
        def plain(dead: DeadJob) -> None:
            received.append(dead)

    elif kind == "unannotated":

        @send.on_dead
        def unannotated(dead):  # type: ignore[no-untyped-def]
            received.append(dead)

    else:

        @send.on_dead
        async def with_its_job(job: Job, dead: DeadJob) -> None:
            assert (job.on_dead_of, job.task) == (dead.id, "send.on_dead")
            received.append(dead)

    async with working(app):
        id = send.using(queue="fast").enqueue(7).id
        job = await handler_job(app, id)
    assert (job.state, job.task, job.queue) == (JobState.SUCCEEDED, "send.on_dead", "fast")
    [dead] = received
    assert (dead.id, dead.task, dead.queue, dead.args) == (id, "send", "fast", {"order_id": 7})
    assert (dead.attempts, dead.error_type) == (2, "ValueError")
    assert dead.error.startswith("no such order\n")


async def test_it_has_retries_of_its_own(app: Mutirao) -> None:
    """Though the task that died had none."""
    attempts: list[int] = []

    @app.task(retry=ONCE)
    async def send() -> None:
        raise ValueError

    @send.on_dead
    async def tell(job: Job, dead: DeadJob) -> None:
        attempts.append(job.attempt)
        if job.attempt < 3:
            raise Retry(after=0)

    async with working(app):
        job = await handler_job(app, send.enqueue().id)
    assert outcomes(job) == ["retried", "retried", "succeeded"]
    assert attempts == [1, 2, 3]


async def test_no_chain(app: Mutirao) -> None:
    """When the handler's job dies nothing further is started."""

    @app.task(retry=ONCE)
    async def send() -> None:
        raise ValueError

    @send.on_dead
    async def tell(dead: DeadJob) -> None:
        raise Dead("cannot tell anybody")

    @app.task
    async def later() -> None:
        pass

    async with working(app):
        job = await handler_job(app, send.enqueue().id)
        await ended(app, later.enqueue().id)
    assert (job.state, job.error) == (JobState.DEAD, "cannot tell anybody")
    assert len(await app.ajobs()) == 3


@pytest.mark.parametrize("end", ["succeeded", "cancelled", "retried"])
async def test_only_a_death_is_told(app: Mutirao, end: str) -> None:
    """Not a success, a cancellation or a failure that is retried."""
    from mutirao import Cancel

    @app.task(retry=Retry.fixed(2, interval=3600))
    async def send() -> None:
        if end == "cancelled":
            raise Cancel("not wanted")
        if end == "retried":
            raise ValueError

    @send.on_dead
    async def tell(dead: DeadJob) -> None:
        raise AssertionError

    async with working(app):
        job = await until_attempts(app, send.enqueue().id, 1)
    assert outcomes(job) == [end]
    assert len(await app.ajobs()) == 1


PAYLOADS = {
    "of other types": ('{"order_id": "seven"}', {"order_id": "seven"}),
    "with a lone surrogate": ('{"order_id": 7, "note": "\\ud800"}', {}),
    "with a number too large": ('{"order_id": 1e999}', {}),
    "with a NUL": ('{"order_id": "\\u0000"}', {"order_id": "\x00"}),
}


@pytest.mark.parametrize("name", PAYLOADS)
async def test_an_unfit_payload(app: Mutirao, name: str) -> None:
    """A death is told even if the payload is what it died of; what cannot be read is left out."""
    payload, readable = PAYLOADS[name]
    received: list[DeadJob] = []

    @app.task
    async def send(order_id: int) -> None:
        raise AssertionError

    @send.on_dead
    async def tell(dead: DeadJob) -> None:
        received.append(dead)

    async with working(app):
        [id] = app.store.enqueue([NewJob(task="send", args=payload)])
        assert (await handler_job(app, id)).state is JobState.SUCCEEDED
    [dead] = received
    assert (dead.args, dead.error_type, dead.attempts) == (readable, "InvalidArguments", 1)


async def test_a_large_payload_and_a_large_error(app: Mutirao) -> None:
    """Neither keeps the death from being told, though together they pass the limit."""
    received: list[DeadJob] = []
    big = "x" * ((1 << 20) - 100)

    @app.task(retry=ONCE)
    async def send(text: str) -> None:
        raise ValueError("y" * 1_000_000)

    @send.on_dead
    async def tell(dead: DeadJob) -> None:
        received.append(dead)

    async with working(app):
        assert (await handler_job(app, send.enqueue(big).id)).state is JobState.SUCCEEDED
    assert received[0].args == {"text": big}


async def test_a_last_attempt_that_was_lost(app: Mutirao) -> None:
    """Whoever claims the job next finds it out of attempts: dead, and told, but not run."""
    received: list[DeadJob] = []

    @app.task(max_attempts=1)
    async def send() -> None:
        raise AssertionError

    @send.on_dead
    async def tell(dead: DeadJob) -> None:
        received.append(dead)

    id = send.enqueue().id
    await lose(app)
    async with working(app):
        assert (await handler_job(app, id)).state is JobState.SUCCEEDED
        job = await app.ajob(id)
    assert outcomes(job) == ["lost", "dead"]
    assert job.error_type == "WorkerLost"
    assert "vanished during attempt 1 of 1" in (job.error or "")
    assert [dead.attempts for dead in received] == [1]


async def lose(app: Mutirao) -> None:
    """Let a worker claim what is due, and vanish."""
    gone = NewWorker(name="g", host="h", pid=1, queues=None, concurrency=1, version="0")
    worker = await app.store.register(gone, expiry=0.0)
    lanes = [head.lane for head in await app.store.lanes(None)]
    assert await app.store.claim(worker, lanes, 10)

    async def rescued() -> bool:
        return bool(await app.store.rescue())

    await until(rescued)


async def test_the_death_and_its_handler_are_one_commit(app: Mutirao) -> None:
    """Nobody sees a dead job whose handler's job is not there."""

    @app.task(retry=ONCE)
    async def send() -> None:
        raise ValueError

    @send.on_dead
    async def tell(dead: DeadJob) -> None:
        pass

    over = asyncio.Event()

    async def watch() -> None:
        while not over.is_set():
            jobs = await app.ajobs(limit=None)
            dead = {job.id for job in jobs if job.task == "send" and job.state is JobState.DEAD}
            assert dead <= {job.on_dead_of for job in jobs}

    async with working(app):
        watching = asyncio.create_task(watch())
        for id in app.enqueue_many([send.job()] * 50):
            await handler_job(app, id)
        over.set()
        await watching


def takes_nothing() -> None:
    """No parameter."""


def takes_two(dead: DeadJob, more: int) -> None:
    """One too many."""


def takes_another(dead: int) -> None:
    """Of another type."""


@pytest.mark.parametrize("handler", [takes_nothing, takes_two, takes_another])
async def test_a_handler_that_cannot_be_told(pg_app: Mutirao, handler: Any) -> None:
    """Refused when a worker starts, before any job dies for nothing."""

    @pg_app.task
    async def send() -> None:
        pass

    send.on_dead(handler)
    with pytest.raises(InvalidTask, match="on_dead handler of 'send' must take one DeadJob"):
        async with working(pg_app):
            pass
    assert await pg_app.store.workers() == []


async def test_two_handlers(pg_app: Mutirao) -> None:
    """A task has one."""

    @pg_app.task
    async def send() -> None:
        pass

    send.on_dead(takes_another)
    with pytest.raises(InvalidTask, match="has an on_dead handler already"):
        send.on_dead(takes_two)
