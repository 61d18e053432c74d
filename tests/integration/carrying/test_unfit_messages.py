"""Messages that can be read and not be used: each is dead, and no other one waits for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mutirao import Mutirao
from mutirao.model.brokers.message import Message
from mutirao.transports.decoding import Decoded
from mutirao.transports.memory import MemoryTransport
from mutirao.transports.sqs import SQS
from tests.support.sqs_faults import FakeSqs
from tests.support.waiting import until

HUGE = 10**400


@pytest.mark.parametrize(
    "headers", [{"timeout": HUGE}, {"max-attempts": -1}, {"tags": "[" * 9_999}]
)
async def test_headers_of_a_message(headers: dict[str, Any]) -> None:
    """Of any size and depth."""
    broker, ran = MemoryTransport(), list[int]()
    await broker.declare(["mail"])
    app = Mutirao(transports={"mail": broker})
    send = app.task(queue="mail", name="send")(lambda n: ran.append(n))
    await broker.publish([Message(id="a", task="send", queue="mail", headers=headers)])
    await send.aenqueue(1)
    async with app.worker(queues=["mail"], concurrency=1) as worker:
        await until(lambda: ran == [1])
        [dead] = await broker.dead("mail", 5)
        assert worker.health().alive
    assert (dead.id, dead.cause.error_type) == ("a", "Unreadable")
    await app.aclose()


async def test_what_a_decoder_returns() -> None:
    """A number that is no float, and a zone whose hours nobody can tell."""
    broker, ran = MemoryTransport(source="theirs"), list[str]()
    await broker.declare(["theirs"])
    app = Mutirao()

    def decode(message: Any) -> Decoded:
        if message.body == b"huge":
            return Decoded(timeout=HUGE)
        return Decoded(args={"told": message.body.decode()})

    @app.consumer(broker, decode=decode)
    async def take(told: str = "") -> None:
        ran.append(told)

    for body in (b"huge", b"good"):
        broker.publish_raw("theirs", body)
    async with app.worker(queues=["theirs"], concurrency=1) as worker:
        await until(lambda: ran == ["good"])
        [dead] = await broker.dead("theirs", 5)
        assert worker.health().alive
    assert "OverflowError" in dead.cause.error
    await app.aclose()


async def test_bodies_and_attributes_on_sqs() -> None:
    """Bodies of others up to the largest, numbers of 400 digits, and causes that are none."""
    client = FakeSqs()
    broker, ran = SQS(clients=lambda: (client, client), wait=1), list[int]()
    await broker.declare(["mail"])
    app = Mutirao(transports={"mail": broker})
    send = app.task(queue="mail", name="send")(lambda n: ran.append(n))
    url = client.get_queue_url(QueueName="mail")["QueueUrl"]
    huge = json.dumps({"id": "a", "task": "send", "headers": {"timeout": 7}}).replace(
        "7", str(HUGE)
    )
    for n, body in enumerate(["x" * (1 << 20), huge, '{"id": "b", "task": 1}', "[" * 9_999]):
        entry = {"Id": str(n), "MessageBody": body}
        client.send_message_batch(QueueUrl=url, Entries=[entry])
    await send.aenqueue(1)
    async with app.worker(queues=["mail"], concurrency=1) as worker:
        await until(lambda: ran == [1])

        async def buried() -> bool:
            return len(await broker.dead("mail", 9)) == 4

        await until(buried)
        assert worker.health().alive
    of_dead = client.get_queue_url(QueueName="mail-dead")["QueueUrl"]
    value = {"DataType": "String", "StringValue": "[" * 9_999}
    said: dict[str, Any] = {"Id": "0", "MessageBody": "x"}
    entry = said | {"MessageAttributes": {"MutiraoCause": value}}
    client.send_message_batch(QueueUrl=of_dead, Entries=[entry])
    assert len(await broker.dead("mail", 9)) == 5
    assert await broker.drop_dead("mail", None) == 5
    await app.aclose()
