"""Publishes the retry or the dead message of a delivery that is settled by more than an ack."""

from collections.abc import Iterator
from dataclasses import replace

from mutirao.errors import DeliveryLost, MessageTooLarge, TransportError
from mutirao.model.brokers.message import Again, Bury, Settling
from mutirao.transports.rabbitmq import foreign, wire
from mutirao.transports.rabbitmq.delays import first_step, next_step
from mutirao.transports.rabbitmq.deliveries import Arrived
from mutirao.transports.rabbitmq.links import Links, Parcel
from mutirao.transports.rabbitmq.sending import parcel_of, way_of
from mutirao.transports.rabbitmq.topology import Topology

SHORT_CAUSE = 500  # characters of an error, where the headers leave no room for more


def parcel_for(topology: Topology, queue: str, message: Arrived, settling: Again | Bury) -> Parcel:
    """Return what to publish for a message that is delivered again or dead.

    It is known to be writable then, except for its size.

    Raises:
        TransportRefused: the message to deliver again cannot be published.
    """
    parcel = _parcel(topology, queue, message, settling)
    parcel.properties.marshal()
    return parcel


async def publish(
    links: Links,
    topology: Topology,
    queue: str,
    message: Arrived,
    settling: Settling,
    parcel: Parcel,
) -> TransportError | None:
    """Publish what `parcel_for` has returned; of a dead message less, if there is no room for it.

    Then it has a shorter cause, and in the end only the headers of Mutirão.
    """
    error = await links.publish(parcel)
    if isinstance(settling, Bury):
        for each in _smaller(topology, queue, message, settling):
            if not isinstance(error, MessageTooLarge):
                break
            error = await links.publish(each)
    return error


def _smaller(topology: Topology, queue: str, message: Arrived, bury: Bury) -> Iterator[Parcel]:
    cause = replace(bury.cause, error=bury.cause.error[:SHORT_CAUSE])
    parcel = _parcel(topology, queue, message, replace(bury, cause=cause))
    yield parcel
    headers = parcel.properties.headers or {}
    ours = {name: value for name, value in headers.items() if name.startswith(wire.OURS)}
    ours[wire.LEFT_OUT] = len(headers) - len(ours)
    yield parcel._replace(properties=wire.copied(parcel.properties, ours))


def not_mine(tag: object) -> DeliveryLost:
    """Return the log text about a delivery that a consumer does not hold."""
    return DeliveryLost(f"delivery {tag} is not this consumer's any more")


def next_hop(topology: Topology, queue: str, message: Arrived, rest: float) -> Parcel:
    """Return what to publish for a message that has waited one period of several."""
    step = next_step(rest)
    properties = wire.waiting_on(message.properties, step.rest)
    return Parcel(topology.delay(step.period), queue, message.body, properties)


def _parcel(topology: Topology, queue: str, message: Arrived, settling: Again | Bury) -> Parcel:
    read = settling.delivery.foreign
    if isinstance(settling, Bury):
        properties = message.readable
        if read is not None:
            properties = foreign.buried(message, read.id)
        dead = wire.dead_properties(properties, settling.cause)
        return Parcel(topology.dead_exchange, queue, message.body, dead)
    after = _wait_of(settling)
    if read is None:
        return parcel_of(topology, settling.message, after)
    exchange, rest = way_of(topology, after)
    properties = foreign.going_on(message, settling.message, read, rest)
    return Parcel(exchange, queue, message.body, properties)


def _wait_of(settling: Again) -> float:
    """Return the seconds of its delay. A suspect's is one period, shortened to that.

    At the end of a period a message is sent on, by whoever gets it: if a suspect ends that worker
    before the old one is acknowledged, there are two of it.
    """
    after = settling.after
    return first_step(after).period if after and settling.message.suspect else after
