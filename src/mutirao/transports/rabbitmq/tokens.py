"""The tokens of schedules: for each a quorum queue with a single active consumer, over one channel.

The broker hands the messages of such a queue to the first of its consumers only. That makes both
copies of a token meet in one place; it is the token's number that decides between them.
"""

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from aiormq.abc import AbstractChannel, DeliveredMessage
from pamqp.commands import Basic

from mutirao.errors import TransportError, TransportUnavailable
from mutirao.model.brokers.message import Cause, Message
from mutirao.ports.arrivals import Arrivals
from mutirao.ports.tokens import HeldToken, Queued
from mutirao.transports.rabbitmq import wire
from mutirao.transports.rabbitmq.links import (
    CALL_LIMIT,
    FAILURES,
    Links,
    Parcel,
    raise_if_other,
)
from mutirao.transports.rabbitmq.topology import Topology

PREFETCH = 10  # tokens of a schedule; more than one only for moments
# How often the holder of a token is asked, each so many seconds: it may be on its way to another.
TIMES_ASKED, ASKED_EVERY = 4, 1.0


class RabbitTokens:
    """See `ports.tokens.Tokens`."""

    def __init__(self, links: Links, topology: Topology, channel: AbstractChannel) -> None:
        self._links, self._topology, self._channel = links, topology, channel
        self._turns: dict[str, int] = {}
        self._tags: dict[str, str | None] = {}
        self._come: Arrivals[HeldToken] = Arrivals()

    async def begin(self, schedules: Sequence[str]) -> None:
        """Stand in line for all of them."""
        self._channel.closing.add_done_callback(self._closed)
        self._channel.on_consumer_cancel_callbacks.add(self._cancelled)
        await self._ask(self._channel.basic_qos(prefetch_count=PREFETCH, timeout=CALL_LIMIT))
        for each in schedules:
            await self.line_up(each)

    async def receive(self) -> HeldToken:
        """Wait for a token; see `Tokens.receive`."""
        [token] = await self._come.take(1)
        return token

    def turn(self, schedule: str) -> int:
        """Return the number of the turn; see `Tokens.turn`."""
        return self._turns.get(schedule, 0)

    async def line_up(self, schedule: str) -> None:
        """Stand in line; see `Tokens.line_up`."""
        if self._tags.get(schedule) is None:
            turn = self._turns[schedule] = self.turn(schedule) + 1
            call = partial(self._on_message, schedule, turn)
            name = self._topology.schedule(schedule)
            ok = await self._ask(self._channel.basic_consume(name, call, timeout=CALL_LIMIT))
            self._tags[schedule] = ok.consumer_tag

    async def pass_turn(self, schedule: str) -> None:
        """Stand in line no more; see `Tokens.pass_turn`."""
        tag, self._tags[schedule] = self._tags.get(schedule), None
        if tag is not None:
            self._turns[schedule] += 1
            await self._ask(self._channel.basic_cancel(tag, timeout=CALL_LIMIT))

    async def put(self, schedule: str, body: bytes) -> None:
        """Put a token; see `Tokens.put`."""
        await put_token(self._links, self._topology, schedule, body)

    async def drop(self, tags: Sequence[Any]) -> None:
        """Drop tokens; see `Tokens.drop`."""
        for tag in tags:
            await self._ask(self._channel.basic_ack(tag, wait=False))

    async def give_back(self, tags: Sequence[Any]) -> None:
        """Give tokens back; see `Tokens.give_back`."""
        for tag in tags:
            await self._ask(self._channel.basic_nack(tag, requeue=True, wait=False))

    async def look(self, schedule: str) -> Queued:
        """Return what is in a queue; see `Tokens.look`."""
        name = self._topology.schedule(schedule)
        declaring = self._channel.queue_declare(name, passive=True, timeout=CALL_LIMIT)
        answer = await self._ask(declaring)
        return Queued(answer.message_count or 0, answer.consumer_count or 0)

    async def answer(self, name: str, body: bytes) -> None:
        """Publish a token; see `Tokens.answer`."""
        await self._links.publish(_parcel(self._topology, name, body))

    async def bury(self, schedule: str, message: Message, cause: Cause) -> None:
        """Put a job among the dead; see `Tokens.bury`."""
        properties = wire.dead_properties(wire.properties_of(message), cause)
        headers = {**(properties.headers or {}), wire.SCHEDULE: schedule}
        changed = wire.copied(properties, headers)
        exchange, body = self._topology.dead_exchange, message.args.encode()
        if error := await self._links.publish(Parcel(exchange, message.queue, body, changed)):
            raise error

    async def _ask(self, asking: Any) -> Any:
        try:
            return await asking
        except FAILURES as error:
            raise_if_other(error)
            failure = self._links.translated(error)
            self._break(failure)
            raise failure from error

    async def _on_message(self, schedule: str, turn: int, message: DeliveredMessage) -> None:
        self._come.put(HeldToken(schedule, turn, message.body, message.delivery_tag))

    async def _cancelled(self, _: Any) -> None:
        self._break(TransportUnavailable("the broker has ended the consumer of a schedule"))

    def _closed(self, closing: "asyncio.Future[Any]") -> None:
        self._break(self._links.why_closed(closing))

    def _break(self, error: TransportError) -> None:
        self._come.broken = self._come.broken or error
        self._come.clear()
        self._come.notify()


async def put_token(links: Links, topology: Topology, schedule: str, body: bytes) -> None:
    """Publish a token; raise TransportError if the broker has not confirmed it."""
    if error := await links.publish(_parcel(topology, schedule, body)):
        raise error


async def token_of(links: Links, topology: Topology, schedule: str) -> bytes | None:
    """Return the token of a schedule; see `KeepsSchedules.token_of`.

    The caller stands in line as well: so it gets a token that no worker holds, which goes back
    when the channel is closed.
    """
    name = f"{topology.schedules}.{uuid4().hex}"
    found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async with links.channel(consuming=True) as channel:

        async def handed(message: DeliveredMessage) -> None:
            said = _said(message.body)
            if said.get("asks") is not None:
                await channel.basic_ack(message.delivery_tag or 0, wait=False)
            elif not said.get("starts") and not found.done():
                found.set_result(message.body)

        async def answered(message: DeliveredMessage) -> None:
            if not found.done():
                found.set_result(message.body)

        await channel.queue_declare(name, exclusive=True, auto_delete=True, timeout=CALL_LIMIT)
        await channel.queue_bind(name, topology.schedules, name, timeout=CALL_LIMIT)
        await channel.basic_consume(name, answered, no_ack=True, timeout=CALL_LIMIT)
        await channel.basic_qos(prefetch_count=PREFETCH, timeout=CALL_LIMIT)
        await channel.basic_consume(topology.schedule(schedule), handed, timeout=CALL_LIMIT)
        for _ in range(TIMES_ASKED):
            await put_token(links, topology, schedule, _question(name))
            await asyncio.wait([found], timeout=ASKED_EVERY)
            if found.done():
                return found.result()
    return None


def _parcel(topology: Topology, key: str, body: bytes) -> Parcel:
    properties = Basic.Properties(content_type="application/json", delivery_mode=wire.PERSISTENT)
    return Parcel(topology.schedules, key, body, properties)


def _said(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _question(name: str) -> bytes:
    said = {"loop": uuid4().hex, "tick": 0.0, "due": 0.0, "asks": name}
    return json.dumps(said).encode()


def order_to_start() -> bytes:
    """Return the body of an order to start a schedule that has stopped."""
    said = {"loop": uuid4().hex, "tick": 0.0, "due": 0.0, "starts": True}
    return json.dumps(said).encode()
