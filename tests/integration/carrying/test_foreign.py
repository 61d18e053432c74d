"""Consumers of what other programs publish: read, run, retried, buried with a cause."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mutirao import Job, Mutirao, Retry
from mutirao.errors import ConfigurationError
from mutirao.model.brokers.message import DeadMessage
from mutirao.transports.decoding import Decoded, ForeignMessage, celery, json_arguments
from mutirao.transports.memory import MemoryTransport
from mutirao.transports.sqs import SQS
from tests.support.waiting import until

SOON = 0.05  # seconds


@pytest.fixture
async def broker() -> MemoryTransport:
    """A broker with a queue of other programs."""
    broker = MemoryTransport(source="theirs")
    await broker.declare(["theirs"])
    return broker


@pytest.fixture
async def app() -> AsyncIterator[Mutirao]:
    """An application that needs no database."""
    app = Mutirao()
    yield app
    await app.aclose()


async def dead(broker: MemoryTransport, number: int = 1) -> list[DeadMessage]:
    """Wait until so many messages are dead; return them."""

    async def found() -> list[DeadMessage] | None:
        there = await broker.dead("theirs", 100)
        return there if len(there) >= number else None

    return await until(found)


async def test_a_handler_of_theirs(app: Mutirao, broker: MemoryTransport) -> None:
    """It is retried like any task, with the id that it had, and may be enqueued like one."""
    ran: list[tuple[int, int, int]] = []

    @app.consumer(broker, decode=json_arguments, retry=Retry.fixed(3, interval=SOON))
    async def order(job: Job, number: int) -> None:
        ran.append((number, job.id, job.attempt))
        if job.attempt == 1:
            raise OSError("not yet")

    broker.publish_raw("theirs", b'{"number": 1}')
    async with app.worker(queues=["theirs"]):
        await until(lambda: len(ran) == 2)
        await order.aenqueue(2)
        await until(lambda: len(ran) == 4)
    assert [(number, attempt) for number, _, attempt in ran] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert ran[0][1] == ran[1][1]


async def test_what_cannot_be_decoded(
    app: Mutirao, broker: MemoryTransport, caplog: pytest.LogCaptureFixture
) -> None:
    """It is dead with the cause, told once, and the others run."""
    ran: list[int] = []

    @app.consumer(broker, decode=json_arguments)
    async def order(number: int) -> None:
        ran.append(number)

    for body in (b"\xff", b"[1]", b'{"other": 1}', b'{"other": 2}', b'{"number": 7}'):
        broker.publish_raw("theirs", body)
    with caplog.at_level(logging.ERROR, "mutirao"):
        async with app.worker(queues=["theirs"]):
            found = await dead(broker, 4)
            await until(lambda: ran == [7])
    assert {each.cause.error_type for each in found} == {"Unreadable"}
    values = {each.raw: each.cause.error for each in found}
    assert "UnicodeDecodeError" in values[b"\xff"]
    assert "a list where a JSON object" in values[b"[1]"]
    assert "order" in values[b'{"other": 2}']
    assert caplog.text.count("a message of queue 'theirs' is dead") == 3
    assert await broker.return_dead("theirs", None) == 4


async def test_what_a_decoder_raises(app: Mutirao, broker: MemoryTransport) -> None:
    """Whatever it says, and however much: a part of it fits beside the message."""

    class Silent(Exception):
        def __str__(self) -> str:
            raise OSError

    raised = [ValueError("\ud800" + "é" * 1_000_000), Silent()]

    def decode(message: ForeignMessage) -> Decoded:
        raise raised[int(message.body)]

    app.consumer(broker, decode=decode, name="one")(lambda: None)
    for body in (b"0", b"1"):
        broker.publish_raw("theirs", body)
    async with app.worker(queues=["theirs"]):
        long, silent = sorted(await dead(broker, 2), key=lambda each: each.raw)
    assert r"\ud800" in long.cause.error
    assert len(long.cause.error.encode()) < 20_000
    assert "Silent: <its __str__ raised OSError>" in silent.cause.error


async def test_the_decoder_says_more(app: Mutirao, broker: MemoryTransport) -> None:
    """Which task, whose job, not before and not after which moment."""
    ran: list[tuple[str, Any]] = []
    moment = datetime.now(UTC)

    def decode(message: ForeignMessage) -> Decoded:
        values: Mapping[str, Any] = json.loads(message.body)
        late = moment - timedelta(seconds=1) if values.get("late") else None
        due = moment + timedelta(seconds=values.get("wait", 0))
        said = Decoded(task=values["task"], positional=values["args"], run_at=due, expires_at=late)
        return replace(said, tenant="acme", id=values.get("id"))

    @app.consumer(broker, decode=decode)
    async def greet(job: Job, name: str, times: int = 1) -> None:
        ran.append(("greet", (name, times, job.tenant, str(job.id))))

    @app.consumer(broker, decode=decode, name="shop.count")
    async def count(n: int) -> None:
        ran.append(("count", (n, datetime.now(UTC) - moment >= timedelta(seconds=0.3))))

    id = "0" * 31 + "7"
    for values in (
        {"task": "shop.count", "args": [1], "wait": 0.3},
        {"task": "greet", "args": ["late"], "late": True},
        {"task": "greet", "args": ["Ana", 2], "id": id},
    ):
        broker.publish_raw("theirs", json.dumps(values).encode())
    async with app.worker(queues=["theirs"]):
        await until(lambda: len(ran) == 2)
    assert ran == [("greet", ("Ana", 2, "acme", id)), ("count", (1, True))]
    assert await broker.dead("theirs", 10) == []


async def test_what_no_decoder_may_say(app: Mutirao, broker: MemoryTransport) -> None:
    """It ends its message, and not the worker."""
    naive = datetime(2026, 1, 2)  # noqa: DTZ001 (what is wrong)
    wrong: list[dict[str, Any]] = [
        {"run_at": naive}, {"timeout": "soon"}, {"args": [1]}, {"id": 7}, {"positional": "x"},
        {"task": ""}, {"id": "\ud800"},
    ]  # fmt: skip

    def decode(message: ForeignMessage) -> Decoded:
        return Decoded(**wrong[int(message.body)])

    app.consumer(broker, decode=decode, name="one")(lambda: None)
    for n in range(len(wrong)):
        broker.publish_raw("theirs", str(n).encode())
    async with app.worker(queues=["theirs"]) as worker:
        found = await dead(broker, len(wrong))
        assert worker.health().alive
    for each in found:
        assert f"returned {next(iter(wrong[int(each.raw)]))}=" in each.cause.error


async def test_which_task_is_not_said(app: Mutirao, broker: MemoryTransport) -> None:
    """With two of them nobody knows."""
    for name in ("one", "two"):
        app.consumer(broker, decode=json_arguments, name=name)(lambda: None)
    broker.publish_raw("theirs", b"{}")
    async with app.worker(queues=["theirs"]):
        (found,) = await dead(broker)
    assert "names no task, and 2 consume" in found.cause.error


def test_what_is_no_consumer(app: Mutirao, broker: MemoryTransport) -> None:
    """A transport of ours, another one of the same queue, a queue beside it."""
    app.consumer(broker, decode=celery)(print_it)
    with pytest.raises(ConfigurationError, match="another transport or decoder"):
        app.consumer(MemoryTransport(source="theirs"), decode=celery)
    with pytest.raises(ConfigurationError, match="another transport or decoder"):
        app.consumer(broker, decode=json_arguments)
    with pytest.raises(ConfigurationError, match="leave queue out"):
        app.consumer(broker, decode=celery, queue="mail")
    for ours in (MemoryTransport(), SQS("mail")):
        with pytest.raises(ConfigurationError, match="no queue of other programs"):
            app.consumer(ours, decode=celery)
    with pytest.raises(ConfigurationError, match=r"give it to @app\.consumer"):
        Mutirao(transports={"mail": broker})


def print_it() -> None:
    """Do nothing."""
