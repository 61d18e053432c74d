"""Converts jobs to messages and back, for queues by broker alone. Pure functions."""

import secrets
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from typing import Any

import msgspec

from mutirao.model.brokers.foreign import Decoded
from mutirao.model.brokers.message import (
    Ack,
    Again,
    Bury,
    Cause,
    Delivery,
    Header,
    Message,
    MessageId,
    Settling,
)
from mutirao.model.jobs.job import Claim, NewJob
from mutirao.model.jobs.outcome import Outcome
from mutirao.model.jobs.states import OutcomeKind

FIRST_FAILED_AT = "first-failed-at"
UNKNOWN = "unknown-here"  # how often workers that do not have its task have received it
MAX_ATTEMPTS, TIMEOUT, TAGS, METADATA = "max-attempts", "timeout", "tags", "metadata"
TRACEPARENT, TENANT, GROUP, ON_DEAD_OF = "traceparent", "tenant", "group", "on-dead-of"
_TEXTS = ((TRACEPARENT, "traceparent"), (TENANT, "tenant"), (GROUP, "group"))


class UnfitHeader(ValueError):
    """A header that cannot be used; the text says which, and what is expected."""


def new_id() -> MessageId:
    """Return a new id: a UUID of version 7, which begins with the time of its creation."""
    milliseconds = time.time_ns() // 1_000_000
    chance = secrets.randbits(74)
    high = milliseconds << 80 | 7 << 76 | (chance >> 62) << 64
    return MessageId(high | 2 << 62 | chance & (1 << 62) - 1)


def message_of(job: NewJob, id: MessageId, delay: float) -> Message:
    """Return the message of a job that is due in `delay` seconds."""
    headers: dict[str, Header] = {}
    if job.max_attempts is not None:
        headers[MAX_ATTEMPTS] = job.max_attempts
    if job.timeout is not None:
        headers[TIMEOUT] = float(job.timeout)
    if job.tags:
        headers[TAGS] = msgspec.json.encode(job.tags).decode()
    if job.metadata:
        headers[METADATA] = msgspec.json.encode(job.metadata).decode()
    for name, field in _TEXTS:
        if (text := getattr(job, field)) is not None:
            headers[name] = text
    if job.on_dead_of is not None:
        headers[ON_DEAD_OF] = str(job.on_dead_of)
    key = job.group or job.tenant
    return Message(
        id=str(id), task=job.task, args=job.args, queue=job.queue, ordering_key=key,
        headers=headers, delay=delay,
    )  # fmt: skip


def headers_of(decoded: Decoded) -> dict[str, Header]:
    """Return the results of a decoder other than the arguments, as headers of a message."""
    headers: dict[str, Header] = {}
    if decoded.timeout is not None:
        headers[TIMEOUT] = float(decoded.timeout)
    for name, field in _TEXTS:
        if (text := getattr(decoded, field)) is not None:
            headers[name] = text
    return headers


def id_of(message: Message) -> MessageId:
    """Return the id of the job in a message: its own, or one derived from it if it is no UUID."""
    return _id(message.id) or MessageId(uuid.uuid5(uuid.NAMESPACE_OID, message.id).int)


def claim_of(message: Message, run: int, now: datetime) -> Claim:
    """Return the claim of a message. `run` differs between deliveries of the same message.

    Raises:
        UnfitHeader: a header of its publisher cannot be used.
    """
    id, said = id_of(message), message.headers
    claim = Claim(
        id=id,
        run=run,
        attempt=message.attempt,
        task=message.task,
        args=message.args,
        queue=message.queue,
        priority=0,
        run_at=now,
        enqueued_at=_made_at(id) or now,
        max_attempts=None,
        timeout=None,
        key=None,
        tags=None,
        metadata=None,
        traceparent=None,
        redrive_of=None,
        on_dead_of=None,
        lost=message.lost + message.suspect,  # the first worker may have begun it as well
    )
    if not said:  # as most
        return claim
    return claim._replace(
        max_attempts=_whole(said, MAX_ATTEMPTS),
        timeout=_seconds(said, TIMEOUT),
        tags=_json(said, TAGS, list[str]),
        metadata=_json(said, METADATA, dict[str, Any]),
        traceparent=_text(said, TRACEPARENT),
        on_dead_of=_id(_text(said, ON_DEAD_OF)),
        tenant=_text(said, TENANT),
        group=_text(said, GROUP),
    )


def job_of(claim: Claim, delay: float, max_attempts: int) -> NewJob:
    """Return the job by which a message continues in a database, in `delay` seconds."""
    return NewJob(
        task=claim.task,
        args=claim.args,
        queue=claim.queue,
        delay=delay,
        max_attempts=max_attempts,
        timeout=claim.timeout,
        tags=tuple(msgspec.json.decode(claim.tags, type=list[str])) if claim.tags else (),
        metadata=msgspec.json.decode(claim.metadata, type=dict[str, Any]) if claim.metadata else {},
        traceparent=claim.traceparent,
        tenant=claim.tenant,
        group=claim.group,
        on_dead_of=claim.on_dead_of,
    )


def settling_of(delivery: Delivery, message: Message, outcome: Outcome, now: datetime) -> Settling:
    """Return how a delivery is settled after an attempt with this outcome."""
    kind = outcome.kind
    if kind in (OutcomeKind.SUCCEEDED, OutcomeKind.CANCELLED):
        return Ack(delivery, cancelled=kind is OutcomeKind.CANCELLED)
    if kind is OutcomeKind.DEAD:
        return Bury(delivery, cause_of(message, outcome, now))
    after = outcome.after or 0.0
    if outcome.at is not None:
        after = max(0.0, (outcome.at - now).total_seconds())
    if kind is OutcomeKind.RETRIED:
        headers = {FIRST_FAILED_AT: now.isoformat(), **message.headers}
        next_try = replace(message, attempt=message.attempt + 1, headers=headers)
        return Again(delivery, cleared(next_try), after)
    if kind is OutcomeKind.RELEASED:
        return Again(delivery, message, after, anew=True)
    return Again(delivery, cleared(message), after)


def cleared(message: Message) -> Message:
    """Return a message that is no suspect any more: an attempt has had an outcome."""
    return replace(message, lost=0, suspect=False, noted=False) if message.suspect else message


def cause_of(message: Message, outcome: Outcome, now: datetime) -> Cause:
    """Return the cause of death of a message."""
    return Cause(
        error_type=outcome.error_type or "Dead",
        error=outcome.error or "",
        attempts=message.attempt,
        first_at=_moment(message.headers.get(FIRST_FAILED_AT)) or now,
        last_at=now,
    )


def met_unknown(message: Message) -> Message:
    """Return a message with one more worker counted that does not have its task."""
    return replace(message, headers={**message.headers, UNKNOWN: times_unknown(message) + 1})


def times_unknown(message: Message) -> int:
    """Return how often workers that do not have its task have received a message."""
    times = message.headers.get(UNKNOWN)
    return times if isinstance(times, int) and times > 0 else 0


def _id(text: str | None) -> MessageId | None:
    try:
        return None if text is None else MessageId.of(text)
    except ValueError:
        return None


def _made_at(id: MessageId) -> datetime | None:
    if id >> 76 & 0xF != 7:
        return None
    try:
        return datetime.fromtimestamp((id >> 80) / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _whole(said: Mapping[str, Header], name: str) -> int | None:
    value = said.get(name)
    if value is None or (type(value) is int and value > 0):
        return value
    raise _unfit(name, value, "a whole number from 1")


def _seconds(said: Mapping[str, Header], name: str) -> float | None:
    value = said.get(name)
    if value is None:
        return None
    if type(value) in (int, float) and 0 < float(value) < inf:
        return float(value)
    raise _unfit(name, value, "seconds, a number above 0")


def _text(said: Mapping[str, Header], name: str) -> str | None:
    value = said.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _unfit(name, value, "a text")


def _json(said: Mapping[str, Header], name: str, kind: Any) -> str | None:
    text = _text(said, name)
    try:
        if text is not None:
            msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError) as unfit:
        raise _unfit(name, text, f"JSON in text ({unfit})") from None
    return text


def _unfit(name: str, value: object, expected: str) -> UnfitHeader:
    return UnfitHeader(
        f"its header {name!r} is {value!r:.100}; its publisher is to give {expected}, or leave it"
        " out, and to publish it again"
    )


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
