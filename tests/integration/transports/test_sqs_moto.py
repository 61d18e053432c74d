"""Faults of SQS as moto's server has them: over HTTP, with another program beside ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import boto3
import pytest

from mutirao.errors import DeliveryLost, TransportMismatch
from mutirao.model.brokers.message import Ack, Again
from mutirao.transports.sqs import SQS
from mutirao.transports.sqs.consumer import SqsConsumer
from tests.support.sqs import USUAL
from tests.support.sqs_world import id_of, message, receive
from tests.support.waiting import until


class Queue:
    """One queue, as ours and as another program sees it."""

    def __init__(self, url: str, *, fifo: bool) -> None:
        self.transport = SQS(
            f"{uuid4().hex}-{{queue}}", endpoint_url=url, visibility=2, wait=1, fifo=fifo
        )
        self.client: Any = boto3.client("sqs", endpoint_url=url)
        self.lost: list[str] = []

    @property
    def where(self) -> dict[str, str]:
        """How a request names it."""
        return {"QueueUrl": self.transport._queue("q").url}

    @asynccontextmanager
    async def consuming(self, prefetch: int = 10) -> AsyncIterator[SqsConsumer]:
        """Consume it, and note what is lost."""

        def lose(lost: Any) -> None:
            self.lost += [id_of(each) for each in lost]

        async with self.transport.consumer("q", prefetch, lose) as consumer:
            yield consumer


@pytest.fixture
async def queue(
    moto_url: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Queue]:
    """One that is declared; `fifo` as a parameter for one that keeps order."""
    for name, value in USUAL.items():
        monkeypatch.setenv(name, value)
    queue = Queue(moto_url, fifo=getattr(request, "param", None) == "fifo")
    await queue.transport.declare(["q"])
    yield queue
    await queue.transport.aclose()
    queue.client.close()


async def test_a_worker_that_is_gone(queue: Queue) -> None:
    """What it held is visible once its time is over; what we hold is not, however long that is."""
    await queue.transport.publish([message("a")])
    assert queue.client.receive_message(**queue.where, VisibilityTimeout=1)["Messages"]
    async with queue.consuming() as consumer:
        [held] = await receive(consumer)
        assert held.message is not None
        assert (held.message.attempt, held.returned) == (1, 1)
        extended = held.tag.deadline
        await until(lambda: held.tag.deadline > extended)
        assert await consumer.settle([Ack(held)]) == [None]
    assert not queue.lost
    assert "Messages" not in queue.client.receive_message(**queue.where, WaitTimeSeconds=0)


async def test_handles_that_are_stale(queue: Queue) -> None:
    """It is said of each alone: when it is extended or deleted."""
    await queue.transport.publish([message(id) for id in "abcd"])
    async with queue.consuming() as consumer:
        by_id = {id_of(each): each for each in await receive(consumer, 4)}
        for id in ("a", "b"):  # somebody else has done them
            queue.client.delete_message(**queue.where, ReceiptHandle=by_id[id].tag.handle)
        by_id["c"].tag.handle = "none"
        again = by_id["b"].message
        assert again is not None
        failure = await consumer.settle(
            [Ack(by_id["d"]), Ack(by_id["c"]), Again(by_id["b"], again)]
        )
        assert [type(each) for each in failure] == [type(None), DeliveryLost, type(None)]
        await until(lambda: queue.lost == ["a"])


@pytest.mark.parametrize("queue", ["fifo"], indirect=True)
async def test_a_group(queue: Queue) -> None:
    """Is locked while one of it is held, and comes in order after a failure."""
    sent = [message(id, ordering_key=id[0]) for id in ("a1", "a2", "b1")]
    assert await queue.transport.publish(sent) == [None] * 3
    async with queue.consuming() as consumer:
        a1, b1 = await receive(consumer, 2)
        assert [id_of(a1), id_of(b1)] == ["a1", "b1"]
        elsewhere = queue.client.receive_message(**queue.where, WaitTimeSeconds=0)
        assert "Messages" not in elsewhere
        assert a1.message is not None
        assert await consumer.settle([Again(a1, a1.message), Ack(b1)]) == [None] * 2
        for expected in ("a1", "a2"):
            [each] = await receive(consumer)
            assert id_of(each) == expected
            assert await consumer.settle([Ack(each)]) == [None]


async def test_a_queue_that_is_deleted(queue: Queue) -> None:
    """Receiving waits until it is there again; publishing says what to do."""
    async with queue.consuming() as consumer:
        queue.client.delete_queue(**queue.where)
        [failure] = await queue.transport.publish([message("a")])
        assert isinstance(failure, TransportMismatch)
        await queue.transport.declare(["q"])
        assert await queue.transport.publish([message("b")]) == [None]
        assert [id_of(each) for each in await receive(consumer)] == ["b"]
