"""`rabbitmq`: a queue by broker alone, beside the same messages by a bare aio-pika.

Both publish with confirms and `mandatory` to a quorum queue, so many under way at once, and
acknowledge each message. What they make at the broker begins with `mutirao-bench`, and is emptied.

Peers do the same by adapters in `peers`, in an environment of their own each, as their
documentation advises for throughput: without confirms, on classic queues, where that is so.
"""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import aio_pika

from benchmarks.figures import Figures
from benchmarks.peers.envs import command
from mutirao import Mutirao
from mutirao.transports.rabbitmq import RabbitMQ

NAME = "mutirao-bench"
WINDOW = 2_000  # messages under way at once
PREFETCH = 1_000
ONE_BY_ONE = 10  # of so many messages one is published alone
BODY = b'{"n":12345}'
PATIENCE = 600.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Messages a second: published one by one, published many at once, and drained.

    `cpu`: microseconds of the process's processor time for one that is drained; None: unknown.
    `lost`: messages that were published without a confirm, and never reached the broker.
    """

    one_by_one: float
    many: float
    drained: float
    cpu: float | None = None
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitResult:
    """The rates of a worker and `enqueue`, without and with events, and of a bare aio-pika."""

    own: Rates
    telling: Rates
    bare: Rates
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
            "of a bare client's": own.one_by_one / bare.one_by_one,
            "enqueued many at once/s": own.many,
            "of a bare client's, many": own.many / bare.many,
            "drained/s": own.drained,
            "of a bare client's, drained": own.drained / bare.drained,
            "client CPU for one drained, µs": own.cpu,
            "a bare client's, µs": bare.cpu,
            "with events, µs": self.telling.cpu,
            "enqueued many at once with events, of without": self.telling.many / own.many,
            "drained with events, of without": self.telling.drained / own.drained,
        }


async def rabbitmq(
    broker: str, *, jobs: int, concurrency: int, peers: Sequence[str] = ()
) -> RabbitResult:
    """Publish and drain so many messages each way."""
    bare = await _bare(broker, jobs)
    own = await _own(broker, jobs, concurrency)
    telling = await _own(broker, jobs, concurrency, events=True)
    others = {each: await _peer(each, broker, jobs) for each in peers}
    found = {name: rates for name, rates in others.items() if rates is not None}
    return RabbitResult(own=own, telling=telling, bare=bare, peers=found)


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


async def _own(broker: str, jobs: int, concurrency: int, *, events: bool = False) -> Rates:
    transport = RabbitMQ(broker, prefix=NAME, events=events)
    app = Mutirao(transports={"jobs": transport})
    all_ran, ran = asyncio.Event(), 0

    @app.task(queue="jobs")
    async def noop(n: int) -> None:
        nonlocal ran
        ran += 1
        if ran == jobs + alone:
            all_ran.set()

    alone = max(1, jobs // ONE_BY_ONE)
    await transport.declare(["jobs"])
    try:
        one_by_one = await _rate(alone, lambda: _each(alone, lambda n: noop.aenqueue(n)))
        calls = [noop.job(n) for n in range(jobs)]
        many = await _rate(jobs, lambda: app.aenqueue_many(calls))
        settings: Any = {"queues": ["jobs"], "concurrency": concurrency, "log_jobs": "failures"}
        started, cpu = perf_counter(), process_time()
        async with app.worker(**settings), asyncio.timeout(PATIENCE):
            await all_ran.wait()
            drained = (jobs + alone) / (perf_counter() - started)
            spent = (process_time() - cpu) / (jobs + alone) * 1e6
    finally:
        await app.aclose()
    return Rates(one_by_one=one_by_one, many=many, drained=drained, cpu=spent)


async def _bare(broker: str, jobs: int) -> Rates:
    alone = max(1, jobs // ONE_BY_ONE)
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

        async def publish_many() -> None:
            for first in range(0, jobs, WINDOW):
                some = range(first, min(jobs, first + WINDOW))
                await asyncio.gather(*map(publish, some))

        one_by_one = await _rate(alone, lambda: _each(alone, publish))
        many = await _rate(jobs, publish_many)
        cpu = process_time()
        drained = await _drained(queue, jobs + alone)
        spent = (process_time() - cpu) / (jobs + alone) * 1e6
    return Rates(one_by_one=one_by_one, many=many, drained=drained, cpu=spent)


async def _drained(queue: Any, number: int) -> float:
    all_came, came = asyncio.Event(), 0

    async def take(message: Any) -> None:
        nonlocal came
        await message.ack()
        came += 1
        if came == number:
            all_came.set()

    started = perf_counter()
    await queue.consume(take)
    async with asyncio.timeout(PATIENCE):
        await all_came.wait()
    return number / (perf_counter() - started)


async def _each(number: int, publish: Callable[[int], Awaitable[object]]) -> None:
    for n in range(number):
        await publish(n)


async def _rate(number: int, work: Callable[[], Awaitable[object]]) -> float:
    started = perf_counter()
    await work()
    return number / (perf_counter() - started)
