"""The names of all declared schedules, kept as a message in a queue: AMQP cannot list queues.

Two programs that declare at once may each leave a message; readers merge them.
"""

import json
from collections.abc import Collection, Iterable

from pamqp.commands import Basic

from mutirao.errors import TransportMismatch
from mutirao.transports.rabbitmq import wire
from mutirao.transports.rabbitmq.hand import hand_in
from mutirao.transports.rabbitmq.links import CALL_LIMIT, Links, Parcel
from mutirao.transports.rabbitmq.topology import Topology, is_there


async def note(links: Links, topology: Topology, schedules: Iterable[str]) -> None:
    """Record that schedules were declared; earlier records stay."""
    known, taken = set[str](), []
    async with hand_in(links, topology.schedules) as hand:
        async for each in hand.take(None):
            known |= _names_in(each.body)
            taken.append(each)
        if known.issuperset(schedules) and len(taken) == 1:
            return
        properties = Basic.Properties(
            content_type="application/json", delivery_mode=wire.PERSISTENT
        )
        body = json.dumps(sorted(known.union(schedules))).encode()
        if error := await links.publish(Parcel(topology.schedules, "", body, properties)):
            raise error
        for each in taken:
            await hand.take_away(each)


async def left(links: Links, topology: Topology, but: Collection[str]) -> list[str]:
    """Return the schedules except these that were declared and whose queues exist."""
    known = set[str]()
    if await is_there(topology.schedules, links.channel):
        async with hand_in(links, topology.schedules) as hand:
            async for each in hand.take(None):
                known |= _names_in(each.body)
    others = sorted(known.difference(but))
    return [each for each in others if await is_there(topology.schedule(each), links.channel)]


async def drop(links: Links, topology: Topology, schedule: str) -> None:
    """Delete the queue of a schedule, with its token.

    Raises:
        TransportMismatch: a worker that has the schedule in its code stands in line, or there is no
            such queue.
    """
    name = topology.schedule(schedule)
    async with links.channel() as channel:
        answer = await channel.queue_declare(name, passive=True, timeout=CALL_LIMIT)
        if answer.consumer_count:
            raise TransportMismatch(
                f"{answer.consumer_count} workers stand in line for schedule {schedule!r}: it is in"
                " their code; stop them, then drop it"
            )
        await channel.queue_delete(name, timeout=CALL_LIMIT)


def _names_in(body: bytes) -> set[str]:
    """Return the names in a message; none if it is not of this form."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return set()
    return {each for each in found if isinstance(each, str)} if isinstance(found, list) else set()
