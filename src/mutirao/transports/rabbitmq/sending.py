"""Chooses how a message is published: at once, or to the first queue of its delay."""

from mutirao.model.brokers.message import Message
from mutirao.transports.rabbitmq import wire
from mutirao.transports.rabbitmq.delays import first_step
from mutirao.transports.rabbitmq.links import Parcel
from mutirao.transports.rabbitmq.topology import Topology


def parcel_of(topology: Topology, message: Message, after: float) -> Parcel:
    """Return what to publish for a message that is due after `after` seconds.

    Raises:
        TransportRefused: a name is too long, or a header's name is taken.
    """
    topology.queue(message.queue)  # raises if its name is too long
    exchange, rest = way_of(topology, after)
    properties = wire.properties_of(message, rest)
    return Parcel(exchange, message.queue, message.args.encode(), properties)


def way_of(topology: Topology, after: float) -> tuple[str, float]:
    """Return the exchange for messages due in `after` seconds, and the rest of the delay."""
    if after <= 0:
        return topology.prefix, 0.0
    period, rest = first_step(after)
    return topology.delay(period), rest
