"""The contract of a transport, on SQS: moto's server, and the fake that has its manners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import boto3
import pytest

from mutirao.ports import Transport
from mutirao.transports.sqs import SQS
from mutirao.transports.sqs.names import queue_name
from mutirao_conformance import TransportContract
from mutirao_conformance.transport import OTHER, QUEUE, PublishForeign
from tests.support.servers import free_port
from tests.support.sqs import USUAL
from tests.support.sqs_faults import FakeSqs


class _SqsContract(TransportContract):
    foreign = b"not for us"  # SQS carries text only
    names = "{queue}"

    @pytest.fixture
    def publish_foreign(self, client: Any) -> PublishForeign:
        """Text without an envelope."""

        async def publish(queue: str, body: bytes) -> None:
            url = client.get_queue_url(QueueName=queue_name(self.names, queue))["QueueUrl"]
            entry = {"Id": "0", "MessageBody": body.decode()}
            await asyncio.to_thread(client.send_message_batch, QueueUrl=url, Entries=[entry])

        return publish


class TestOnTheFake(_SqsContract):
    """In this process."""

    @pytest.fixture
    def client(self) -> FakeSqs:
        """A broker."""
        return FakeSqs()

    @pytest.fixture
    async def transport(self, client: FakeSqs) -> AsyncIterator[Transport]:
        """Two queues on it."""
        transport = SQS(clients=lambda: (client, client), wait=1)
        await transport.declare([QUEUE, OTHER])
        yield transport
        await transport.aclose()

    @pytest.fixture
    async def unreachable(self) -> AsyncIterator[Transport]:
        """One that is away."""
        client = FakeSqs()
        client.away = True
        transport = SQS(clients=lambda: (client, client))
        yield transport
        await transport.aclose()


class TestOnMoto:
    """Over HTTP, by boto3: what the fake could have in another way than a server has it."""

    foreign = _SqsContract.foreign
    publish_foreign = _SqsContract.publish_foreign
    test_everything_arrives = TransportContract.test_everything_arrives
    test_again_at_once_and_later = TransportContract.test_again_at_once_and_later
    test_the_dead_are_kept = TransportContract.test_the_dead_are_kept
    test_what_others_published = TransportContract.test_what_others_published
    test_a_queue_that_nobody_made = TransportContract.test_a_queue_that_nobody_made
    test_out_of_reach = TransportContract.test_out_of_reach

    names = f"{uuid4().hex}-{{queue}}"

    @pytest.fixture(autouse=True)
    def as_tester(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have credentials."""
        for name, value in USUAL.items():
            monkeypatch.setenv(name, value)

    @pytest.fixture
    def client(self, moto_url: str) -> Any:
        """A client of boto3."""
        return boto3.client("sqs", endpoint_url=moto_url)

    @pytest.fixture
    async def transport(self, moto_url: str) -> AsyncIterator[Transport]:
        """Two queues on it, with others than the last test had."""
        type(self).names = f"{uuid4().hex}-{{queue}}"
        transport = SQS(self.names, endpoint_url=moto_url, wait=1)
        await transport.declare([QUEUE, OTHER])
        yield transport
        await transport.aclose()

    @pytest.fixture
    async def unreachable(self) -> AsyncIterator[Transport]:
        """One that is away."""
        transport = SQS(endpoint_url=f"http://127.0.0.1:{free_port()}")
        yield transport
        await transport.aclose()
