"""`rabbitmq`: a queue by broker alone, beside the same messages by a bare aio-pika.

Both publish with confirms and `mandatory` to a quorum queue, so many under way at once, and
acknowledge each message. They publish in turns, as the disk that a confirm waits for is now slow
and now fast: a ratio is the median of those of the rounds. What they make at the broker begins with
`mutirao-bench`, and is emptied.

Peers do the same by adapters in `peers`, in an environment of their own each, as their
documentation advises for throughput: without confirms, on classic queues, where that is so.
"""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import aio_pika

from benchmarks.figures import Figures
from benchmarks.peers.envs import command
from mutirao import Mutirao
from mutirao.transports.rabbitmq import RabbitMQ

NAME = "mutirao-bench"
WINDOW = 2_000  # messages under way at once
PREFETCH = 1_000
ONE_BY_ONE = 10  # of so many messages one is published alone
ALONE_IN_A_ROUND = 10  # few, so that what differs between turns is little
BODY = b'{"n":12345}'
PATIENCE = 600.0  # seconds

Work = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Messages a second: published one by one, published many at once, and drained.

    `cpu`: microseconds of the process's processor time for one that is drained; None: unknown; and
    `alone_cpu` for one that is published one by one.
    `lost`: messages that were published without a confirm, and never reached the broker.
    """

    one_by_one: float
    many: float
    drained: float
    cpu: float | None = None
    alone_cpu: float | None = None
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitResult:
    """The rates of a worker and `enqueue`, without and with events, and of a bare aio-pika.

    `one_by_one` and `many`: the ratios of our rates and those of the bare client, of each round.
    """

    own: Rates
    telling: Rates
    bare: Rates
    one_by_one: Sequence[float]
    many: Sequence[float]
    peers: Mapping[str, Rates] = field(default_factory=dict)

    def figures(self) -> Figures:
        """Return them, with what they are of a bare client."""
        own, bare = self.own, self.bare
        found: Figures = {}
        for name, rates in self.peers.items():
            found[f"{name}: one by one/s"] = rates.one_by_one
            found[f"{name}: many/s"] = rates.many
            found[f"{name}: drained/s"] = rates.drained
            found[f"{name}: CPU for one drained, µs"] = rates.cpu
            found[f"{name}: lost when published"] = rates.lost
            found[f"drained, of {name}'s"] = own.drained / rates.drained
        return found | {
            "enqueued one by one/s": own.one_by_one,
            "of a bare client's": median(self.one_by_one),
            "client CPU for one of these, µs": own.alone_cpu,
            "a bare client's for one, µs": bare.alone_cpu,
            "enqueued many at once/s": own.many,
            "of a bare client's, many": median(self.many),
            "drained/s": own.drained,
            "of a bare client's, drained": own.drained / bare.drained,
            "client CPU for one drained, µs": own.cpu,
            "a bare client's, µs": bare.cpu,
            "with events, µs": self.telling.cpu,
            "enqueued many at once with events, of without": self.telling.many / own.many,
            "drained with events, of without": self.telling.drained / own.drained,
        }


class Turn(NamedTuple):
    """What was measured of one turn: messages a second, and µs of processor time for one."""

    rate: float
    cpu: float


class Side(NamedTuple):
    """Who publishes and drains.

    Parameters:
        publish: publishes the message of a number.
        of_many: returns what publishes so many at once.
        drain: drains so many.
    """

    publish: Callable[[int], Awaitable[object]]
    of_many: Callable[[int], Work]
    drain: Callable[[int], Awaitable[object]]

    def of_each(self, number: int) -> Work:
        """Return what publishes so many one by one."""

        async def each() -> None:
            for n in range(number):
                await self.publish(n)

        return each


async def rabbitmq(
    broker: str, *, jobs: int, concurrency: int, peers: Sequence[str] = ()
) -> RabbitResult:
    """Publish and drain so many messages each way."""
    alone = max(ALONE_IN_A_ROUND, jobs // ONE_BY_ONE)
    async with AsyncExitStack() as stack:
        made = _own(broker, concurrency), _own(broker, concurrency, events=True), _bare(broker)
        sides = [await stack.enter_async_context(each) for each in made]
        one_by_one = await _in_turns([side.of_each for side in sides], alone, ALONE_IN_A_ROUND)
        many = await _in_turns([side.of_many for side in sides], jobs, WINDOW)
        number = alone + jobs
        drained = [await _turn(number, _all(side.drain, number)) for side in sides]
    own, telling, bare = map(_rates, one_by_one, many, drained)
    others = {each: await _peer(each, broker, jobs) for each in peers}
    return RabbitResult(
        own=own,
        telling=telling,
        bare=bare,
        one_by_one=_ratios(one_by_one[0], one_by_one[-1]),
        many=_ratios(many[0], many[-1]),
        peers={name: rates for name, rates in others.items() if rates is not None},
    )


async def _in_turns(
    works: Sequence[Callable[[int], Work]], number: int, part: int
) -> list[list[Turn]]:
    """Have each do a part of so many, in turns; return the turns of each."""
    found: list[list[Turn]] = [[] for _ in works]
    order = list(range(len(works)))
    for first in range(0, number, part):
        some = min(part, number - first)
        for n in order:
            found[n].append(await _turn(some, works[n](some)))
        order.reverse()  # who comes after whom is no advantage
    return found


async def _turn(number: int, work: Work) -> Turn:
    started, cpu = perf_counter(), process_time()
    await work()
    seconds, spent = perf_counter() - started, process_time() - cpu
    return Turn(number / seconds, spent / number * 1e6)


def _all(drain: Callable[[int], Awaitable[object]], number: int) -> Work:
    async def drained() -> None:
        async with asyncio.timeout(PATIENCE):
            await drain(number)

    return drained


def _rates(one_by_one: Sequence[Turn], many: Sequence[Turn], drained: Turn) -> Rates:
    return Rates(
        one_by_one=median(each.rate for each in one_by_one),
        alone_cpu=median(each.cpu for each in one_by_one),
        many=median(each.rate for each in many),
        drained=drained.rate,
        cpu=drained.cpu,
    )


def _ratios(ours: Sequence[Turn], theirs: Sequence[Turn]) -> list[float]:
    return [one.rate / other.rate for one, other in zip(ours, theirs, strict=True)]


async def _peer(name: str, broker: str, jobs: int) -> Rates | None:
    """Have a peer do it in a process of its own, and remove what it has made at the broker.

    None: it failed, which was said, and costs no other figure.
    """
    called = await asyncio.to_thread(command, name, "rabbitmq")
    alone = max(1, jobs // ONE_BY_ONE)
    process = await asyncio.create_subprocess_exec(
        *called, broker, str(jobs), str(alone), stdout=PIPE, stderr=PIPE
    )
    said, complained = await process.communicate()
    async with await aio_pika.connect(broker) as connection:
        channel = await connection.channel()
        for end in ("", ".DQ", ".XQ"):
            await channel.queue_delete(f"{NAME}-{name}{end}")
    if process.returncode:
        why = complained.decode(errors="replace")[-500:]
        print(f"{name} ended with {process.returncode}: {why}", file=sys.stderr)
        return None
    return Rates(**json.loads(said.splitlines()[-1]))


@asynccontextmanager
async def _own(broker: str, concurrency: int, *, events: bool = False) -> AsyncIterator[Side]:
    queue = "told" if events else "jobs"
    transport = RabbitMQ(broker, prefix=NAME, events=events)
    app = Mutirao(transports={queue: transport})
    all_ran, left = asyncio.Event(), 0

    @app.task(queue=queue)
    async def noop(n: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            all_ran.set()

    def of_many(number: int) -> Work:
        calls = [noop.job(n) for n in range(number)]
        return lambda: app.aenqueue_many(calls)

    async def drain(number: int) -> None:
        nonlocal left
        left = number
        settings: Any = {"queues": [queue], "concurrency": concurrency, "log_jobs": "failures"}
        await working.enter_async_context(app.worker(**settings))
        await all_ran.wait()

    await transport.declare([queue])
    try:
        async with AsyncExitStack() as working:  # whose end is no part of the drain
            yield Side(noop.aenqueue, of_many, drain)
    finally:
        await app.aclose()


@asynccontextmanager
async def _bare(broker: str) -> AsyncIterator[Side]:
    async with await aio_pika.connect(broker) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=PREFETCH)
        arguments: Any = {"x-queue-type": "quorum", "x-delivery-limit": 20}
        queue = await channel.declare_queue(f"{NAME}-bare", durable=True, arguments=arguments)
        await queue.purge()

        async def publish(n: int) -> None:
            message = aio_pika.Message(
                BODY, message_id=f"{n:032x}", type="noop", content_type="application/json",
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            )  # fmt: skip
            await channel.default_exchange.publish(message, queue.name)

        def of_many(number: int) -> Work:
            return lambda: asyncio.gather(*map(publish, range(number)))

        async def drain(number: int) -> None:
            all_came, left = asyncio.Event(), number

            async def take(message: Any) -> None:
                nonlocal left
                await message.ack()
                left -= 1
                if not left:
                    all_came.set()

            await queue.consume(take)
            await all_came.wait()

        yield Side(publish, of_many, drain)
