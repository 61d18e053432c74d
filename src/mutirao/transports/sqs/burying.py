"""Dead messages: put into a queue of their own, with the cause as an attribute."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from mutirao.model.brokers.message import Cause, DeadMessage, shown_moment
from mutirao.transports.sqs.bodies import as_first_attempt, escaped, message_in, number
from mutirao.transports.sqs.calls import MOST, Entry, SqsCalls, SqsQueue

CAUSE = "MutiraoCause"  # the attribute with the cause, as JSON
LONGEST_CAUSE = 4_000  # bytes of a cause, which travels with a dead message
LOOK = 60  # seconds for which those that are looked at are hidden from others


class _Cause(msgspec.Struct, omit_defaults=True):
    error_type: str = "MaxReceiveCount"
    error: str = (
        "SQS moved it here itself: it was handed out as often as the queue's redrive policy lets it"
    )
    attempts: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None


class Found(NamedTuple):
    """A message among the dead, as SQS has handed it out.

    `large`: its id in S3, if it has one. `group`: the group that it is in; None: none.
    """

    handle: str
    body: str
    dead: DeadMessage
    sent_at: int  # milliseconds since 1970
    large: str | None
    group: str | None


def cause_as_text(cause: Cause) -> str:
    """Return a cause as the text of an attribute, in letters that XML has, and not too long."""
    error = cause.error[:LONGEST_CAUSE]
    while True:
        kept = _Cause(cause.error_type, error, cause.attempts, cause.first_at, cause.last_at)
        text = escaped(msgspec.json.encode(kept).decode())
        if not error or len(text.encode()) <= LONGEST_CAUSE:
            return text
        error = error[: len(error) * 3 // 4]


def walk(calls: SqsCalls, queue: SqsQueue, name: str, see: Callable[[Found], bool]) -> None:
    """Show each dead message once, as far as `see` returns True; then they are visible again.

    Messages deleted meanwhile stay deleted. `name`: Mutirão's, of the queue they came from.
    """
    seen: set[str] = set()
    held: list[str] = []
    try:
        while found := calls.receive(queue, MOST, 0, LOOK):
            held += [each["ReceiptHandle"] for each in found]
            new = [each for each in found if each["MessageId"] not in seen]
            seen.update(each["MessageId"] for each in new)
            for each in new:
                if not see(_found(each, name)):
                    return
            if not new:
                return
    finally:
        calls.change(queue, [(handle, 0) for handle in held])


def wanted(found: Found, ids: Sequence[str] | None) -> bool:
    """Return whether one is meant; None means all."""
    return ids is None or found.dead.id in ids


def back(found: Found, group: str | None, deduplication: str | None) -> Entry:
    """Return what to send to the queue that a dead message came from."""
    return Entry(as_first_attempt(found.body), 0, group, deduplication)


def _found(raw: dict[str, Any], name: str) -> Found:
    body = raw["Body"]
    message, shown, _, large = message_in(body)
    attribute = raw.get("MessageAttributes", {}).get(CAUSE, {}).get("StringValue")
    kept = _read(attribute)
    receives = number(raw.get("Attributes", {}), "ApproximateReceiveCount")
    cause = Cause(
        error_type=kept.error_type, error=kept.error, attempts=kept.attempts or receives - 1,
        first_at=shown_moment(kept.first_at), last_at=shown_moment(kept.last_at),
    )  # fmt: skip
    id = raw["MessageId"] if message is None else message.id
    task = None if message is None else message.task
    dead = DeadMessage(id=id, task=task, queue=name, raw=shown, cause=cause)
    sent_at = number(raw.get("Attributes", {}), "SentTimestamp")
    group = raw.get("Attributes", {}).get("MessageGroupId")
    return Found(raw["ReceiptHandle"], body, dead, sent_at, large, group)


def _read(attribute: str | None) -> _Cause:
    if attribute is None:
        return _Cause()
    try:
        return msgspec.json.decode(attribute, type=_Cause)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Cause("Unknown", attribute)
