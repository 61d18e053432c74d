"""The format of messages in AMQP: any program can publish one.

`message_id` is its id, `type` the task, the body the JSON object of the arguments. The rest are
headers, and are left out at their default values.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from pamqp.commands import Basic

from mutirao.errors import TransportRefused
from mutirao.model.brokers.message import Cause, DeadMessage, Message, shown_moment
from mutirao.transports.rabbitmq.fields import MAX_NAME, Properties

VERSION = 1  # of this form; written where a program of an older one would read it wrongly
OURS = "mutirao-"
ATTEMPT, RUN, LOST = f"{OURS}attempt", f"{OURS}run", f"{OURS}lost"
SUSPECT = f"{OURS}suspect"  # 1: it is one; 2: and its start is noted
ORDER, WAIT, FORM = f"{OURS}order", f"{OURS}wait", f"{OURS}version"
ERROR_TYPE, ERROR, ATTEMPTS = f"{OURS}error-type", f"{OURS}error", f"{OURS}attempts"
FIRST_AT, LAST_AT, DEAD_ID = f"{OURS}first-at", f"{OURS}last-at", f"{OURS}dead-id"
LEFT_OUT = f"{OURS}left-out"  # how many headers of a dead message there was no room for
EXCHANGE, KEY = f"{OURS}exchange", f"{OURS}routing-key"  # with which others had published it
OF_THE_DEAD = (ERROR_TYPE, ERROR, ATTEMPTS, FIRST_AT, LAST_AT, DEAD_ID, LEFT_OUT)
SCHEDULE = f"{OURS}schedule"  # of a dead phase: the schedule that stopped with it
DELIVERY_COUNT = "x-delivery-count"  # how often it came back, as the broker counts
PERSISTENT, MAX_BITS = 2, 63
# Headers of a broker's own; a publisher may have others that begin with x-.
OF_BROKERS = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-acquired-count")
# How the properties of a job without anything unusual begin; its kind of content, that it is kept,
# its id and its task follow. To read these is a quarter of the work of reading any by pamqp.
_PLAIN = sum(
    Basic.Properties.flags[each]
    for each in ("content_type", "delivery_mode", "message_id", "message_type")
).to_bytes(2)

NOT_OURS = (
    "; to take messages that others publish, register how to read them, or publish them with"
    " message_id, the task's name as type and the arguments' JSON object as body"
)


class Unreadable(Exception):
    """A message in another form; the text says what is wrong, and what to do."""


def properties_of(message: Message, rest: float = 0.0) -> Basic.Properties:
    """Return the properties of a message; `rest`: seconds of its delay after the first step.

    Raises:
        TransportRefused: its id or task is too long, or a header has a name of ours, or a number
            of more than 64 bits.
    """
    headers: dict[str, Any] = {}
    for name, value in message.headers.items():
        if name.startswith((OURS, "x-")):
            raise TransportRefused(
                f"a header is called {name!r}; names of {OURS}* and x-* are taken"
            )
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise TransportRefused(
                f"its header {name!r} is a number of {value.bit_length()} bits; give one of"
                f" {MAX_BITS}, or a text"
            )
        headers[name] = value
    if message.attempt != 1:
        headers[ATTEMPT] = message.attempt
    if message.run:
        headers[RUN] = message.run
    headers |= losses_of(message)
    if message.ordering_key is not None:
        headers[ORDER] = message.ordering_key
    if rest:
        headers[WAIT] = rest
    for what, text in (("id", message.id), ("task", message.task)):
        if not 0 < len(text.encode()) <= MAX_NAME:
            raise TransportRefused(
                f"the {what} of a message is {text!r:.300}; give 1 to {MAX_NAME} bytes"
            )
    return Properties(
        content_type="application/json",
        delivery_mode=PERSISTENT,
        message_id=message.id,
        message_type=message.task,
        headers=headers or None,
    )


def plain_message(properties: bytes, body: bytes, queue: str) -> Message | None:
    """Return a message with nothing but id, task and arguments; None: it has to be read in full.

    `properties`: as they travel.
    """
    if properties[:2] != _PLAIN:
        return None
    try:
        at = 4 + properties[2]  # after the kind of content, and whether it is kept
        id_ends = at + 1 + properties[at]
        id, task = properties[at + 1 : id_ends].decode(), properties[id_ends + 1 :].decode()
        args = body.decode()
    except (IndexError, UnicodeDecodeError):
        return None
    return Message(id=id, task=task, args=args, queue=queue) if id and task else None


def message_of(properties: Basic.Properties, body: bytes, queue: str) -> Message:
    """Return the message that was received from a queue.

    Raises:
        Unreadable: it is not of this form.
    """
    headers = properties.headers or {}
    if (form := headers.get(FORM, VERSION)) != VERSION:
        raise Unreadable(
            f"it was written in version {form!r} of the form, and this program reads {VERSION};"
            " upgrade the workers, then return it"
        )
    if not properties.message_id or not properties.message_type:
        missing = "message_id" if not properties.message_id else "type"
        raise Unreadable(f"it has no {missing}{NOT_OURS}")
    try:
        args = body.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"its body is no text in UTF-8 ({error}){NOT_OURS}") from None
    found = Message(id=properties.message_id, task=properties.message_type, args=args, queue=queue)
    return _with(found, headers) if headers else found


def attempt_of(headers: Mapping[str, Any]) -> int:
    """Return the number of the attempt that a message asks for."""
    return _whole(headers.get(ATTEMPT), 1)


def losses_of(message: Message) -> dict[str, Any]:
    """Return the headers that say whether workers ended with a message."""
    headers: dict[str, Any] = {LOST: message.lost} if message.lost else {}
    return headers | ({SUSPECT: 1 + message.noted} if message.suspect else {})


def lost_in(headers: Mapping[str, Any]) -> tuple[int, bool, bool]:
    """Return the losses in a message: `lost`, `suspect`, `noted`."""
    suspect = _whole(headers.get(SUSPECT), 0)
    return _whole(headers.get(LOST), 0), suspect > 0, suspect > 1


def returned_in(headers: Mapping[str, Any]) -> int:
    """Return how often a message came back, as the broker counts."""
    return _whole(headers.get(DELIVERY_COUNT), 0)


def rest_of(properties: Basic.Properties) -> float:
    """Return the seconds that a message has still to wait."""
    rest = (properties.headers or {}).get(WAIT, 0.0)
    return float(rest) if isinstance(rest, int | float) else 0.0


def waiting_on(properties: Basic.Properties, rest: float) -> Basic.Properties:
    """Return the properties of a message that has another step to wait; `rest`: after that."""
    headers = {**(properties.headers or {}), WAIT: rest}
    if not rest:
        del headers[WAIT]
    return copied(properties, headers)


def dead_properties(properties: Basic.Properties, cause: Cause) -> Basic.Properties:
    """Return the properties of a message that is dead, with its cause."""
    headers = dict(properties.headers or {})
    headers |= {ERROR_TYPE: cause.error_type, ERROR: cause.error, ATTEMPTS: cause.attempts}
    for name, moment in ((FIRST_AT, cause.first_at), (LAST_AT, cause.last_at)):
        if moment is not None:
            headers[name] = moment.isoformat()
    if not properties.message_id:
        headers[DEAD_ID] = uuid4().hex
    return copied(properties, headers)


def returned_properties(properties: Basic.Properties) -> Basic.Properties:
    """Return the properties of a dead message that goes back, as its first attempt."""
    counted = (ATTEMPT, LOST, SUSPECT, WAIT, *OF_THE_DEAD)
    headers = {
        name: value
        for name, value in (properties.headers or {}).items()
        if name not in counted and not name.startswith(OF_BROKERS)
    }
    return copied(properties, headers)


def dead_message(properties: Basic.Properties, body: bytes, queue: str) -> DeadMessage:
    """Return a dead message as people see it."""
    headers = properties.headers or {}
    return DeadMessage(
        id=dead_id(properties),
        task=properties.message_type or None,
        queue=queue,
        raw=body,
        cause=_cause(headers),
        exchange=_text(headers.get(EXCHANGE)),
        routing_key=_text(headers.get(KEY)),
    )


def dead_id(properties: Basic.Properties) -> str:
    """Return what names a message among the dead."""
    return properties.message_id or str((properties.headers or {}).get(DEAD_ID, "unnamed"))


def _cause(headers: Mapping[str, Any]) -> Cause:
    if ERROR_TYPE not in headers:  # the broker itself gave it up
        deaths = headers.get("x-death")
        death = deaths[0] if isinstance(deaths, list) and deaths else None
        death = death if isinstance(death, dict) else {}
        return Cause(
            error_type="GivenUpByBroker",
            error=f"the broker gave it up: {death.get('reason', 'it does not say why')}",
            first_at=_aware(death.get("time")),
            last_at=_aware(death.get("time")),
        )
    return Cause(
        error_type=str(headers[ERROR_TYPE]),
        error=str(headers.get(ERROR, "")),
        attempts=_whole(headers.get(ATTEMPTS), 0),
        first_at=_moment(headers.get(FIRST_AT)),
        last_at=_moment(headers.get(LAST_AT)),
    )


def _with(message: Message, headers: Mapping[str, Any]) -> Message:
    order = headers.get(ORDER)
    lost, suspect, noted = lost_in(headers)
    return replace(
        message,
        attempt=attempt_of(headers),
        run=_whole(headers.get(RUN), 0),
        lost=lost,
        suspect=suspect,
        noted=noted,
        ordering_key=order if isinstance(order, str) else None,
        headers={
            # Other values than texts and numbers are shown as text, for people.
            name: value if isinstance(value, str | int | float) else str(value)
            for name, value in headers.items()
            if not name.startswith((OURS, "x-")) and value is not None
        },
    )


def copied(properties: Basic.Properties, headers: dict[str, Any]) -> Basic.Properties:
    """Return properties with other headers, without what a broker would refuse or act on.

    Unchanged properties are written as they came.
    """
    said = {name: getattr(properties, name) for name in Basic.Properties.attributes()}
    # The broker checks whose user id it is, and forgets a message by its expiration.
    said |= {"headers": headers or None, "user_id": None, "expiration": None, "cluster_id": ""}
    return Properties(**said | {"delivery_mode": PERSISTENT}).keeping(properties)


def _whole(value: object, usual: int) -> int:
    return value if isinstance(value, int) and value >= 0 else usual


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _moment(text: object) -> datetime | None:
    try:
        return shown_moment(datetime.fromisoformat(str(text))) if text is not None else None
    except ValueError:
        return None


def _aware(moment: object) -> datetime | None:
    return shown_moment(moment) if isinstance(moment, datetime) else None
