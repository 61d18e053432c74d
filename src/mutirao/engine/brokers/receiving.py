"""What the loops have in common that receive from a broker while their slots have room."""

import asyncio
from contextlib import suppress

from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.pulse import MAX_REST, wait_for
from mutirao.model.brokers.message import Delivery
from mutirao.ports import Consumer


def fitting_prefetch(most: int, least: int) -> int:
    """Return the prefetch for up to `most` deliveries: more of short jobs, fewer of long ones.

    A power of two, so that it does not change with every job. At least one for each slot: whoever
    has few of them may get more.
    """
    return least if most <= least else 1 << most.bit_length()


async def received(
    consumer: Consumer, most: int, seconds: float, stopping: asyncio.Event
) -> list[Delivery]:
    """Wait for deliveries for a while, or until stopped; cancelling loses none."""
    receiving = asyncio.ensure_future(consumer.receive(most))
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait(
            (receiving, stopped), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        stopped.cancel()
        receiving.cancel()
    with suppress(asyncio.CancelledError):
        return await receiving
    return []


async def wait_for_room(dispatcher: Dispatcher, stopping: asyncio.Event) -> None:
    """Wait for a change of what the slots want, for a while."""
    dispatcher.changed.clear()
    if not dispatcher.wanted() and not stopping.is_set():
        await wait_for(dispatcher.changed, min(MAX_REST, dispatcher.patience()))
