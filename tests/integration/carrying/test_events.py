"""What happens to jobs of a broker's queues, as whoever listens hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mutirao import Cancel, Dead, Job, Mutirao, Retry
from mutirao.client.events import Events
from mutirao.errors import ConfigurationError, TransportUnavailable
from mutirao.model.brokers.message import Message
from mutirao.model.jobs.events import JobEvent
from mutirao.ports import Transport
from mutirao.transports.memory import MemoryTransport
from mutirao.transports.sqs import SQS
from tests.support.waiting import soon, until

QUICK: dict[str, Any] = {"poll": 0.05, "heartbeat": 0.1, "expiry": 9.0}


@pytest.fixture
async def broker() -> MemoryTransport:
    """A broker with one queue, that tells."""
    broker = MemoryTransport(tells=True)
    await broker.declare(["mail"])
    return broker


@pytest.fixture
async def app(lite_url: str, broker: MemoryTransport) -> AsyncIterator[Mutirao]:
    """An application with a queue by broker alone."""
    app = Mutirao(lite_url, transports={"mail": broker})
    yield app
    await app.aclose()


async def until_kind(events: Events, kind: str) -> list[JobEvent]:
    """Return what comes until something of this kind has come."""
    found: list[JobEvent] = []
    while not found or found[-1].kind != kind:
        found.append(await soon(anext(events)))
    return found


async def test_the_life_of_jobs(app: Mutirao) -> None:
    """Each step, with what is known of it; of the tasks that are asked for."""

    @app.task(queue="mail", retry=Retry.fixed(2, interval=0.0))
    async def fail() -> None:
        raise ValueError("no \ud800 such\nthing")

    @app.task(queue="mail")
    async def stop() -> None:
        raise Cancel("enough")

    @app.task(queue="mail")
    def succeed() -> None: ...

    async with app.events(tasks=[fail.name, stop.name]) as events, app.worker(**QUICK):
        await succeed.aenqueue()
        handle = await fail.aenqueue()
        found = await until_kind(events, "dead")
        assert {each.job for each in found} == {str(handle.id)}
        assert [(each.kind, each.attempt) for each in found] == [
            ("published", 0), ("started", 1), ("retried", 1), ("started", 2), ("dead", 2),
        ]  # fmt: skip
        values, dead = found[0], found[-1]
        assert (values.worker, values.duration, values.error) == (None, None, None)
        assert dead.error == "ValueError: no \\ud800 such"
        assert dead.duration is not None
        assert dead.worker
        assert dead.queue == "mail"
        await stop.aenqueue()
        assert [each.kind for each in await until_kind(events, "stopped")][1:] == [
            "started",
            "stopped",
        ]
        assert events.dropped == 0


async def test_dead_without_an_attempt(app: Mutirao, broker: MemoryTransport) -> None:
    """What nobody can read, a header that says nothing, a task that nobody has: with the cause."""
    app.task(queue="mail", name="send")(lambda: None)
    unfit = Message(id="unfit", task="send", queue="mail", headers={"timeout": "soon"})
    given_up = Message(id=f"{7:032x}", task="other", queue="mail", headers={"unknown-here": 120})
    async with app.events() as events, app.worker(**QUICK):
        broker.publish_raw("mail", b"\xff")
        await broker.publish([unfit, given_up])
        unread, *others = [await soon(anext(events)) for _ in range(3)]
    assert {each.kind for each in (unread, *others)} == {"dead"}
    assert (unread.task, unread.job, unread.attempt) == ("", "", 0)
    values = {each.task: (each.job, (each.error or "").partition(":")[0]) for each in others}
    assert values["other"] == (given_up.id, "UnknownTask")
    assert values["send"][1] == "Unreadable"
    assert unread.worker


async def test_what_runs_for_long(app: Mutirao) -> None:
    """What runs on is told again and again, by kind, until it ends."""
    go_on = asyncio.Event()

    @app.task(queue="mail")
    async def wait() -> None:
        await go_on.wait()
        raise Dead("not today")

    wanted = app.events(kinds=["heartbeat", "dead"], queues=["mail"])
    async with wanted as events, app.worker(**QUICK):
        await wait.aenqueue()
        first, second = await soon(anext(events)), await soon(anext(events))
        assert (first.kind, second.kind) == ("heartbeat", "heartbeat")
        assert first.duration is not None
        assert first.duration < (second.duration or 0.0)
        go_on.set()
        assert (await until_kind(events, "dead"))[-1].error == "Dead: not today"


async def test_a_worker_that_vanishes(app: Mutirao, broker: MemoryTransport) -> None:
    """Whoever has the job next tells that it was lost."""
    began, go_on = asyncio.Event(), asyncio.Event()

    @app.task(queue="mail")
    async def wait(job: Job) -> None:
        began.set()
        await go_on.wait()

    kinds = ["started", "lost", "succeeded"]
    async with app.events(kinds=kinds) as events, app.worker(**QUICK):
        await wait.aenqueue()
        await began.wait()
        [consumer] = broker._queues["mail"].consumers
        broker.leave(consumer, broken=True)
        assert [each.kind for each in await until_kind(events, "lost")] == ["started", "lost"]
        go_on.set()
        found = await until_kind(events, "succeeded")
        assert [each.kind for each in found] == ["started", "succeeded"]


async def test_a_carried_queue(migrated_sqlite_url: str) -> None:
    """The relay tells what it has published; ids are those of the database."""
    broker = MemoryTransport("carried", tells=True)
    await broker.declare(["mail"])
    app = Mutirao(migrated_sqlite_url, transports={"mail": broker})

    @app.task(queue="mail")
    async def send() -> None: ...

    async with app.events() as events, app.worker(queues=["mail"], **QUICK):
        handle = await send.aenqueue()
        found = await until_kind(events, "succeeded")
        assert [(each.kind, each.job) for each in found] == [
            (kind, str(handle.id)) for kind in ("published", "started", "succeeded")
        ]
    await app.aclose()


async def test_the_broker_goes_away(
    app: Mutirao, broker: MemoryTransport, caplog: pytest.LogCaptureFixture
) -> None:
    """At the beginning that is raised; later it is waited for."""
    broker.available = False
    with pytest.raises(TransportUnavailable):
        async with app.events():
            raise AssertionError("nobody is there")
    broker.available = True

    @app.task(queue="mail")
    async def send() -> None: ...

    async with app.events() as events:
        broker.lose_consumers()
        await until(lambda: "events of memory come again" in caplog.text)
        await send.aenqueue()
        assert (await soon(anext(events))).kind == "published"


async def test_nobody_tells(app: Mutirao, tmp_path: Path) -> None:
    """It is refused at once, with what to do."""
    with pytest.raises(ConfigurationError, match="give some of published, started"):
        async with app.events(kinds=["finished"]):
            pass
    with pytest.raises(ConfigurationError, match="no events are published of queue video"):
        async with app.events(queues=["mail", "video"]):
            pass
    odd: list[tuple[str, dict[str, Any]]] = [
        (r"give a list, \['dead'\]", {"kinds": "dead"}),
        (r"give a list, \['send'\]", {"tasks": "send"}),
        ("most is 0; give a whole number, from 1", {"most": 0}),
    ]
    for found, given in odd:
        with pytest.raises(ConfigurationError, match=found):
            async with app.events(**given):
                pass
    silent: dict[str, Transport] = {"video": SQS("video"), "mail": MemoryTransport()}
    with pytest.raises(ConfigurationError, match="SQS and databases have no events"):
        async with Mutirao(f"sqlite:///{tmp_path}/x.db", transports=silent).events():
            pass
