"""The broker of the chaos: a RabbitMQ node of our own, which workers reach through a proxy."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import aiormq

from mutirao.transports.rabbitmq import RabbitMQ
from tests.acceptance.chaos import app
from tests.acceptance.shared.proxy import BOTH, Proxy
from tests.support.rabbitmq import RabbitServer

DEAD = f"{app.PREFIX}-dead."


class Broker:
    """The node and what is done to it. `purged`: how many messages were thrown away, by queue."""

    def __init__(self, server: RabbitServer, proxy: Proxy) -> None:
        self._server, self._proxy = server, proxy
        self.url = f"amqp://guest:guest@127.0.0.1:{proxy.port}/"
        self.purged: Counter[str] = Counter()

    def declare(self) -> None:
        """Make the queues."""

        async def declare() -> None:
            broker = RabbitMQ(self._server.url(), prefix=app.PREFIX)
            await broker.declare(app.QUEUES)
            await broker.aclose()

        asyncio.run(declare())

    def crash(self) -> None:
        """End the node with SIGKILL, and start it again."""
        self._server.crash()

    def purge(self) -> None:
        """Throw away all that waits in any queue, but the dead: they wait for people."""

        async def purge(names: list[str]) -> None:
            async with aiormq.connect(self._server.url()) as connection:
                channel = await connection.channel()
                for name in names:
                    told = await channel.queue_purge(name)
                    self.purged[name] += told.message_count or 0

        asyncio.run(purge([name for name in self.held() if DEAD not in name]))

    def cut(self, seconds: float) -> None:
        """Let no byte pass between the node and anybody for a while, on new connections neither."""
        self._proxy.silence(BOTH, new=True)
        time.sleep(seconds)
        self._proxy.speak()

    def held(self) -> dict[str, int]:
        """Return how many messages each of our queues has, those that workers hold included."""
        told = self._server.control("list_queues", "name", "messages", "--no-table-headers")
        rows = (line.rsplit(None, 1) for line in told.splitlines() if line.strip())
        return {name: int(n) for name, n in rows if name.startswith(app.PREFIX)}


@contextmanager
def broker_on(server: RabbitServer) -> Iterator[Broker]:
    """Lend a broker with the queues of the application, on a server which may be killed."""
    with Proxy(server.port) as proxy:
        broker = Broker(server, proxy)
        broker.declare()
        yield broker
