"""Messages of other programs that are retried or dead: unchanged, with notes in headers of ours.

The body and the properties stay as their publisher made them, so that a decoder reads the same at
each attempt, and people among the dead. Our notes are headers with our prefix. A message without an
id gets one here: the client would make up another at each publishing.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pamqp.commands import Basic

from mutirao.model.brokers.foreign import ForeignMessage
from mutirao.model.brokers.message import Message
from mutirao.transports.rabbitmq import wire
from mutirao.transports.rabbitmq.deliveries import Arrived
from mutirao.transports.rabbitmq.wire import EXCHANGE, KEY, OURS

AS_IT_CAME = f"{OURS}as-it-came"  # a message in a queue of Mutirão in its publisher's form
KEPT = f"{OURS}kept-"


def came_so(properties: Basic.Properties) -> bool:
    """Return whether a message in a queue of Mutirão is in its publisher's form."""
    return AS_IT_CAME in (properties.headers or {})


def foreign_of(message: Arrived) -> ForeignMessage:
    """Return a message of another program, for a decoder."""
    properties = message.properties
    headers = properties.headers or {}
    exchange, key = _routing(message, headers)
    lost, suspect, noted = wire.lost_in(headers)
    return ForeignMessage(
        body=message.body,
        id=properties.message_id or uuid4().hex,
        type=properties.message_type or None,
        headers=_theirs(headers),
        content_type=properties.content_type or None,
        content_encoding=properties.content_encoding or None,
        exchange=exchange,
        routing_key=key,
        attempt=wire.attempt_of(headers),
        lost=lost,
        suspect=suspect,
        noted=noted,
        kept={
            name.removeprefix(KEPT): value
            for name, value in headers.items()
            if name.startswith(KEPT) and isinstance(value, str | int | float)
        },
    )


def going_on(
    message: Arrived, next_message: Message, read: ForeignMessage, rest: float
) -> Basic.Properties:
    """Return the properties with which a message is delivered again, as `next_message` says.

    `read`: the input of a decoder. `rest`: seconds of the delay after its first step.
    """
    headers = _noted(message)
    headers |= {f"{KEPT}{name}": value for name, value in next_message.headers.items()}
    if next_message.attempt != 1:
        headers[wire.ATTEMPT] = next_message.attempt
    headers |= wire.losses_of(next_message)
    if rest:
        headers[wire.WAIT] = rest
    return _named(message, read.id, headers)


def moved(message: Arrived) -> Basic.Properties:
    """Return the properties with which a message goes to our queue, which counts."""
    return _named(message, foreign_of(message).id, _noted(message) | {wire.SUSPECT: 1})


def buried(message: Arrived, id: str) -> Basic.Properties:
    """Return the properties of a message that is to be among the dead, without the cause."""
    return _named(message, id, _noted(message))


def _named(message: Arrived, id: str, headers: dict[str, Any]) -> Basic.Properties:
    properties = wire.copied(message.properties, headers)
    properties.message_id = id
    return properties


def _noted(message: Arrived) -> dict[str, Any]:
    """Return the publisher's headers, and where they came from, which delays make forgotten."""
    headers = message.properties.headers or {}
    exchange, key = _routing(message, headers)
    return {**_theirs(headers), AS_IT_CAME: True, EXCHANGE: exchange, KEY: key}


def _routing(message: Arrived, headers: Mapping[str, Any]) -> tuple[str, str]:
    if EXCHANGE in headers:
        return str(headers[EXCHANGE]), str(headers.get(KEY, ""))
    return message.exchange, message.routing_key


def _theirs(headers: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in headers.items()
        if not name.startswith((OURS, *wire.OF_BROKERS))
    }
