"""Tasks that were declared before there was an application, which includes them."""

from __future__ import annotations

from asyncio import Event
from collections.abc import AsyncIterator
from importlib import reload
from pathlib import Path
from typing import Any

import pytest

from mutirao import DeadJob, JobState, Limit, Mutirao, Retry, Tasks
from mutirao.errors import ConfigurationError, InvalidSchedule, InvalidTask
from tests.integration.worker import blueprints, factories, hooked
from tests.integration.worker.kit import ended, outcomes, working


@pytest.fixture
def url(lite_url: str) -> str:
    """One database is enough: blueprints know of none."""
    return lite_url


@pytest.fixture
async def around(url: str) -> AsyncIterator[Mutirao]:
    """An application with defaults, factories and a hook, and a fresh blueprint in it."""
    reload(blueprints)
    app = Mutirao(url, timeout=77)
    app.provide(factories.open_notes)
    app.include(blueprints.tasks)
    app.provide(factories.open_session)
    app.around_handler(hooked.outer)
    yield app
    await app.aclose()
    app.close()


@pytest.mark.parametrize("name", ["in_process", "in_thread"])
async def test_the_application_stands_around_its_tasks(
    around: Mutirao, tmp_path: Path, name: str
) -> None:
    """Its timeout, hooks and factories apply, in a child process that does not know it too."""
    path, task = tmp_path / "said", getattr(blueprints, name)
    async with working(around):
        job = await ended(around, task.enqueue(str(path)).id)
    assert job.state is JobState.SUCCEEDED
    said = path.read_text()
    assert "handler with 77.0" in said
    assert "outer" in said
    assert "committed" in said


async def test_a_child_process_does_not_know_the_application(
    around: Mutirao, tmp_path: Path
) -> None:
    """A handler that enqueues there is told what to import; nothing is lost silently."""
    async with working(around):
        job = await ended(around, blueprints.enqueueing.enqueue(str(tmp_path / "said")).id)
    assert outcomes(job) == ["dead"]
    assert "no application has included task 'in_process'" in str(job.attempts[0].error)


def test_a_retry_policy_that_a_child_process_cannot_know() -> None:
    """It is refused: the process would use another one."""
    tasks = Tasks()
    tasks.task(process=True)(_plain)
    with pytest.raises(ConfigurationError, match=r"'_plain' of a Tasks.* give it one of its own"):
        Mutirao(retry=Retry.never()).include(tasks)
    own = Tasks()
    own.task(process=True, retry=Retry.fixed(2))(_plain)
    Mutirao(retry=Retry.never()).include(own)


def _plain() -> None:
    """Do nothing."""


async def test_calls_made_before_it_is_included(app: Mutirao) -> None:
    """They say what is missing, and are calls of the application from then on."""
    tasks = Tasks()

    @tasks.task(queue="mail")
    async def send(order_id: int) -> int:
        return order_id

    urgent = send.using(priority=-1)
    for call in (send.enqueue, urgent.enqueue):
        with pytest.raises(ConfigurationError, match=r"task 'send'.*call app\.include\(tasks\)"):
            call(7)
    with pytest.raises(ConfigurationError, match="no application has included"):
        await send.aenqueue(7)
    app.include(tasks)
    assert dict(app.tasks) == {"send": send}
    records = [await app.ajob((await call.aenqueue(7)).id) for call in (send, urgent)]
    assert [(each.queue, each.priority) for each in records] == [("mail", 0), ("mail", -1)]


async def test_all_that_it_declares(app: Mutirao) -> None:
    """Tasks, their handlers of deaths, schedules and limits; before and after the inclusion."""
    tasks, died = Tasks(), []

    def declare(number: int) -> Any:
        tasks.limit(Limit(number), queue=f"q{number}")

        @tasks.schedule("30 3 * * *", args={"order_id": number})
        @tasks.task(name=f"send{number}", max_attempts=1, limit=Limit(1, name=f"limit{number}"))
        async def send(order_id: int) -> None:
            raise ValueError

        @send.on_dead
        async def mourn(dead: DeadJob) -> None:
            died.append(dead.task)

        return send

    before = declare(1)
    app.include(tasks)
    after = declare(2)
    async with working(app):
        for task in (before, after):
            dead = await ended(app, task.enqueue(order_id=7).id)
            assert dead.state is JobState.DEAD
            await ended(app, dead.id + 1)
        schedules = [each.name for each in await app.schedules.alist()]
        limits = {each.name for each in await app.limits.alist()}
    assert sorted(died) == schedules == ["send1", "send2"]
    assert {"limit1", "limit2"} < limits
    assert len(limits) == 4
    assert set(app.tasks) == set(tasks.tasks) == {
        "send1", "send1.on_dead", "send2", "send2.on_dead"
    }  # fmt: skip


def test_it_belongs_to_one_application() -> None:
    """To include it again is refused, here and elsewhere."""
    app, tasks = Mutirao(), Tasks()
    app.include(tasks)
    with pytest.raises(ConfigurationError, match=r"included here already.*new Tasks\(\)"):
        app.include(tasks)
    with pytest.raises(ConfigurationError, match="included in another application already"):
        Mutirao().include(tasks)
    with pytest.raises(ConfigurationError, match=r"are 5; give a Tasks\(\)"):
        app.include(5)  # type: ignore[arg-type]


def test_names_that_are_taken() -> None:
    """In the blueprint at once, in the application when it is included."""
    app, tasks, other = Mutirao(), Tasks(), Tasks()
    app.task(_plain)
    tasks.task(_plain)
    with pytest.raises(InvalidTask, match="two tasks are called '_plain'"):
        tasks.task(_plain)
    with pytest.raises(InvalidTask, match="two tasks are called '_plain'"):
        app.include(tasks)
    app.schedule(every=5, name="nightly")(app.task(name="a")(_plain))
    other.schedule(every=5, name="nightly")(other.task(name="b")(_plain))
    with pytest.raises(InvalidSchedule, match="two schedules are called 'nightly'"):
        app.include(other)


def test_all_of_it_or_nothing() -> None:
    """After a taken name nothing of the blueprint is there, and another application may have it."""
    app, tasks = Mutirao(timeout=5), Tasks()
    app.task(name="taken")(_plain)
    app.schedule(every=5, name="nightly")(app.task(name="a")(_plain))
    tasks.limit(Limit(1, name="few"), queue="mail")
    first = tasks.task(name="first", limit=Limit(1, name="one"))(_plain)
    tasks.task(name="open")(_gets_an_event)
    tasks.schedule(every=5, name="hourly")(first)
    tasks.schedule(every=5, name="nightly")(first)
    with pytest.raises(InvalidSchedule, match="'nightly'"):
        app.include(tasks)
    taken = Tasks()
    taken.task(name="second")(_plain)
    taken.task(name="taken")(_plain)
    with pytest.raises(InvalidTask, match="two tasks are called 'taken'"):
        app.include(taken)
    assert set(app.tasks) == {"taken", "a"}
    assert [schedule.name for schedule in app.schedules.declared()] == ["nightly"]
    assert app.limits.declared() == ()
    assert app.undecided == {}
    with pytest.raises(ConfigurationError, match="no application has included"):
        first.enqueue()
    other = Mutirao()
    other.provide(_event)
    other.include(tasks)
    assert set(other.tasks) == {"first", "open"}


def test_a_task_that_the_factories_of_the_application_spoil() -> None:
    """It cannot tell jobs apart by what is provided there; nothing is included."""
    app, tasks = Mutirao(), Tasks()
    app.provide(_event)
    tasks.task(name="first")(_plain)
    task = tasks.task(limit=Limit(1, by="name"))(_by_name)
    app.provide(_name)
    with pytest.raises(InvalidTask, match="jobs cannot be distinguished by it"):
        app.include(tasks)
    assert dict(app.tasks) == {}
    assert task.job(name="x").args == '{"name":"x"}'


def _gets_an_event(event: Event) -> None:
    """Take what only a factory gives."""


def _by_name(name: str) -> None:
    """Take a text."""


def _event() -> Event:
    return Event()


def _name() -> str:
    return "x"
