"""Computes the next message of a schedule that a broker keeps from how its job ended."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from mutirao.model.brokers.message import Ack, Again, Bury, Delivery, Message, Settling
from mutirao.model.schedules import token as steps
from mutirao.model.schedules.schedule import Schedule
from mutirao.model.schedules.schedule_rules import job_of
from mutirao.model.schedules.token import Token
from mutirao.tasks import job_messages


@dataclass
class Loop:
    """A schedule, as this worker sees it. `token`: the highest it holds; `tags`: of all of them."""

    schedule: Schedule
    token: Token | None = None
    tags: list[Any] = field(default_factory=list)
    since: float = 0.0
    serial: int = 0  # of the last token that was published or held
    delivery: Delivery | None = None
    handed_at: float | None = None  # when the phase became ready, while no worker has received it
    timer: asyncio.TimerHandle | None = None
    consumers: int = 1
    came: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def settled(token: Token, settling: Settling, schedule: Schedule, now: datetime) -> Token:
    """Return the token that follows a phase."""
    match settling:
        case Ack(_, cancelled):
            if cancelled:
                return steps.stopped(token, "a phase cancelled it")
            return steps.succeeded(token, schedule, now)
        case Again(_, message, after):
            usual = message_of(token, schedule).headers
            notes = {
                name: value for name, value in message.headers.items() if usual.get(name) != value
            }
            due = now + timedelta(seconds=after)
            lost = message.lost + message.suspect
            return steps.again(token, message.attempt, lost, notes, due)
        case Bury(_, cause):
            first_line = cause.error.partition("\n")[0]
            return steps.stopped(token, f"{cause.error_type}: {first_line}"[:1000])


def message_of(token: Token, schedule: Schedule) -> Message:
    """Return the phase of a token as a message."""
    job = replace(job_of(schedule, token.ticks_at, token.ticks_at), run_at=None)
    message = job_messages.message_of(job, token.id, 0.0)
    headers = {**message.headers, **token.notes}
    phase = replace(message, attempt=token.attempt, headers=headers)
    if not token.lost:
        return phase
    return replace(phase, lost=token.lost - 1, suspect=True, noted=True)


def end_timer(loop: Loop) -> None:
    if loop.timer is not None:
        loop.timer.cancel()
        loop.timer = None


def forget(loop: Loop) -> None:
    end_timer(loop)
    loop.token, loop.tags, loop.handed_at = None, [], None
