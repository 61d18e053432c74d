"""Counts waiting and dead messages at an application's brokers, by queue."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import Metric

from mutirao.errors import TransportError
from mutirao.log import log
from mutirao.ports import Transport
from mutirao.telemetry.prometheus.families import Named, gauge, written

READ_WITHIN = 8.0  # seconds for the two counts of a queue
MOST_QUEUES = 200  # that are counted

UP = Named("mutirao_broker_up", "1 if the queue's broker could be asked, else 0.", ("queue",))
WAITING = Named("mutirao_broker_waiting_messages", "Messages that wait at a broker.", ("queue",))
DEAD = Named("mutirao_broker_dead_messages", "Messages that are dead at a broker.", ("queue",))


class BrokerReading(NamedTuple):
    """The messages in a queue of a broker; None: unknown."""

    queue: str
    counts: tuple[int, int] | None


async def read_brokers(transports: Mapping[str, Transport]) -> list[BrokerReading]:
    """Count each queue at its broker; an unavailable broker does not delay the others."""
    queues = sorted(transports)[:MOST_QUEUES]
    return [*await asyncio.gather(*(_read(queue, transports[queue]) for queue in queues))]


async def _read(queue: str, transport: Transport) -> BrokerReading:
    try:
        async with asyncio.timeout(READ_WITHIN):
            counts = await transport.waiting(queue), await transport.dead_count(queue)
    except (TransportError, TimeoutError) as error:
        log.warning("queue %s of broker %s cannot be counted: %s", queue, transport.name, error)
        return BrokerReading(queue, None)
    return BrokerReading(queue, counts)


def of_brokers(found: list[BrokerReading]) -> Iterator[Metric]:
    """Yield the families; of an application without brokers none."""
    if not found:
        return
    yield gauge(UP, (((written(queue),), float(counts is not None)) for queue, counts in found))
    for number, named in enumerate((WAITING, DEAD)):
        known = ((queue, counts) for queue, counts in found if counts is not None)
        yield gauge(named, (((written(queue),), float(counts[number])) for queue, counts in known))
