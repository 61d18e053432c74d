"""Compares what a broker has with what its queues need, once at the start, and logs differences.

A queue that was declared with other properties can still be consumed. What it lacks, such as the
route to its dead-letter queue, would otherwise show only when it is needed.
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

# Seconds. The comparison takes many requests, and a client library warns if one is interrupted, for
# example because the worker ends soon after its start.
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
    """Log how a broker differs from what is needed; return once that is known, or cannot be.

    Objects that are missing are not reported here: their use raises an error.

    Parameters:
        broker: its name for people.
        began: set once its queues are consumed. The broker is asked after that, because it may be
            unreachable before.
        compare: asks it.
    """
    for each in began:
        await each.wait()
    await asyncio.sleep(AFTER)
    try:
        differences = await _compared(compare)
    except TransportError as error:
        log.info(
            "%s cannot be compared with what its queues need: %s; run `mutirao doctor` as a user"
            " with more rights",
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
        except TransportUnavailable:  # the consumer logs it
            await asyncio.sleep(backoff.next())
