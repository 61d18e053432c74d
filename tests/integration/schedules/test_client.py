"""`app.schedules` and `@app.schedule`: what they do, and what bad input gets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mutirao import Job, Mutirao, Task
from mutirao.errors import (
    InvalidArguments,
    InvalidJob,
    InvalidSchedule,
    ResultTimeout,
    UnknownSchedule,
    UnknownTask,
    WrongState,
)
from mutirao.model.jobs.job import NewJob

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/schedules.py"
)

HOUR = timedelta(hours=1)


@pytest.fixture
def report(app: Mutirao) -> Task[..., Any]:
    """A task that takes a number."""

    @app.task(queue="reports", tags=["nightly"])
    async def report(day: int = 0) -> None: ...

    return report


async def test_a_life(app: Mutirao, report: Task[..., Any]) -> None:
    """Put, listed, changed, paused, run, resumed and removed."""
    put = await app.schedules.aput(
        "nightly", report.using(priority=3).job(7), "30 3 * * *", timezone="America/Sao_Paulo"
    )
    assert put.next_at is not None
    assert (put.next_at.hour, put.next_at.minute) == (6, 30)
    [listed] = await app.schedules.alist()
    assert (listed.name, listed.task, listed.args) == ("nightly", "report", {"day": 7})
    changed = await app.schedules.achange("nightly", every=90, max_runs=3)
    assert (changed.schedule.every, changed.schedule.cron) == (timedelta(seconds=90), None)
    assert changed.schedule.job.args == '{"day":7}'
    assert (await app.schedules.achange("nightly", job=report.job(8))).next_at == changed.next_at
    assert (await app.schedules.apause("nightly")).paused
    handle = await app.schedules.arun_now("nightly")
    record = await app.ajob(handle.id)
    assert (record.args, record.queue, record.tags) == ({"day": 8}, "reports", ("nightly",))
    assert not (await app.schedules.aresume("nightly")).paused
    await app.schedules.aremove("nightly")
    assert await app.schedules.alist() == ()


def test_the_synchronous_face(pg_url: str) -> None:
    """The same, for programs without an event loop."""
    app = Mutirao(pg_url)

    @app.task
    def report(day: int = 0) -> None: ...

    app.schedules.put("s", report.job(day=7), every=HOUR)
    app.schedules.change("s", overlap="skip")
    app.schedules.pause("s")
    app.schedules.resume("s")
    handle = app.schedules.run_now("s")
    with pytest.raises(ResultTimeout, match="has not finished within"):
        handle.result(timeout=0.01)
    with pytest.raises(WrongState, match="forbids another one"):
        app.schedules.run_now("s")
    [listed] = app.schedules.list()
    assert (listed.last_job, listed.overlap, listed.every) == (handle.id, "skip", 3600)
    app.schedules.remove("s")
    assert app.schedules.list() == ()
    app.close()


async def test_putting_again(app: Mutirao, report: Task[..., Any]) -> None:
    """Programs put their schedules when they start, and nothing moves."""
    first = await app.schedules.aput("s", report.job(), every=HOUR, jitter=5, until=far())
    again = await app.schedules.aput("s", report.job(), every=3600.0, jitter=5, until=far())
    assert again == first


def far() -> datetime:
    """Return a moment nobody waits for."""
    return datetime(2100, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        ({}, InvalidSchedule, "neither cron nor every"),
        ({"cron": "* * * * *", "every": 5}, InvalidSchedule, "both cron and every"),
        ({"cron": "0 0 30 2 *"}, InvalidSchedule, "'0 0 30 2 \\*' is no cron line"),
        ({"cron": "* * */20 * 1L"}, InvalidSchedule, "never ticks"),
        ({"cron": "* * * * *", "timezone": "Mars/X"}, InvalidSchedule, "no time zone 'Mars/X'"),
        ({"every": 5, "timezone": "Europe/Berlin"}, InvalidSchedule, "leave the zone out"),
        ({"every": 0}, InvalidSchedule, "give more than no time"),
        ({"every": -HOUR}, InvalidSchedule, "give more than no time"),
        ({"every": "1h"}, InvalidSchedule, "every is '1h'; give a timedelta, or seconds"),
        ({"every": float("nan")}, InvalidSchedule, "every is nan"),
        ({"every": 1e300}, InvalidSchedule, "every is 1e\\+300"),
        ({"every": True}, InvalidSchedule, "every is True"),
        ({"every": 5, "until": datetime(2000, 1, 1, tzinfo=UTC)}, InvalidSchedule, "has passed"),
        ({"every": 5, "until": datetime(2100, 1, 1)}, InvalidSchedule, "a time zone"),  # noqa: DTZ001
        ({"every": 5, "jitter": -1}, InvalidSchedule, "jitter is"),
        ({"every": 5, "jitter": None}, InvalidSchedule, "jitter is None; give a timedelta"),
        ({"every": 5, "catch_up_limit": None}, InvalidSchedule, "catch_up_limit is None; give a"),
        ({"every": 5, "max_runs": 0}, InvalidSchedule, "max_runs is 0; give a whole number"),
        ({"every": 5, "name": ""}, InvalidJob, "name has 0 characters; give 1 to 200"),
        ({"every": 5, "name": "n" * 201}, InvalidJob, "201 characters"),
        ({"every": 5, "job": NewJob(task="nobody")}, UnknownTask, "no task 'nobody'.*report"),
        ({"every": 5, "job": "report"}, InvalidSchedule, "give task.job"),
        ({"every": 5, "job": NewJob(task="report", priority=99_999)}, InvalidJob, "priority"),
        ({"every": 5, "job": NewJob(task="report", delay=5)}, InvalidSchedule, "a delay"),
    ],
)
async def test_bad_input(
    app: Mutirao, report: Task[..., Any], terms: dict[str, Any], error: type, message: str
) -> None:
    """An error at the caller that says what to do; nothing is written."""
    with pytest.raises(error, match=message):
        await app.schedules.aput(**{"name": "s", "job": report.job(), **terms})
    assert await app.schedules.alist() == ()


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"cron": "61 * * * *"}, "'61 \\* \\* \\* \\*' is no cron line"),
        ({"timezone": "Mars/X"}, "no time zone"),
        ({"every": 0}, "give more than no time"),
        ({"until": datetime(2000, 1, 1, tzinfo=UTC)}, "has passed"),
        ({"overlap": "skip"}, "overlap='skip' forbids"),
        ({"catch_up_limit": None}, "catch_up_limit is None"),
        ({"job": 5}, "the job of schedule 's' is 5; give task.job"),
    ],
)
async def test_bad_changes(
    app: Mutirao, report: Task[..., Any], terms: dict[str, Any], message: str
) -> None:
    """Refused like a bad beginning; what was stays."""
    before = await app.schedules.aput("s", report.job(), "0 0 * * *", catch_up="all")
    with pytest.raises(InvalidSchedule, match=message):
        await app.schedules.achange("s", **terms)
    assert await app.schedules.aput("s", report.job(), "0 0 * * *", catch_up="all") == before


async def test_arguments_are_checked(app: Mutirao, report: Task[..., Any]) -> None:
    """As those of an enqueue: they are the same call."""
    with pytest.raises(InvalidArguments, match="Expected `int`"):
        await app.schedules.aput("s", report.job("monday"), every=5)


@pytest.mark.parametrize("order", ["apause", "aresume", "aremove", "arun_now", "achange"])
async def test_unknown_names(app: Mutirao, order: str) -> None:
    """No order makes one."""
    with pytest.raises(UnknownSchedule, match="no schedule 's'"):
        await getattr(app.schedules, order)("s")


def test_in_code(app: Mutirao) -> None:
    """Above a task, or alone; with or without a job; the task stays what it is."""

    @app.schedule("30 3 * * *", timezone="Europe/Berlin", args={"day": 7})
    @app.task(queue="reports")
    async def report(day: int) -> None: ...

    @app.schedule(every=HOUR, name="hourly", overlap="after")
    def sweep(job: Job) -> None: ...

    nightly, hourly = app.schedules.declared()
    assert app.tasks == {"report": report, "sweep": sweep}
    assert (nightly.name, nightly.cron, nightly.job) == ("report", "30 3 * * *", report.job(day=7))
    assert (hourly.name, hourly.every, hourly.job) == ("hourly", HOUR, sweep.job())


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda app: app.schedule("61 * * * *"), "no cron line"),
        (lambda app: app.schedule(), "neither cron nor every"),
        (lambda app: app.schedule("* * * * *", timezone="Mars/X"), "no time zone"),
        (lambda app: app.schedule(every=-1), "give more than no time"),
    ],
)
def test_bad_code(app: Mutirao, declare: Callable[[Mutirao], Any], message: str) -> None:
    """Is refused where it is written, when the module is imported."""
    with pytest.raises(InvalidSchedule, match=message):
        declare(app)


def test_two_of_a_name(app: Mutirao) -> None:
    """The second needs a name of its own."""

    @app.schedule(every=HOUR)
    @app.task
    def report() -> None: ...

    with pytest.raises(InvalidSchedule, match="two schedules are called 'report'"):
        app.schedule("0 0 * * *")(report)
    app.schedule("0 0 * * *", name="daily")(report)


def test_bad_arguments_in_code(app: Mutirao) -> None:
    """Are found when a worker starts, when all annotations can be read."""

    @app.schedule(every=HOUR, args={"day": "monday"})
    @app.task
    def report(day: int) -> None: ...

    with pytest.raises(InvalidArguments, match="Expected `int`"):
        app.schedules.declared()
