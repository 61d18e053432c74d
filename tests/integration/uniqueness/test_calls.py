"""What callers of tasks say of keys, what they are told, and how they find equal jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mutirao import DuplicateJob, JobState, Mutirao, NewJob, OnConflict
from mutirao.errors import InvalidArguments, InvalidJob, InvalidSchedule, InvalidTask
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import Unique
from mutirao.testing import drain, inline
from tests.support.waiting import until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/uniqueness.py"
)


def index(page: int, depth: int = 1) -> None:
    """What the tests enqueue."""


def test_a_key_is_kept_unless_said_otherwise(app: Mutirao) -> None:
    """The handle says which job stands, and whether it was written."""
    task = app.task(index)
    first = task.using(key="7").enqueue(7)
    again = task.using(key="7").enqueue(7)
    assert (first.how, first.created) == ("inserted", True)
    assert (again.how, again.created, again.id) == ("found", False, first.id)
    assert type(again.id) is int
    assert task.enqueue(7).how == "inserted"


async def test_what_the_task_says(app: Mutirao) -> None:
    """It is the rule of calls with a key; a call may say something else."""
    task = app.task(on_conflict="error", scope="search", unique_for=timedelta(hours=1))(index)
    other = app.task(name="other", scope="search")(index)
    first = await task.using(key="7").aenqueue(7)
    with pytest.raises(DuplicateJob, match=f"job {first.id} has the key '7'") as raised:
        await task.using(key="7").aenqueue(8)
    assert raised.value.id == first.id
    assert (await task.using(key="7", on_conflict=OnConflict.KEEP).aenqueue(8)).id == first.id
    assert (await other.using(key="7").aenqueue(8)).how == "found"
    assert (await task.using(key="7", scope="mine").aenqueue(8)).how == "inserted"
    assert (await task.aenqueue(8)).how == "inserted"
    await app.aclose()


async def test_debouncing(app: Mutirao) -> None:
    """Each update puts the job off, but not for ever."""
    call = app.task(index).using(
        key="7", on_conflict="replace", delay=60, debounce_limit=timedelta(seconds=90)
    )
    hows = [(await call.aenqueue(n)).how for n in range(3)]
    assert hows == ["inserted", "replaced", "replaced"]
    [job] = await app.ajobs(state=JobState.SCHEDULED)
    assert job.args["page"] == 2
    await app.aclose()


def test_many_at_once(app: Mutirao) -> None:
    """Ids are those of the jobs that stand."""
    task = app.task(index)
    jobs = [task.job(1), task.using(key="7").job(2), task.using(key="7").job(3), task.job(4)]
    first, second, third, fourth = app.enqueue_many(jobs)
    assert third == second
    assert len({first, second, fourth}) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_conflict": "keep"}, "no key is given; give one"),
        ({"unique_for": 60}, "no key is given"),
        ({"scope": "s"}, "no key is given"),
        ({"key": "k" * 201}, "the key has 201 characters; give 1 to 200"),
        ({"key": ""}, "the key has 0 characters"),
        ({"key": "k", "on_conflict": "drop"}, "'drop'; give one of keep, replace, rerun, error"),
        ({"key": "k", "unique_for": 0}, "give more than 0"),
        ({"key": "k", "unique_for": "1h"}, "give seconds as a number, or a timedelta"),
        ({"key": "k", "unique_for": 9, "on_conflict": "rerun"}, "goes with keep or error"),
        ({"key": "k", "debounce_limit": 9}, "goes with replace, but on_conflict is keep"),
        ({"key": "k", "debounce_limit": 0, "on_conflict": "replace"}, "more than 0 seconds"),
        ({"key": "k", "scope": "s" * 201}, "the scope has 201 characters"),
        ({"key": "k", "scope": ""}, "the scope has 0 characters"),
    ],
)
def test_bad_input(app: Mutirao, options: dict[str, Any], message: str) -> None:
    """It is refused at the caller, with what to give; nothing is written."""
    task = app.task(index)
    with pytest.raises(InvalidJob, match=message):
        task.using(**options).enqueue(7)
    assert app.jobs() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_conflict": "drop"}, "on_conflict is 'drop'"),
        ({"unique_for": 0}, "give more than 0 and at most 10000000000, or .forever."),
        ({"debounce_limit": 9}, "goes with replace"),
    ],
)
def test_bad_options_of_a_task(app: Mutirao, options: dict[str, Any], message: str) -> None:
    """They are refused where the task is defined."""
    with pytest.raises(InvalidJob, match=message):
        app.task(**options)(index)


def test_a_schedule_needs_no_key(app: Mutirao) -> None:
    """Each tick makes a job of its own."""
    task = app.task(index)
    with pytest.raises(InvalidSchedule, match="has the key '7', but each tick makes a job"):
        app.schedules.put("nightly", task.using(key="7").job(7), "0 3 * * *")


async def test_finding_equal_jobs(app: Mutirao) -> None:
    """By state; however the arguments were given, defaults included."""
    task = app.task(findable=True)(index)
    first = await task.aenqueue(7)
    second = await task.using(delay=60).aenqueue(depth=1, page=7)
    await task.aenqueue(7, depth=2)
    found = await app.afind(task, page=7)
    assert {state: [job.id for job in jobs] for state, jobs in found.items()} == {
        JobState.READY: [first.id],
        JobState.SCHEDULED: [second.id],
    }
    assert await app.afind(task, page=8) == {}
    with pytest.raises(InvalidArguments):
        await app.afind(task, side=7)
    with pytest.raises(InvalidTask, match=r"register it with @app\.task\(findable=True\)"):
        await app.afind(app.task(name="other")(index), page=7)
    with pytest.raises(InvalidTask, match=r"the task is 'index'; give the one that @app.task made"):
        await app.afind("index", page=7)  # type: ignore[arg-type]
    await app.aclose()


def test_finding_what_was_redriven(app: Mutirao) -> None:
    """A redriven job is equal to the dead one, but does not have its key."""
    task = app.task(findable=True, max_attempts=1)(_fail)
    handle = task.using(key="k").enqueue(page=7)
    drain(app)
    assert list(app.find(task, page=7)) == [JobState.DEAD]
    [again] = app.redrive(handle.id)
    assert [job.id for job in app.find(task, page=7)[JobState.READY]] == [again]
    assert task.using(key="k").enqueue(page=7).how == "inserted"


def _fail(page: int) -> None:
    raise ValueError(page)


def test_inline(app: Mutirao) -> None:
    """What a handler asks of its own key runs after it."""
    ran: list[int] = []

    @app.task(on_conflict="rerun")
    def step(n: int) -> None:
        ran.append(n)
        if n < 3:
            assert step.using(key="k").enqueue(n + 1).how == "rerun"
        ran.append(-n)

    with inline(app):
        step.using(key="k").enqueue(1)
    assert ran == [1, -1, 2, -2, 3, -3]


async def test_a_worker_reruns(app: Mutirao) -> None:
    """End to end: a job that is asked for while it runs, runs once more, and not at once."""
    ran: list[int] = []

    @app.task(on_conflict="rerun")
    async def step(n: int) -> None:
        ran.append(n)
        if n == 0:
            for later in range(1, 4):
                await step.using(key="k").aenqueue(later)
        ran.append(-n)

    await step.using(key="k").aenqueue(0)
    async with app.worker():
        await until(lambda: len(ran) >= 4)
    assert ran == [0, 0, 3, -3]
    await app.aclose()


async def test_ids_of_both_kinds(app: Mutirao) -> None:
    """What enqueueing returned for jobs with a key and without may be given back together."""
    keyed = NewJob(task="send", key="k", unique=Unique())
    ids = await app.store.aenqueue([NewJob(task="send"), keyed, NewJob(task="send")])
    assert await app.store.cancel(JobFilter(ids=tuple(ids))) == sorted(ids)
