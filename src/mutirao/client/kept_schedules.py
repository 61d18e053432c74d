"""Finds which schedules of the code a broker keeps instead of the database."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeGuard

from mutirao.client.broker_publishing import to_message
from mutirao.model.schedules.schedule import Schedule
from mutirao.model.schedules.token import Token, check_kept
from mutirao.ports import Transport
from mutirao.ports.brokers import alone, by_transport, grouped
from mutirao.ports.tokens import KeepsSchedules


def keeper(schedule: Schedule, transports: Mapping[str, Transport]) -> KeepsSchedules | None:
    """Return the transport that keeps a schedule: that of its jobs, if they are by broker alone."""
    transport = alone(transports, schedule.job.queue)
    return transport if isinstance(transport, KeepsSchedules) else None


def kept_schedules(
    declared: Iterable[Schedule],
    transports: Mapping[str, Transport],
    tasks: Collection[str] | None = None,
) -> list[tuple[KeepsSchedules, list[Schedule]]]:
    """Return the schedules that brokers keep, by transport. `tasks`: of these only.

    Raises:
        InvalidSchedule, InvalidJob: a schedule or its job has what only a database can keep.
    """
    found: list[tuple[Schedule, KeepsSchedules]] = []
    for each in declared:
        transport = keeper(each, transports)
        if transport is not None and (tasks is None or each.job.task in tasks):
            check_kept(each)
            to_message(each.job, transport)
            found.append((each, transport))
    groups = grouped(found, lambda each: each[1])
    return [(transport, [each for each, _ in kept]) for transport, kept in groups]


class KeptSchedule(NamedTuple):
    """A schedule that a broker keeps, as people see it.

    Attributes:
        task, queue: "" if the code does not have it any more.
        state: "waiting", "running", "stopped", or "unknown" if there is no token or its holder does
            not answer; "left" if the code does not have it any more.
        due: when its next phase begins, or when the running one was due.
        stopped: why it has stopped.
    """

    name: str
    task: str
    queue: str
    broker: str
    state: str
    due: datetime | None = None
    phase: int | None = None
    attempt: int | None = None
    stopped: str | None = None


async def look_at_schedules(
    declared: Iterable[Schedule], transports: Mapping[str, Transport]
) -> list[KeptSchedule]:
    """Return the schedules that brokers keep, in the order of the code; then the left ones.

    Raises:
        TransportError: a broker is away, or has no queue for one of them.
    """
    groups = kept_schedules(declared, transports)
    found = [each for of, kept in groups for each in await look_at_kept(of, kept)]
    names = [each.name for each in found]
    left = [each for of in keepers(transports) for each in await left_schedules(of, names)]
    return [*found, *dict.fromkeys(left)]  # several transports may use one broker


def keepers(transports: Mapping[str, Transport]) -> list[KeepsSchedules]:
    """Return the transports that may keep schedules."""
    return [each for each, _ in by_transport(transports) if keeps(each)]


def keeps(transport: Transport) -> TypeGuard[KeepsSchedules]:
    """Return whether a transport may keep schedules."""
    return isinstance(transport, KeepsSchedules) and transport.mode == "alone"


async def look_at_kept(
    transport: KeepsSchedules, schedules: Iterable[Schedule]
) -> list[KeptSchedule]:
    """Return schedules that a broker keeps, in this order; raises what `look_at_schedules` does."""
    return await asyncio.gather(*(_look_at(transport, each) for each in schedules))


async def left_schedules(transport: KeepsSchedules, but: Collection[str]) -> list[KeptSchedule]:
    """Return the schedules of a broker, except these, whose queues are left from older code."""
    left = await transport.left_schedules(but)
    return [KeptSchedule(each, "", "", transport.name, "left") for each in left]


async def _look_at(transport: KeepsSchedules, schedule: Schedule) -> KeptSchedule:
    job = schedule.job
    known = partial(KeptSchedule, schedule.name, job.task, job.queue, transport.name)
    body = await transport.token_of(schedule.name)
    if body is None:
        return known("unknown")
    token = Token.of(body)
    due = datetime.fromtimestamp(token.due, UTC)
    if token.stopped is not None:
        return known("stopped", None, token.phase, token.attempt, token.stopped)
    state = "waiting" if token.holder is None else "running"
    return known(state, due, token.phase, token.attempt)
