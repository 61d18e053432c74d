"""Compares what a broker has with what its queues need, once at the start, and logs differences.

A queue that somebody has declared in another way is consumed as any: what it lacks, such as a way
to the dead, would show only where it is needed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from mutirao.aio import Backoff
from mutirao.errors import TransportError, TransportUnavailable
from mutirao.log import log
from mutirao.model.brokers.message import Difference
from mutirao.ports import Transport
from mutirao.ports.brokers import by_transport

# Seconds: it takes many requests, and a client warns of one that is broken off, as by a worker that
# ends soon.
AFTER = 5.0

Compare = Callable[[], Awaitable[Sequence[Difference]]]


def comparisons(
    transports: Mapping[str, Transport], began: Mapping[str, asyncio.Event]
) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
    """Yield a name and `_log_differences` for each broker; to be awaited.

    Parameters:
        transports: those of the queues that are served, by queue.
        began: set once a queue is consumed, by queue; one that is not in it is not waited for.
    """
    for transport, queues in by_transport(transports):
        awaited = [began[queue] for queue in queues if queue in began]
        compare = partial(transport.compare, queues)
        yield f"comparing {transport.name}", _log_differences(transport.name, awaited, compare)


async def _log_differences(broker: str, began: Iterable[asyncio.Event], compare: Compare) -> None:
    """Log what a broker has otherwise; return once that is known, or cannot be.

    What is missing is no part of it: whoever needs that gets an error.

    Parameters:
        broker: its name for people.
        began: set once its queues are consumed: it is asked after that, as one that is away would
            be asked in vain.
        compare: asks it.
    """
    for each in began:
        await each.wait()
    await asyncio.sleep(AFTER)
    try:
        differences = await _compared(compare)
    except TransportError as error:
        log.info(
            "%s cannot be compared with what its queues need: %s; `mutirao doctor` does so for"
            " somebody with more rights",
            *(broker, error),
        )
    except Exception:  # noqa: BLE001 (logged; the queues are consumed all the same)
        log.exception("%s cannot be compared with what its queues need", broker)
    else:
        for difference in differences:
            if difference.found is not None:
                log.warning("%s: %s; %s", broker, difference, difference.advice)


async def _compared(compare: Compare) -> Sequence[Difference]:
    backoff = Backoff()
    while True:
        try:
            return await compare()
        except TransportUnavailable:  # who consumes says so
            await asyncio.sleep(backoff.next())
