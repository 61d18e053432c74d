"""What tasks without options of their own take: the application's defaults, or the worker's."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mutirao import DeadJob, Job, JobState, Mutirao, Retry
from mutirao.errors import ConfigurationError, InvalidJob
from tests.integration.worker import children
from tests.integration.worker.kit import ended, never_polling, outcomes, working

pytestmark = pytest.mark.repeats("postgresql", decided="tests/conformance")

AT_ONCE = Retry.fixed(3, interval=0)


def failing(app: Mutirao, **options: Any) -> Any:
    """Register a task that fails."""

    return app.task(**{"name": "fail", **options})(_fail)


async def _fail() -> None:
    raise ValueError


@pytest.mark.parametrize(
    ("options", "attempts"),
    [
        ({}, 3),
        ({"max_attempts": 2}, 2),
        ({"retry": Retry.never()}, 1),
        ({"retry": Retry.delays(0, 0, 0)}, 4),
    ],
)
async def test_the_application_s_retries(url: str, options: dict[str, Any], attempts: int) -> None:
    """Apply to tasks that say nothing; what a task says itself is stronger."""
    app = Mutirao(url, retry=AT_ONCE)
    task = failing(app, **options)
    async with never_polling(app):
        job = await ended(app, task.enqueue().id)
    await app.aclose()
    app.close()
    assert (job.state, len(job.attempts)) == (JobState.DEAD, attempts)


async def test_an_on_dead_handler_s_retries(url: str) -> None:
    """Are the application's, not the task's."""
    app = Mutirao(url, retry=AT_ONCE)
    task = app.task(name="fail", retry=Retry.never())(_fail)

    @task.on_dead
    async def mourn(dead: DeadJob) -> None:
        raise ValueError

    async with never_polling(app):
        await ended(app, task.enqueue().id)
        job = await ended(app, 2)
    await app.aclose()
    app.close()
    assert len(job.attempts) == 3


async def test_timeouts(url: str) -> None:
    """The application's, unless the task has one, or says that it has none."""
    app = Mutirao(url, timeout=timedelta(minutes=2))
    seen: dict[str, float | None] = {}

    @app.task
    async def plain(job: Job) -> None:
        seen["plain"] = job.timeout

    @app.task(timeout=5)
    async def own(job: Job) -> None:
        seen["own"] = job.timeout

    @app.task(timeout=None)
    async def none(job: Job) -> None:
        seen["none"] = job.timeout

    async with never_polling(app):
        for task in (plain, own, none):
            await ended(app, task.enqueue().id)
    await app.aclose()
    app.close()
    assert seen == {"plain": 120.0, "own": 5.0, "none": None}


async def test_a_worker_s_defaults(url: str) -> None:
    """Replace the application's, and not what a task says itself."""
    app = Mutirao(url, retry=Retry.never(), timeout=30)
    plain, own = failing(app), failing(app, name="own", max_attempts=1)
    seen: list[float | None] = []

    @app.task
    async def note(job: Job) -> None:
        seen.append(job.timeout)

    async with working(app, retry="delays:0s,0s,0s", max_attempts=2, timeout=9.0):
        assert outcomes(await ended(app, plain.enqueue().id)) == ["retried", "dead"]
        assert outcomes(await ended(app, own.enqueue().id)) == ["dead"]
        await ended(app, note.enqueue().id)
    await app.aclose()
    app.close()
    assert seen == [9.0]


async def test_a_child_process_is_told_of_them(app: Mutirao, tmp_path: Path) -> None:
    """It judges its errors by them, too."""
    children.register(app)
    noted = tmp_path / "told"
    async with working(app, retry="fixed:0s", max_attempts=2, timeout=50.0):
        await ended(app, app.submit(children.tell.job(str(noted))).id)
        failed = await ended(app, app.submit(children.transact.job()).id)
    assert noted.read_text().split(" ")[2:4] == ["2", "50.0"]
    assert outcomes(failed) == ["retried", "dead"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retry": 5}, "retry is 5; give a policy"),
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"timeout": "30"}, "timeout is '30'; give seconds"),
    ],
)
def test_defaults_that_cannot_be(options: Any, said: str) -> None:
    """Are refused where they are given."""
    with pytest.raises((ConfigurationError, InvalidJob), match=said):
        Mutirao(**options)
