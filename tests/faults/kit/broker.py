"""A broker that is troubled: a RabbitMQ node of our own, which workers reach through a proxy."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import aiormq

from mutirao.transports.rabbitmq import RabbitMQ
from tests.faults.kit.proxy import BOTH, Proxy
from tests.support.rabbitmq import RabbitServer

T = TypeVar("T")


class Broker:
    """The node and what is done to it. `purged`: how many messages were thrown away, by queue.

    `prefix`: of all names at it that are ours.
    """

    def __init__(self, server: RabbitServer, proxy: Proxy, prefix: str) -> None:
        self._server, self._proxy, self._prefix = server, proxy, prefix
        self.url = f"amqp://guest:guest@127.0.0.1:{proxy.port}/"
        self.purged: Counter[str] = Counter()

    def declare(self, queues: Sequence[str]) -> None:
        """Make queues."""
        self._ask(lambda broker: broker.declare(queues))

    def dead(self, queue: str, most: int = 5) -> list[str]:
        """Return what killed the first `most` dead messages of a queue."""
        found = self._ask(lambda broker: broker.dead(queue, most))
        return [f"{each.cause.error_type}: {each.cause.error}" for each in found]

    def _ask(self, ask: Callable[[RabbitMQ], Awaitable[T]]) -> T:
        """Ask the node by a connection of its own, past the proxy."""

        async def asking() -> T:
            broker = RabbitMQ(self._server.url(), prefix=self._prefix)
            found = await ask(broker)
            await broker.aclose()
            return found

        return asyncio.run(asking())

    def crash(self) -> None:
        """End the node with SIGKILL, and start it again."""
        self._server.crash()

    def purge(self) -> None:
        """Throw away all that waits in any queue, but the dead: they wait for people."""

        async def purge(names: list[str]) -> None:
            async with aiormq.connect(self._server.url()) as connection:
                channel = await connection.channel()
                for name in names:
                    found = await channel.queue_purge(name)
                    self.purged[name] += found.message_count or 0

        dead = f"{self._prefix}-dead."
        asyncio.run(purge([name for name in self.held() if dead not in name]))

    def delete(self, queue: str) -> None:
        """Delete a queue with all that it has, what workers hold included, and make it again."""

        async def delete(name: str) -> None:
            async with aiormq.connect(self._server.url()) as connection:
                found = await (await connection.channel()).queue_delete(name)
                self.purged[name] += found.message_count or 0

        asyncio.run(delete(f"{self._prefix}.{queue}"))
        self.declare([queue])

    def cut(self, seconds: float) -> None:
        """Let no byte pass between the node and anybody for a while, on new connections neither."""
        with self.out_of_reach():
            time.sleep(seconds)

    @contextmanager
    def out_of_reach(self) -> Iterator[None]:
        """Let no byte pass until the block is left."""
        self._proxy.silence(BOTH, new=True)
        try:
            yield
        finally:
            self._proxy.speak()

    def held(self) -> dict[str, int]:
        """Return how many messages each of our queues has, those that workers hold included."""
        found = self._server.control("list_queues", "name", "messages", "--no-table-headers")
        rows = (line.rsplit(None, 1) for line in found.splitlines() if line.strip())
        return {name: int(n) for name, n in rows if name.startswith(self._prefix)}


@contextmanager
def broker_on(server: RabbitServer, prefix: str, queues: Sequence[str]) -> Iterator[Broker]:
    """Lend a broker with the queues of an application, on a server which may be killed."""
    with Proxy(server.port) as proxy:
        broker = Broker(server, proxy, prefix)
        broker.declare(queues)
        yield broker
