"""Manages the brokers of an application: declares, compares, lists and returns dead messages."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from mutirao.client.kept_schedules import (
    KeptSchedule,
    keepers,
    keeps,
    kept_schedules,
    left_schedules,
    look_at_kept,
)
from mutirao.errors import (
    ConfigurationError,
    TransportError,
    TransportUnavailable,
    UnknownSchedule,
)
from mutirao.model.brokers.message import DECLARE, DeadMessage, Difference
from mutirao.model.findings import Finding, Level
from mutirao.model.schedules.schedule import Schedule
from mutirao.model.schedules.token import ENDED
from mutirao.ports import Transport
from mutirao.ports.brokers import by_transport
from mutirao.ports.events import TellsEvents, event_transport
from mutirao.ports.tokens import KeepsSchedules

SHOWN = 3  # missing objects that are named; more are only counted
_TROUBLES = {
    "stopped": ("has stopped", "`mutirao transports start-schedule {}` has it go on"),
    "unknown": (
        "has had no worker yet, or the one that holds it does not answer",
        "start a worker that serves its queue",
    ),
    "left": (
        "is not in the code any more, and its queue is left",
        "`mutirao transports drop-schedule {}`, or put it back",
    ),
}


async def declare(
    transports: Mapping[str, Transport], schedules: Sequence[Schedule] = ()
) -> dict[str, list[str]]:
    """Make at each broker what its queues and schedules need; return the objects, by broker.

    Raises:
        TransportError: a broker is away, or has an object that differs.
    """
    made: dict[str, list[str]] = defaultdict(list)
    for transport, queues in by_transport(transports):
        made[transport.name] += await transport.declare(queues)
    for transport, kept in kept_schedules(schedules, transports):
        made[transport.name] += await transport.declare_schedules(_names(kept))
    return {name: list(dict.fromkeys(each)) for name, each in made.items()}


async def compare(
    transports: Mapping[str, Transport], schedules: Sequence[Schedule] = ()
) -> dict[str, list[Difference]]:
    """Return what is missing or different, by broker.

    Raises:
        TransportError: a broker is away.
    """
    found: dict[str, list[Difference]] = defaultdict(list)
    for transport, queues in by_transport(transports):
        found[transport.name] += await transport.compare(queues)
    for transport, kept in kept_schedules(schedules, transports):
        found[transport.name] += await transport.compare_schedules(_names(kept))
    return {name: list(dict.fromkeys(each)) for name, each in found.items()}


async def start_schedule(
    transports: Mapping[str, Transport], schedules: Sequence[Schedule], name: str
) -> None:
    """Continue a schedule that has stopped; one that runs is left alone.

    Raises:
        UnknownSchedule: no broker keeps a schedule of that name.
        TransportError: the broker is away, or has no queue for it.
    """
    for transport, kept in kept_schedules(schedules, transports):
        if name in _names(kept):
            await transport.start_schedule(name)
            return
    raise UnknownSchedule(
        f"no broker keeps a schedule {name!r}; it keeps those that the code declares for"
        " tasks whose queue is by RabbitMQ alone"
    )


async def drop_schedule(
    transports: Mapping[str, Transport], schedules: Sequence[Schedule], name: str
) -> None:
    """Delete the queue of a schedule that the code does not have any more.

    Raises:
        ConfigurationError: the code has it.
        UnknownSchedule: no broker has a queue of it.
        TransportError: the broker is away, or workers of older code stand in line for it.
    """
    if name in _names(schedules):
        raise ConfigurationError(f"the code declares schedule {name!r}; take it out first")
    for transport in keepers(transports):
        if name in await transport.left_schedules(_names(schedules)):
            await transport.drop_schedule(name)
            return
    raise UnknownSchedule(
        f"no broker has a schedule {name!r} that is left; `mutirao transports schedules` lists them"
    )


async def examine_transports(
    transports: Mapping[str, Transport],
    asked: Collection[str],
    schedules: Sequence[Schedule] = (),
) -> list[Finding]:
    """Return findings about the brokers of an application.

    Parameters:
        asked: the queues of its tasks.
        schedules: those that the code declares.
    """
    unused = [_unused(queue, of) for queue, of in transports.items() if queue not in asked]
    findings: list[Finding] = []
    kept = {id(of): some for of, some in kept_schedules(schedules, transports)}
    names = [each.name for some in kept.values() for each in some]
    compared: dict[str, dict[Difference, None]] = {}  # several transports may use one broker
    for transport, queues in by_transport(transports):
        try:
            differences = await transport.compare(queues)
            compared.setdefault(transport.name, {}).update(dict.fromkeys(differences))
            if keeps(transport):
                findings += await _of_schedules(transport, kept.get(id(transport), ()), names)
            if not differences and (events := event_transport(transport)) is not None:
                findings += await _of_events(events)
        except TransportError as error:
            away = isinstance(error, TransportUnavailable)
            advice = "start it, or correct its URL" if away else "correct the rights of its user"
            findings.append(Finding(Level.PROBLEM, "transports", str(error), advice))
    different = [each for name, found in compared.items() for each in _findings(name, list(found))]
    return list(dict.fromkeys(unused + different + findings))


async def _of_schedules(
    transport: KeepsSchedules, schedules: Sequence[Schedule], names: Collection[str]
) -> list[Finding]:
    """Return findings about the schedules of a broker that keeps these, of all by `names`."""
    found = await left_schedules(transport, names)
    differences = await transport.compare_schedules(_names(schedules)) if schedules else []
    if not differences:
        found = await look_at_kept(transport, schedules) + found
    missing = _findings(transport.name, differences) if differences else []
    troubled = [each for each in found if each.state in _TROUBLES and each.stopped != ENDED]
    reported = [_finding_of(each) for each in troubled]
    return missing + reported


async def _of_events(transport: TellsEvents) -> list[Finding]:
    """Return a finding if events were dropped."""
    if (lost := await transport.dropped()) is None:
        return []
    found = (
        f"{transport.name}: {lost.number} events were not published within a day, as it was away or"
        f" took them too slowly; the last at {lost.last_at:%Y-%m-%d %H:%M}Z"
    )
    advice = "nothing, if it was away; otherwise give it room, or fewer queues events=True"
    return [Finding(Level.WARNING, "transports", found, advice)]


def _finding_of(schedule: KeptSchedule) -> Finding:
    what, advice = _TROUBLES[schedule.state]
    found = f"{schedule.broker}: schedule {schedule.name} {what}"
    if schedule.stopped is not None:
        found = f"{found}: {schedule.stopped}"
    return Finding(Level.WARNING, "transports", found, advice.format(schedule.name))


async def dead(
    transports: Mapping[str, Transport], queue: str | None, most: int
) -> list[DeadMessage]:
    """Return dead messages of a queue, or of all."""
    found: list[DeadMessage] = []
    for name, transport in _chosen(transports, queue).items():
        found += await transport.dead(name, most - len(found))
    return found


async def each_dead(
    transports: Mapping[str, Transport],
    queue: str | None,
    ids: Sequence[str] | None,
    action: Callable[[Transport], Any],
) -> int:
    """Return or drop dead messages of a queue, or of all; return how many."""
    chosen = _chosen(transports, queue).items()
    return sum([await action(transport)(name, ids) for name, transport in chosen])


def _names(schedules: Sequence[Schedule]) -> list[str]:
    return [each.name for each in schedules]


def _chosen(transports: Mapping[str, Transport], queue: str | None) -> dict[str, Transport]:
    if queue is None:
        return dict(transports)
    if queue not in transports:
        known = ", ".join(sorted(transports)) or "none"
        raise ConfigurationError(f"no broker has queue {queue!r}; the queues of brokers: {known}")
    return {queue: transports[queue]}


def _findings(broker: str, differences: Sequence[Difference]) -> list[Finding]:
    if not differences:
        fine = f"{broker}: as `{DECLARE}` makes it"
        return [Finding(Level.OK, "transports", fine)]
    missing = [each for each in differences if each.found is None and not each.theirs]
    if len(missing) <= SHOWN:
        return [_finding(broker, each) for each in differences]
    said = f"{broker}: {len(missing)} things that its queues need are missing"
    others = [_finding(broker, each) for each in differences if each not in missing]
    return [Finding(Level.PROBLEM, "transports", said, DECLARE), *others]


def _unused(queue: str, transport: Transport) -> Finding:
    return Finding(
        Level.WARNING,
        "transports",
        f"no task of this application is in queue {queue!r}, which {transport.name} carries",
        "correct transports={…} or the tasks' queue=, unless calls name the queue themselves",
    )


def _finding(broker: str, difference: Difference) -> Finding:
    said = f"{broker}: {difference}"
    return Finding(Level.PROBLEM, "transports", said, difference.advice)
