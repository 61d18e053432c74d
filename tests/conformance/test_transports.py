"""The contract of a transport, in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from mutirao.model.message import Delivery
from mutirao.ports import Transport
from mutirao.testing.conformance import TransportContract
from mutirao.testing.conformance.kit import deadline
from mutirao.testing.conformance.transport import (
    OTHER,
    QUEUE,
    PublishForeign,
    letter,
    publish,
    receive,
)
from mutirao.transports.memory import MemoryTransport


class TestMemoryTransport(TransportContract):
    """A broker in this process."""

    @pytest.fixture
    async def transport(self) -> AsyncIterator[MemoryTransport]:
        """A broker with the queues of the contract."""
        transport = MemoryTransport()
        await transport.declare([QUEUE, OTHER])
        yield transport
        await transport.aclose()

    @pytest.fixture
    def unreachable(self) -> Transport:
        """A broker that is away."""
        transport = MemoryTransport()
        transport.available = False
        return transport

    @pytest.fixture
    def publish_foreign(self, transport: MemoryTransport) -> PublishForeign:
        """Anything at all."""

        async def publish(queue: str, body: bytes) -> None:
            transport.publish_raw(queue, body)

        return publish

    async def test_a_broken_connection(self, transport: MemoryTransport) -> None:
        """Who consumed is told what was lost, and it comes again."""
        await publish(transport, letter())
        lost: list[Sequence[Delivery]] = []
        async with deadline(), transport.consumer(QUEUE, 5, lost.append) as consumer:
            (delivery,) = await receive(consumer)
            transport.lose_consumers()
            with pytest.raises(Exception, match="broken"):
                await consumer.receive(1)
        assert lost == [[delivery]]
