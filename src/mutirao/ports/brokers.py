"""The transports of an application by queue: several queues may have the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from mutirao.ports.transport import Transport

T = TypeVar("T")
Carrier = TypeVar("Carrier", bound=Transport)


def grouped(
    items: Iterable[T], transport_of: Callable[[T], Carrier]
) -> list[tuple[Carrier, list[T]]]:
    """Return each transport once, with its items, in their order."""
    groups: dict[int, tuple[Carrier, list[T]]] = {}
    for item in items:
        transport = transport_of(item)
        groups.setdefault(id(transport), (transport, []))[1].append(item)
    return list(groups.values())


def by_transport(transports: Mapping[str, Transport]) -> list[tuple[Transport, list[str]]]:
    """Return each transport once, with its queues."""
    return grouped(transports, transports.__getitem__)


def alone(transports: Mapping[str, Transport], queue: str) -> Transport | None:
    """Return the transport of a queue that is by broker alone; None if the job is in a store."""
    transport = transports.get(queue)
    return transport if transport is not None and transport.mode == "alone" else None


async def close_transports(transports: Mapping[str, Transport]) -> None:
    """Close the connections of the running event loop."""
    for transport, _ in by_transport(transports):
        await transport.aclose()
