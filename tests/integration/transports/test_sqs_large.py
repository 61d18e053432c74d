"""Arguments that are too large for a message of SQS, in S3: on moto's server, which has both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import boto3
import pytest

from mutirao.errors import MessageTooLarge, TransportMismatch, TransportUnavailable
from mutirao.model.brokers.message import Ack, Bury, Cause, Delivery, Message
from mutirao.transports.sqs import SQS
from mutirao.transports.sqs.consumer import SqsConsumer
from tests.support.servers import free_port
from tests.support.sqs import USUAL
from tests.support.waiting import soon

LARGE = '{"text": "%s"}' % ("x" * (3 << 19))  # 1.5 MiB
QUEUE = "films"


class World:
    """A bucket, and queues of one pattern."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {**USUAL, "AWS_ENDPOINT_URL_S3": url}.items():
            monkeypatch.setenv(name, value)
        self.url, self.bucket = url, uuid4().hex
        self.s3: Any = boto3.client("s3")
        self.s3.create_bucket(Bucket=self.bucket)
        self.transports: list[SQS] = []

    def transport(self, **options: Any) -> SQS:
        """Return a transport."""
        usual = {"endpoint_url": self.url, "bucket": self.bucket, "wait": 1, "visibility": 2}
        name = f"{self.bucket}-{{queue}}"
        self.transports.append(SQS(name, **{**usual, **options}))
        return self.transports[-1]

    def objects(self) -> list[str]:
        """Return the keys of what is in the bucket."""
        found = self.s3.list_objects_v2(Bucket=self.bucket)
        return [each["Key"] for each in found.get("Contents", ())]

    @asynccontextmanager
    async def received(self, transport: SQS) -> AsyncIterator[tuple[SqsConsumer, Delivery]]:
        """Receive one delivery."""
        async with transport.consumer(QUEUE, 1, print) as consumer:
            yield consumer, (await soon(consumer.receive(1)))[0]


@pytest.fixture
async def world(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """One whose queues are declared."""
    world = World(moto_url, monkeypatch)
    await world.transport().declare([QUEUE])
    yield world
    for each in world.transports:
        await each.aclose()


async def publish(transport: SQS, id: str = "a") -> None:
    """Publish a large message."""
    message = Message(id=id, task="cut", queue=QUEUE, args=LARGE)
    assert await transport.publish([message]) == [None]


async def test_is_kept_until_it_is_done(world: World) -> None:
    """The message says where its arguments are; they go with it."""
    transport = world.transport()
    await publish(transport)
    assert world.objects() == ["mutirao/a"]
    async with world.received(transport) as (consumer, delivery):
        assert delivery.message is not None
        assert delivery.message.args == LARGE
        assert await consumer.settle([Ack(delivery)]) == [None]
    assert world.objects() == []


async def test_is_kept_with_the_dead(world: World) -> None:
    """It may be returned from there; dropped, it is gone."""
    transport = world.transport()
    await publish(transport)
    for end in (transport.return_dead, transport.drop_dead):
        async with world.received(transport) as (consumer, delivery):
            assert delivery.message is not None
            assert (delivery.message.args, delivery.message.attempt) == (LARGE, 1)
            assert await consumer.settle([Bury(delivery, Cause(error_type="Bad", error="no"))]) == [
                None
            ]
        [dead] = await transport.dead(QUEUE, 5)
        assert (dead.id, dead.task) == ("a", "cut")
        assert await end(QUEUE, ["a"]) == 1
    assert world.objects() == []


async def test_what_is_not_there_any_more(world: World) -> None:
    """Such a message cannot be read, and says why; so it is where nobody knows the bucket."""
    await publish(world.transport())
    world.s3.delete_object(Bucket=world.bucket, Key="mutirao/a")
    problems = []
    for options in ({}, {"bucket": None}):
        async with world.received(world.transport(**options)) as (_, delivery):
            assert delivery.message is None
            problems.append(delivery.problem or "")
    assert "cannot be read there" in problems[0]
    assert "say in which bucket" in problems[1]


async def test_s3_is_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is published then; what was comes again when it is back."""
    await publish(transport := world.transport())
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free_port()}")
    without = world.transport()
    [found] = await without.publish([Message(id="b", task="cut", queue=QUEUE, args=LARGE)])
    assert isinstance(found, TransportUnavailable)
    async with without.consumer(QUEUE, 1, print) as consumer:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.receive(1), 0.5)
    async with world.received(transport) as (consumer, delivery):
        assert delivery.message is not None
        assert delivery.returned
        assert await consumer.settle([Ack(delivery)]) == [None]


async def test_no_bucket(world: World) -> None:
    """It is told to whoever publishes, and by comparing."""
    message = Message(id="a", task="cut", queue=QUEUE, args=LARGE)
    [found] = await world.transport(bucket=None).publish([message])
    assert isinstance(found, MessageTooLarge)
    missing = world.transport(bucket="nowhere-at-all")
    [found] = await missing.publish([message])
    assert isinstance(found, TransportMismatch)
    assert [each.what for each in await missing.compare([QUEUE])] == [
        "bucket 'nowhere-at-all' of S3"
    ]


async def test_a_queue_of_somebody_else(world: World) -> None:
    """It is told what it lacks, and that it can be changed where it is."""
    other = world.transport()
    await other.declare([QUEUE])
    sqs: Any = boto3.client("sqs", endpoint_url=world.url)
    url = sqs.get_queue_url(QueueName=f"{world.bucket}-{QUEUE}")["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    [found] = await other.compare([QUEUE])
    assert str(found).endswith("has none; expected a redrive policy after 100 hand-outs")
    assert found.advice == "change it there"
