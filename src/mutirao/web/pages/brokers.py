"""Brokers: the queues that they carry, the messages that wait there, and those that are dead."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.responses import Response

from mutirao.errors import TransportError
from mutirao.log import log
from mutirao.model import row_json
from mutirao.model.blanking import BLANK
from mutirao.model.brokers.message import DeadMessage
from mutirao.ports import Transport
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall
from mutirao.web.showing import cell

MOST_QUEUES, MOST_DEAD = 50, 50
LONGEST_READ = 65_536  # bytes of a body in which secrets are searched
FRESH = 10.0  # seconds: brokers are asked less often than databases
WITHIN = 8.0  # seconds that a broker has
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CarriedQueue:
    """A queue that a broker carries; `error`: why it could not be asked."""

    queue: str
    broker: str
    mode: str
    waiting: int | None
    dead: tuple[DeadMessage, ...]
    error: str = ""

    @property
    def more_dead(self) -> bool:
        """Whether there may be more dead messages than were read."""
        return len(self.dead) >= MOST_DEAD


async def show(call: PageCall) -> Response:
    """Show the queues, and the dead messages of one, or of the first that has some."""
    readings, transports = call.site.readings, call.client.transports
    names = sorted(transports)[:MOST_QUEUES]
    queues: list[CarriedQueue] = await readings.get("brokers", lambda: _read(call, names), FRESH)
    wanted = call.query.text("queue", 200)
    chosen = next(
        (each for each in queues if (each.queue == wanted if wanted else each.dead)), None
    )
    return call.page(
        "brokers.html", queues=queues, left_out=max(0, len(transports) - MOST_QUEUES),
        chosen=chosen, shown=lambda dead: _shown(call, dead), age=readings.age("brokers"),
        standalone=not call.client.tasks,
    )  # fmt: skip


async def _read(call: PageCall, names: list[str]) -> list[CarriedQueue]:
    transports = call.client.transports
    return [*await asyncio.gather(*(_queue(name, transports[name]) for name in names))]


async def _queue(name: str, transport: Transport) -> CarriedQueue:
    try:
        waiting = await _soon(transport.waiting(name))
        dead = tuple(await _soon(transport.dead(name, MOST_DEAD)))
    except (TransportError, TimeoutError) as error:
        said = str(error) or type(error).__name__
        return CarriedQueue(name, transport.name, str(transport.mode), None, (), said)
    except Exception as error:  # noqa: BLE001 (logged; the other queues are shown all the same)
        log.exception("queue %s of broker %s cannot be looked at", name, transport.name)
        said = type(error).__name__
        return CarriedQueue(name, transport.name, str(transport.mode), None, (), said)
    return CarriedQueue(name, transport.name, str(transport.mode), waiting, dead)


async def _soon(answer: Awaitable[T]) -> T:
    async with asyncio.timeout(WITHIN):
        return await answer


def _shown(call: PageCall, dead: DeadMessage) -> str:
    """Return the body of a dead message in a line, as the caller may see it."""
    if not call.access.contents:
        return BLANK
    text = dead.raw[:LONGEST_READ].decode(errors="backslashreplace")
    found: Any = row_json.shown(text) if len(dead.raw) <= LONGEST_READ else text
    if isinstance(found, dict) and "unreadable" not in found:
        return cell(call.site.blanking.value(found, items=200, characters=2_000), 400)
    return cell(call.site.blanking.text(text, 2_000), 400)


PAGE = SitePage(path="/brokers", name="brokers", show=show)
