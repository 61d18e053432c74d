"""What people do with the brokers of an application: declare, compare, look after the dead."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mutirao.errors import ConfigurationError, TransportError
from mutirao.model.findings import Finding, Level
from mutirao.model.message import DeadMessage, Difference
from mutirao.ports import Transport
from mutirao.ports.brokers import by_transport


async def declare(transports: Mapping[str, Transport]) -> dict[str, list[str]]:
    """Make at each broker what its queues need; return what was made sure of, by broker.

    Raises:
        TransportError: a broker is away, or has something that is otherwise.
    """
    made: dict[str, list[str]] = defaultdict(list)
    for transport, queues in by_transport(transports):
        made[transport.name] += await transport.declare(queues)
    return dict(made)


async def compare(transports: Mapping[str, Transport]) -> dict[str, list[Difference]]:
    """Return what is missing or otherwise, by broker.

    Raises:
        TransportError: a broker is away.
    """
    found: dict[str, list[Difference]] = defaultdict(list)
    for transport, queues in by_transport(transports):
        found[transport.name] += await transport.compare(queues)
    return dict(found)


async def examine_transports(transports: Mapping[str, Transport]) -> list[Finding]:
    """Return what is wrong with the brokers of an application."""
    findings = []
    for transport, queues in by_transport(transports):
        try:
            differences = await transport.compare(queues)
        except TransportError as error:
            advice = "start it, or correct its URL"
            findings.append(Finding(Level.PROBLEM, "transports", str(error), advice))
            continue
        findings += [_finding(transport, each) for each in differences]
    return findings


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


def _chosen(transports: Mapping[str, Transport], queue: str | None) -> dict[str, Transport]:
    if queue is None:
        return dict(transports)
    if queue not in transports:
        known = ", ".join(sorted(transports)) or "none"
        raise ConfigurationError(f"no broker has queue {queue!r}; the queues of brokers: {known}")
    return {queue: transports[queue]}


def _finding(transport: Transport, difference: Difference) -> Finding:
    advice = (
        "mutirao transports declare"
        if difference.found is None
        else "it cannot be changed: delete it once it is empty, then declare it"
    )
    return Finding(Level.PROBLEM, "transports", f"{transport.name}: {difference}", advice)
