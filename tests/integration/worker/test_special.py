"""Workers that serve some tasks or leave out some queues, beside others that serve all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from mutirao import JobState, Mutirao
from mutirao.errors import ConfigurationError
from tests.integration.worker.kit import ended, never_polling, outcomes, until_state, working
from tests.support.log_records import ours
from tests.support.waiting import until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/claiming.py"
)


def handler(app: Mutirao, name: str, **options: Any) -> Any:
    """Register a task that does nothing."""

    @app.task(name=name, **options)
    async def nothing(user: int = 0) -> None:
        pass

    return nothing


@pytest.mark.parametrize("fair_by", [None, "user"])
async def test_some_tasks_only(
    app: Mutirao, fair_by: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Those behind others in the same lane run; the others are not even claimed."""
    mine, other = handler(app, "mine", fair_by=fair_by), handler(app, "other", fair_by=fair_by)
    ids = app.enqueue_many([other.job(n) for n in range(40)] + [mine.job(n) for n in range(3)])
    async with never_polling(app, tasks=["mine"], concurrency=2) as worker:
        for id in ids[40:]:
            assert outcomes(await ended(app, id)) == ["succeeded"]
        assert outcomes(await ended(app, mine.enqueue().id)) == ["succeeded"]
        late = other.enqueue().id
        assert outcomes(await ended(app, mine.enqueue().id)) == ["succeeded"]
        for id in (*ids[:40], late):
            job = await app.ajob(id)
            assert (job.state, job.attempt, job.attempts) == (JobState.READY, 0, ())
        assert worker.health().alive
    assert await _runs(app) == {0}
    assert [each for each in ours(caplog) if each.levelno >= logging.WARNING] == []


async def test_a_special_worker_beside_one_for_all(app: Mutirao) -> None:
    """Whichever wakes first, every job runs, at its first attempt."""
    tasks = [handler(app, name) for name in ("mine", "other")]
    async with working(app, tasks=["mine"]), working(app):
        ids = app.enqueue_many([tasks[n % 2].job() for n in range(60)])
        for id in ids:
            job = await ended(app, id)
            assert (outcomes(job), job.attempt) == (["succeeded"], 1)


async def test_all_queues_but_some(app: Mutirao) -> None:
    """Their jobs wait, those of lanes in which tasks take turns too; the others run."""
    task, fair = handler(app, "plain"), handler(app, "fair", fair_by="user")
    slow = [each.using(queue="slow").job() for each in (task, fair)]
    left = app.enqueue_many(slow)
    async with never_polling(app, exclude_queues=["slow", "none"]):
        for each in (task, fair):
            assert outcomes(await ended(app, each.enqueue().id)) == ["succeeded"]
        left += app.enqueue_many(slow)
        assert outcomes(await ended(app, task.enqueue().id)) == ["succeeded"]
        for id in left:
            assert (await until_state(app, id, JobState.READY)).attempt == 0
        [record] = await app.aworkers()
        assert (record.queues, record.exclude_queues) == (None, ("slow", "none"))
    async with working(app):
        for id in left:
            assert outcomes(await ended(app, id)) == ["succeeded"]


async def test_what_it_says_of_itself(app: Mutirao) -> None:
    """The tasks it serves stand in the list of workers."""
    handler(app, "mine")
    handler(app, "x")
    async with working(app, tasks=iter(["mine"])):
        [record] = await app.aworkers()
    assert (record.tasks, record.exclude_queues) == (("mine",), ())
    assert record.serves("any", "mine")
    assert not record.serves("any", "x")


async def test_a_task_that_there_is_not(app: Mutirao) -> None:
    """Is refused before anything is registered, with the names that there are."""
    handler(app, "mine")
    said = r"no task 'mien', 'x'; of its tasks a worker may serve some: mine"
    with pytest.raises(ConfigurationError, match=said):
        await app.worker(tasks=["mien", "x", "mine"]).__aenter__()
    assert await app.aworkers() == []


async def test_the_doctor_names_what_no_worker_serves(app: Mutirao) -> None:
    """A task, where its queue has workers for others; a queue that all leave out."""
    mine, other = handler(app, "mine"), handler(app, "other")

    def found(about: str) -> Callable[[], Any]:
        async def findings() -> list[str]:
            return [each.found for each in await app.aexamine() if each.about == about]

        return findings

    app.enqueue_many([other.job(), other.job(), other.using(queue="slow").job()])
    async with working(app, tasks=["mine"], exclude_queues=["slow"]):
        assert await found("tasks")() == [
            "no live worker of its queue serves task 'other' (2 jobs)"
        ]
        assert await found("queues")() == ["no live worker serves 'slow' (1 jobs)"]
        async with working(app):
            await until(_nothing_waits(app))
            mine.enqueue()
            assert await found("tasks")() == [
                "this application knows the task of every waiting job"
            ]


def _nothing_waits(app: Mutirao) -> Callable[[], Any]:
    async def nothing() -> bool:
        return all(each.state is JobState.SUCCEEDED for each in await app.ajobs())

    return nothing


async def _runs(app: Mutirao) -> set[int]:
    """Return how often those that wait were claimed: 0 if never."""
    engine = create_engine(app.url)
    with engine.connect() as connection:
        runs = set(connection.scalars(text("SELECT run FROM mutirao_live WHERE worker IS NULL")))
    engine.dispose()
    return runs
