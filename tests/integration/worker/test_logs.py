"""What the library's own log says of every attempt, as fields."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mutirao import Dead, Mutirao, NewJob, Retry, Snooze
from mutirao.telemetry.logs import JsonFormatter, TextFormatter
from tests.integration.worker import children
from tests.integration.worker.kit import ended, working

pytestmark = pytest.mark.repeats("postgresql", decided="tests/conformance")

FIELDS = ("job", "task", "queue", "attempt", "run", "outcome")


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    """Return level and fields of every record about an attempt's end."""
    return [
        (record.levelname, *(getattr(record, name) for name in FIELDS))
        for record in caplog.records
        if hasattr(record, "outcome")
    ]


@pytest.fixture(autouse=True)
def _on_beat(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mutirao")


async def test_every_outcome(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """Job, task, queue, attempt, run and time taken are fields, the level says how bad it is."""
    steps = iter([Snooze(0), ValueError("no such order\nsecond line"), None])

    @app.task(queue="mail", retry=Retry.fixed(interval=0))
    async def send(order_id: int) -> None:
        for step in steps:
            if step is None:
                return
            raise step

    async with working(app):
        await ended(app, send.enqueue(7).id)
    assert said(caplog) == [
        ("INFO", 1, "send", "mail", 1, 1, "snoozed"),
        ("WARNING", 1, "send", "mail", 1, 2, "retried"),
        ("INFO", 1, "send", "mail", 2, 3, "succeeded"),
    ]
    ends = [record for record in caplog.records if hasattr(record, "outcome")]
    assert all(0 <= getattr(record, "ms", -1) < 60_000 for record in ends)
    text = ends[1].getMessage()
    assert text.startswith("job 1 (send) retried in ")
    assert text.endswith(" s: ValueError: no such order")
    starts = [r for r in caplog.records if r.getMessage() == "job 1 (send) starts"]
    assert [(r.levelname, getattr(r, "run", None)) for r in starts] == [
        ("DEBUG", 1),
        ("DEBUG", 2),
        ("DEBUG", 3),
    ]


async def test_deaths(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """Are errors, whatever the job died of."""

    @app.task(max_attempts=1)
    async def send(order_id: int) -> None:
        raise ValueError

    async with working(app):
        await ended(app, send.enqueue(7).id)
        await ended(app, app.submit(NewJob(task="send")).id)
    assert [(line[0], line[-1]) for line in said(caplog)] == [("ERROR", "dead")] * 2


async def test_a_death_is_worth_an_alert(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """It has its exception with the traceback, and a template by which tasks are told apart."""

    @app.task(max_attempts=2, retry=Retry.fixed(2, interval=0), name="send 100%s")
    async def send() -> None:
        raise ValueError("no such order\nsecond line")

    @app.task(timeout=0.01, max_attempts=1)
    async def hang() -> None:
        await asyncio.Event().wait()

    @app.task
    async def refuse(order_id: int) -> None:
        raise AssertionError

    @app.task
    async def gone() -> None:
        raise Dead("410 Gone")

    children.register(app)
    async with working(app):
        refused = NewJob(task="refuse")
        for job in (send.job(), hang.job(), refused, children.fail.job("error"), gone.job()):
            await ended(app, app.submit(job).id)
    retried = [record for record in caplog.records if record.levelname == "WARNING"]
    assert {record.exc_info for record in retried} == {None}
    deaths = {record.task: record for record in caplog.records if record.levelname == "ERROR"}  # type: ignore[attr-defined]
    decided = deaths.pop("gone")
    assert (decided.exc_info, decided.getMessage()[-14:]) == (None, "Dead: 410 Gone")
    assert [str(record.msg) for record in deaths.values()] == [
        f"job %s ({task}) dead in %.3f s%s" for task in ("send 100%%s", "hang", "refuse", "fail")
    ]
    record = deaths["send 100%s"]
    assert record.getMessage().startswith("job 1 (send 100%s) dead in 0.")
    assert record.getMessage().endswith(" s: ValueError: no such order")
    kinds = ["ValueError", "AttemptTimeout", "InvalidArguments", "JobDied"]
    assert [_raised(record).__name__ for record in deaths.values()] == kinds
    text, lines = (form.format(record) for form in (TextFormatter(), JsonFormatter()))
    for said in (text, lines):
        assert "Traceback (most recent call last)" in said
        assert 'raise ValueError("no such order' in said.replace("\\", "")
    of_child = TextFormatter().format(deaths["fail"])
    assert "JobDied: ValueError: nul" in of_child
    assert "Traceback (most recent call last)" in of_child


def _raised(record: logging.LogRecord) -> type[BaseException]:
    assert record.exc_info is not None
    assert record.exc_info[0] is not None
    return record.exc_info[0]


async def test_payloads_stay_out(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """They may be secret."""

    @app.task(max_attempts=1)
    async def send(password: str) -> None:
        raise ValueError("refused")

    async with working(app):
        await ended(app, send.enqueue("hunter2").id)
    assert "refused" in caplog.text
    assert "hunter2" not in caplog.text


async def test_whose_job_it_is(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """Its tenant or its group, where it has one: what it lacks is no field of the line."""

    @app.task
    async def step() -> None: ...

    with caplog.at_level(logging.INFO):
        async with working(app):
            await ended(app, (await step.using(tenant="acme").aenqueue()).id)
    [line] = [each for each in caplog.records if getattr(each, "outcome", "") == "succeeded"]
    assert vars(line)["tenant"] == "acme"
    assert "group" not in vars(line)


async def test_the_worker_itself(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """Says when it starts and when it has stopped."""

    @app.task
    async def send() -> None:
        pass

    async with working(app):
        pass
    messages = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert messages[0].startswith("worker 1 (")
    assert messages[0].endswith(") started")
    assert messages[-1] == "worker 1 stopped"
