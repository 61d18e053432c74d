"""What people change of jobs that wait is effective at once, whatever workers do meanwhile."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from mutirao import JobState, Mutirao
from mutirao.errors import InvalidFilter, InvalidJob
from tests.integration.worker.kit import ended, never_polling, until_state
from tests.support.waiting import soon, until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/changing.py"
)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
BACKLOG = 40


async def listening(app: Mutirao, expected: bool) -> None:
    """Wait until the only worker wants to be told of new jobs, or does not."""

    async def so() -> bool:
        return [worker.listening for worker in await app.aworkers()] == [expected]

    await until(so)


async def test_an_idle_worker_takes_what_is_changed(app: Mutirao) -> None:
    """A job that was to run later, and one of a queue that it does not serve."""

    @app.task
    async def send() -> None:
        pass

    later = await send.using(delay=timedelta(days=1)).aenqueue()
    elsewhere = await send.using(queue="elsewhere").aenqueue()
    async with never_polling(app, queues=["default"]):
        for id in (later.id, elsewhere.id):
            await listening(app, True)
            assert await app.achange(id, delay=0, queue="default") == [id]
            assert (await soon(ended(app, id))).state is JobState.SUCCEEDED


async def test_a_busy_worker_takes_what_is_urgent_next(app: Mutirao) -> None:
    """Though it does not ask to be told, and has passed the place where one of them is now."""
    order: list[int] = []
    go = asyncio.Event()

    @app.task
    async def send(n: int) -> None:
        order.append(n)
        await go.wait()

    ids = await app.aenqueue_many([send.job(n) for n in range(BACKLOG)])
    async with never_polling(app, concurrency=1):
        await until_state(app, ids[0], JobState.RUNNING)
        await listening(app, False)
        held = len(await app.ajobs(state="running"))
        assert await app.achange(ids[-1], priority=-1) == [ids[-1]]
        assert await app.achange(ids[-2], run_at=LONG_AGO) == [ids[-2]]
        go.set()
        await soon(ended(app, ids[-3]))
    first = order[: held + 20]
    assert BACKLOG - 1 in first
    assert BACKLOG - 2 in first
    assert sorted(order) == list(range(BACKLOG))


async def test_more_attempts(app: Mutirao) -> None:
    """The number is that of executions in all; one that has had as many dies."""

    @app.task(max_attempts=5)
    async def fail() -> None:
        raise ValueError

    job = await fail.aenqueue()
    async with never_polling(app):
        record = await until_state(app, job.id, JobState.SCHEDULED)
        assert record.attempt == 1
        await app.achange(job.id, max_attempts=2, delay=0)
        record = await soon(ended(app, job.id))
    assert (record.state, record.attempt) == (JobState.DEAD, 2)


def test_what_cannot_be_is_refused(app: Mutirao) -> None:
    """By both faces; nothing is changed."""
    with pytest.raises(InvalidFilter, match="neither ids nor a filter"):
        app.change(priority=1)
    with pytest.raises(InvalidFilter, match="where is 7; give a dict, such as"):
        app.change(where=7, priority=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="no new value is given"):
        app.change(7)
    with pytest.raises(InvalidJob, match="run_at is the naive datetime"):
        app.change(7, run_at=datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidJob, match="delay is 'soon'; give seconds as a number"):
        app.change(7, delay="soon")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a change has no option 'prio'"):
        app.change(7, prio=1)  # type: ignore[call-arg]
    assert app.change(where={"queue": "mail"}, priority=1) == []
