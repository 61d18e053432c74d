"""Classifies deliveries: a message of Mutirão, one for a decoder, a delayed, or unreadable one."""

from collections.abc import Callable

from mutirao.model.brokers.message import Delivery
from mutirao.transports.rabbitmq import foreign, wire
from mutirao.transports.rabbitmq.deliveries import Arrived
from mutirao.transports.rabbitmq.links import Parcel
from mutirao.transports.rabbitmq.settling import next_hop
from mutirao.transports.rabbitmq.topology import Topology

Read = Callable[[Topology, str, Arrived], Delivery | Parcel]


def delivery_of(topology: Topology, queue: str, message: Arrived) -> Delivery | Parcel:
    """Return the content of a message from a queue of Mutirão, or how it waits further."""
    try:
        properties = message.properties
        if properties.headers and (rest := wire.rest_of(properties)):
            return next_hop(topology, queue, message, rest)
        if foreign.came_so(properties):
            return _unread(message)
        read = wire.message_of(properties, message.body, queue)
    except Exception as why:  # noqa: BLE001 (it is the problem of one message)
        return _unreadable(message, why)
    returned = wire.returned_in(properties.headers or {})
    return Delivery(read, message.body, None, message.tag, returned=returned)


def foreign_delivery(topology: Topology, queue: str, message: Arrived) -> Delivery | Parcel:
    """Return what came from a queue of other programs, or how it is moved to ours.

    A message that was delivered before by a queue without a delivery count is moved to ours, which
    has one: otherwise a message that ends its workers would come for ever.
    """
    try:
        headers = message.properties.headers or {}
        if message.redelivered and wire.DELIVERY_COUNT not in headers:
            return Parcel(topology.prefix, queue, message.body, foreign.moved(message))
        return _unread(message)
    except Exception as why:  # noqa: BLE001 (it is the problem of one message)
        return _unreadable(message, why)


def large_delivery(message: Arrived, largest: int, *, theirs: bool) -> Delivery:
    """Return a message that is larger than the limit. `theirs`: from a queue of others."""
    why = (
        f"it has more than {largest} bytes, which max_size= allows; give"
        " RabbitMQ(max_size=…) more and return it, or have its publisher pass a reference"
    )
    try:
        as_it_came = theirs or foreign.came_so(message.properties)
        read = foreign.foreign_of(message) if as_it_came else None
    except Exception as unreadable:  # noqa: BLE001 (see above)
        return _unreadable(message, unreadable)
    id = message.properties.message_id or ""
    return Delivery(None, message.body, why, message.tag, read, id)


def _unread(message: Arrived) -> Delivery:
    read = foreign.foreign_of(message)
    returned = wire.returned_in(message.properties.headers or {})
    return Delivery(None, message.body, None, message.tag, read, returned=returned)


def _unreadable(message: Arrived, why: Exception) -> Delivery:
    id = message.readable.message_id or ""
    cause = str(why) if isinstance(why, wire.Unreadable) else f"{type(why).__name__}: {why}"
    return Delivery(None, message.body, cause, message.tag, id=id)
