"""Parses deliveries from the bytes of a broker before aiormq reads them, for speed.

aiormq passes each frame through a stream, a queue and two coroutines, and starts a task for each
message: more than half of the processor time that a worker took for a short job (docs/adr/0076). So
a consuming connection cuts the incoming bytes into frames itself. Frames of deliveries are joined
to messages and handed over at once; all other frames go to aiormq.

aiormq closes a connection on which it cannot read the properties of a message, and the broker then
delivers that message again. So the properties of all other messages are wrapped before it sees
them.
"""

import asyncio
from collections.abc import Callable
from functools import cached_property
from struct import Struct
from typing import Any, NamedTuple

from aiormq import AMQPConnectionError, TransportFactory
from pamqp.commands import Basic
from pamqp.heartbeat import Heartbeat

from mutirao.transports.rabbitmq import fields
from mutirao.transports.rabbitmq.wire import Unreadable

HEAD, TAG, SIZE = Struct(">BHI"), Struct(">QB"), Struct(">Q")
AROUND = HEAD.size + 1  # bytes of a frame besides its payload: the head, and an octet at its end
METHOD, HEADER, BODY, HEARTBEAT = KINDS = 1, 2, 3, 8
FRAME_END = 0xCE
DELIVER = Basic.Deliver.index.to_bytes(4)
# The other methods that a message follows: it was got, or returned as no queue has taken it.
CONTENT = (DELIVER, Basic.GetOk.index.to_bytes(4), Basic.Return.index.to_bytes(4))
BEFORE = 12  # bytes of a frame before the properties: the class, the weight and the size
# aiormq closes a connection on which it reads nothing, and brokers send no heartbeats while there
# are deliveries. So it is given one in place of them.
SIGN_OF_LIFE, SIGN_EVERY = Heartbeat().marshal(), 1.0  # seconds


class Taker(NamedTuple):
    """The callbacks of one consumer. Neither may raise.

    Parameters:
        take: called with each delivery.
        largest: bytes of a body, above which `keeps` is asked.
        keeps: returns whether the body of this one is kept as it comes; otherwise it is empty.
    """

    take: Callable[["Arrived"], None]
    largest: int
    keeps: Callable[["Arrived"], bool]


Takers = dict[bytes, Taker]  # by the consumer tag


class Arrived:
    """A message as delivered. Rarely needed properties are parsed when they are read."""

    def __init__(self, method: bytes, at: int) -> None:
        """Begin with the frame that announces it; `at`: where its delivery tag stands."""
        self.tag, redelivered = TAG.unpack_from(method, at)
        self.redelivered = bool(redelivered)
        self.header = self.body = b""
        self.size, self.kept = 0, True
        self._from = method[at + TAG.size :]
        self._left, self._parts = 0, list[bytes]()

    def take_header(self, payload: bytes) -> bool:
        """Take the frame of its properties; return whether it is whole."""
        self.header = payload[BEFORE:]
        self.size = self._left = SIZE.unpack_from(payload, 4)[0]
        return not self._left

    def take_body(self, payload: bytes) -> bool:
        """Take a frame of its body; return whether it is whole."""
        if self.kept:
            self._parts.append(payload)
        self._left -= len(payload)
        if self._left > 0:
            return False
        self.body = b"".join(self._parts)
        self._parts.clear()
        return True

    @property
    def properties(self) -> Basic.Properties:
        """Its properties.

        Raises:
            Unreadable: they are not of AMQP.
        """
        found, problem = self._read
        if problem is not None:
            cause = f"{type(problem).__name__}: {problem}"
            raise Unreadable(f"its properties are not those of AMQP 0.9.1: {cause}") from problem
        return found

    @property
    def readable(self) -> Basic.Properties:
        """Its properties, as far as they can be read."""
        return self._read[0]

    @cached_property
    def _read(self) -> tuple[fields.Properties, Exception | None]:
        return fields.read(self.header)

    @property
    def exchange(self) -> str:
        """The exchange to which it was published."""
        return self._text(0)

    @property
    def routing_key(self) -> str:
        """The key with which it was published."""
        return self._text(1 + self._from[0])

    def _text(self, at: int) -> str:
        return self._from[at + 1 : at + 1 + self._from[at]].decode(errors="replace")


class DeliveryStream(asyncio.StreamReader):
    """The bytes from a broker without the deliveries to `takers`, which get them by a call."""

    def __init__(self, takers: Takers) -> None:
        self._clock = asyncio.get_running_loop()
        super().__init__(loop=self._clock)
        self._takers = takers
        self._coming: dict[int, tuple[Taker, Arrived]] = {}  # by channel
        self._unwrapped: set[int] = set()  # channels on which properties for aiormq come next
        self._rest = b""  # the begin of a frame
        self._is_amqp = True
        self._signed_at = 0.0

    def feed_data(self, data: Any) -> None:
        """Take received bytes; the transport calls it."""
        if self._is_amqp:
            data = self._cut(self._rest + data)
        if data:
            super().feed_data(data)

    def feed_eof(self) -> None:
        """Take that nothing more comes; the transport calls it."""
        if rest := self._rest:
            self._rest = b""
            super().feed_data(rest)
        super().feed_eof()

    def _cut(self, data: bytes) -> bytes:
        """Take the deliveries out of received bytes; return the other frames."""
        at, size, others = 0, len(data), []
        while size - at >= AROUND:
            kind, channel, length = HEAD.unpack_from(data, at)
            end = at + AROUND + length
            if kind not in KINDS or (end <= size and data[end - 1] != FRAME_END):
                self._is_amqp = False  # aiormq reports what is wrong
                end = size
            elif end > size:
                break
            elif self._takes(kind, channel, data[at + HEAD.size : end - 1]):
                at = end
                continue
            if kind == HEADER and channel in self._unwrapped and self._is_amqp:
                others.append(self._wrap(channel, data[at + HEAD.size : end - 1]))
            else:
                others.append(data[at:end])
            at = end
        self._rest = data[at:] if at < size else b""
        if at and not others:
            return self._sign_of_life()
        return b"".join(others)

    def _takes(self, kind: int, channel: int, payload: bytes) -> bool:
        """Take a frame of a delivery; return False if it is another."""
        if kind == METHOD:
            return self._begins(channel, payload)
        coming = self._coming.get(channel)
        if coming is None:
            return False
        taker, message = coming
        if message.take_header(payload) if kind == HEADER else message.take_body(payload):
            del self._coming[channel]
            taker.take(message)
        elif kind == HEADER and message.size > taker.largest:
            message.kept = taker.keeps(message)
        return True

    def _begins(self, channel: int, payload: bytes) -> bool:
        self._coming.pop(channel, None)
        if payload[:4] not in CONTENT:
            return False
        end = 5 + payload[4]
        taker = self._takers.get(payload[5:end]) if payload[:4] == DELIVER else None
        if taker is None:
            self._unwrapped.add(channel)
            return False
        self._coming[channel] = taker, Arrived(payload, end)
        return True

    def _wrap(self, channel: int, payload: bytes) -> bytes:
        """Return the frame of properties that aiormq can read in place of any."""
        self._unwrapped.discard(channel)
        wrapped = payload[:BEFORE] + fields.wrapped(payload[BEFORE:])
        return HEAD.pack(HEADER, channel, len(wrapped)) + wrapped + bytes([FRAME_END])

    def _sign_of_life(self) -> bytes:
        now = self._clock.time()
        if now < self._signed_at + SIGN_EVERY:
            return b""
        self._signed_at = now
        return SIGN_OF_LIFE


class SeparatesDeliveries(TransportFactory):
    """Opens connections that hand deliveries to `takers` and everything else to aiormq."""

    def __init__(self, takers: Takers) -> None:
        self._takers = takers

    async def create(
        self, url: Any, **kwargs: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection, as `asyncio.open_connection` does, with this module's stream."""
        tls = await kwargs["ssl_context_provider"].get_context() if url.scheme == "amqps" else None
        loop, stream = asyncio.get_running_loop(), DeliveryStream(self._takers)
        protocol = asyncio.StreamReaderProtocol(stream, loop=loop)
        try:
            made = loop.create_connection(lambda: protocol, url.host, url.port, ssl=tls)
            transport, _ = await made
        except OSError as error:
            raise AMQPConnectionError(*error.args) from error
        return stream, asyncio.StreamWriter(transport, protocol, stream, loop)


async def pass_over(_: object) -> None:
    """Ignore a delivery to aiormq: the broker delivers it again, as its consumer is gone."""
