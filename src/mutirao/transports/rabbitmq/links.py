"""The connections to a broker: one to publish and one to consume, in each event loop.

They are separate because a broker that is short of memory or disk reads no more from a connection
that publishes, acknowledgements included.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from re import match, search
from typing import Any, NamedTuple, cast
from uuid import uuid4

import aiormq
from aiormq.abc import AbstractChannel, AbstractConnection
from aiormq.channel import Channel
from aiormq.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelAccessRefused,
    ChannelClosed,
    ChannelInvalidStateError,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    ConnectionNotAllowed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
)
from pamqp.commands import Basic

from mutirao.errors import (
    MessageTooLarge,
    TransportDenied,
    TransportError,
    TransportMismatch,
    TransportUnavailable,
)
from mutirao.transports.rabbitmq.deliveries import SeparatesDeliveries, Taker, Takers, pass_over
from mutirao.transports.rabbitmq.first_publish import Knocking

CONNECT_LIMIT = 15.0  # seconds to connect and sign in
CALL_LIMIT = 30.0  # seconds for the broker to answer a request, or to confirm a message
CLOSE_LIMIT = 3.0  # seconds to say goodbye
HEADER_BEGINS = 12  # bytes of the frame of a message's properties before these
UNKNOWN_VERSION = (99, 0)  # what says none is taken for the newest
LARGE = 1 << 20  # bytes of a body that must not be left behind in memory
DECLARE = "make what is missing with `mutirao transports declare`"
TOO_LONG = (
    "a handler took longer than the broker's consumer_timeout, and what was handed out comes again:"
    " raise that, or leave such jobs to the database"
)

# Errors of the client: `raise_if_other` raises the others.
FAILURES = (Exception, asyncio.CancelledError)
_OF_THE_CLIENT = (
    AMQPError, OSError, TimeoutError, asyncio.InvalidStateError, ChannelInvalidStateError,
)  # fmt: skip
_CLOSED = "the connection to the broker was closed"


class Parcel(NamedTuple):
    """A message to publish: exchange, key, body and properties."""

    exchange: str
    key: str
    body: bytes
    properties: Basic.Properties


class Links:
    """The connections of one event loop to the broker at a URL. `name` is for people."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name
        self._connections: dict[str, AbstractConnection] = {}
        self._publishing: Channel | None = None
        self._lock, self._knocking = asyncio.Lock(), Knocking()
        self._takers: Takers = {}
        self.consumers = 0  # channels that consume

    async def publish(self, parcel: Parcel) -> TransportError | None:
        """Publish one thing; return None once the broker has confirmed it, or why it has not."""
        return await self._knocking.send(parcel.exchange, partial(self._publish, parcel))

    async def _publish(self, parcel: Parcel) -> TransportError | None:
        try:
            channel = await self._channel_to_publish()
            if (unfit := _unfit_headers(parcel, channel.max_content_size)) is not None:
                return unfit
            async with asyncio.timeout(CALL_LIMIT):
                # A broker that is short of memory or disk reads later what is sent meanwhile: if it
                # was sent again and again it would be there as often.
                await channel.connection.ready()
            await channel.basic_publish(
                parcel.body,
                exchange=parcel.exchange,
                routing_key=parcel.key,
                properties=parcel.properties,
                mandatory=True,
                timeout=CALL_LIMIT,
                wait=False,
            )
        except PublishError:
            return TransportMismatch(
                f"{self._name} has no queue for {parcel.key!r} of exchange {parcel.exchange!r};"
                f" {DECLARE}"
            )
        except DeliveryError:
            return TransportUnavailable(f"{self._name} did not take a message; publish it again")
        except TransportError as error:
            return error
        except FAILURES as error:
            raise_if_other(error)
            if isinstance(error, TimeoutError) and len(parcel.body) > LARGE:
                await self.drop("publishes")  # with messages that the broker has not accepted
            if isinstance(error, ChannelPreconditionFailed):
                return self._too_large(error, len(parcel.body)) or self.translated(error)
            failure = self.translated(error)
            failure.__cause__ = error
            return failure
        return None

    def _too_large(self, error: BaseException, size: int) -> TransportError | None:
        """Return the error if the message was refused for its size, else None.

        The broker closes the channel of one that is too large, with all that is under way on it.
        """
        if (found := search(r"message size \d+ is larger than \D*(\d+)", _text(error))) is None:
            return None
        if size <= int(found[1]):
            return TransportUnavailable(f"{_CLOSED} for another message, which is too large")
        return MessageTooLarge(
            f"a message of {size} bytes is more than the max_message_size of {self._name},"
            f" {found[1]}: give RabbitMQ(max_size={found[1]}), or raise that of the broker"
        )

    @asynccontextmanager
    async def channel(self, *, consuming: bool = False) -> AsyncIterator[AbstractChannel]:
        """Open a channel of its own, and close it at the end.

        Raises:
            TransportError: the broker is away, or refuses a request of the block.
        """
        async with self._translating():
            channel = await self._open("consumes" if consuming else "publishes")
        self.consumers += consuming
        try:
            async with self._translating():
                yield channel
        finally:
            self.consumers -= consuming
            await _closed(channel)

    async def consume(self, channel: AbstractChannel, queue: str, taker: Taker) -> str:
        """Consume a queue on a channel; return the consumer tag.

        `taker` is called with each delivery until `leave`.
        """
        tag = f"mutirao-{uuid4().hex}"
        self._takers[tag.encode()] = taker
        try:
            await channel.basic_consume(queue, pass_over, consumer_tag=tag, timeout=CALL_LIMIT)
        except BaseException:
            self.leave(tag)
            raise
        return tag

    def leave(self, consumer: str | None) -> None:
        """Take no more deliveries to a consumer."""
        if consumer is not None:
            self._takers.pop(consumer.encode(), None)

    async def opened(self, what: str, *, confirms: bool) -> AbstractChannel:
        """Open a channel of a connection of its own, by a name; raises what `channel` does."""
        async with self._translating():
            return await self._open(what, confirms=confirms)

    def version_of(self, channel: AbstractChannel) -> tuple[int, ...]:
        """Return the version of the broker that a channel leads to; the newest if it says none."""
        said = cast(Any, channel.connection).server_properties
        found = match(r"(\d+)\.(\d+)", str(said.get("version", "")))
        return tuple(map(int, found.groups())) if found else UNKNOWN_VERSION

    async def drop(self, what: str) -> None:
        """Close a connection, with messages that the broker has not accepted."""
        if (found := self._connections.pop(what, None)) is not None:
            await _closed(found)

    async def close(self) -> None:
        """Close the connections."""
        connections, self._connections = list(self._connections.values()), {}
        self._publishing = None
        for each in connections:
            await _closed(each)

    def why_closed(self, closing: "asyncio.Future[Any]") -> TransportError:
        """Return why a channel was closed, by its `closing`."""
        if not closing.cancelled() and (error := closing.exception()) is not None:
            return self.translated(error)
        return TransportUnavailable(_CLOSED)

    def translated(self, error: BaseException) -> TransportError:
        """Return the error of Mutirão for an error of the client."""
        if isinstance(error, TransportError):
            return error
        if _is_bare(error) or isinstance(error, ChannelInvalidStateError):
            return TransportUnavailable(_CLOSED)
        said = f"{self._name}: {_text(error)}"
        if isinstance(error, ChannelClosed):
            return _of_channel(error, said)
        match error:
            case AMQPError() if "Connection.OpenOk" in said:
                return TransportDenied(
                    f"{self._name} does not open this virtual host; correct the URL, or make it and"
                    " let the user in"
                )
            case AuthenticationError() | ProbableAuthenticationError() | ConnectionNotAllowed():
                return TransportDenied(
                    f"{self._name} lets nobody in with this user, password and virtual host:"
                    f" {_text(error)}; correct the URL, or the user's rights"
                )
            case FileNotFoundError() | AMQPError(__cause__=FileNotFoundError()):
                return TransportDenied(
                    f"{self._name}: a file that its URL names (cafile, certfile, keyfile) is not"
                    " there; correct the URL"
                )
            case TimeoutError():
                return TransportUnavailable(
                    f"{self._name} did not answer within {CALL_LIMIT:g} s; it may be out of memory"
                    " or disk, or the network swallows packets"
                )
        return TransportUnavailable(
            f"{self._name} is away: {_text(error)}; it is not started, or the URL or the network is"
            " wrong"
        )

    @asynccontextmanager
    async def _translating(self) -> AsyncIterator[None]:
        try:
            yield
        except TransportError:
            raise
        except FAILURES as error:
            raise_if_other(error)
            raise self.translated(error) from error

    async def _channel_to_publish(self) -> Channel:
        channel = self._publishing
        if channel is None or channel.is_closed or not _alive(channel.connection):
            async with self._lock:
                channel = self._publishing
                if channel is None or channel.is_closed or not _alive(channel.connection):
                    channel = await self._open("publishes", locked=True)
                    self._publishing = channel
        return channel

    async def _open(self, what: str, *, locked: bool = False, confirms: bool = True) -> Channel:
        if locked:
            connection = await self._connection(what)
        else:
            async with self._lock:
                connection = await self._connection(what)
        async with asyncio.timeout(CALL_LIMIT):
            opened = await connection.channel(
                publisher_confirms=confirms, on_return_raises=confirms
            )
        return cast(Channel, opened)

    async def _connection(self, what: str) -> AbstractConnection:
        found = self._connections.get(what)
        if found is None or not _alive(found):
            if found is not None:
                await _closed(found)
            said: Any = {"connection_name": f"mutirao {what}"}
            factory = SeparatesDeliveries(self._takers)
            async with asyncio.timeout(CONNECT_LIMIT):
                found = await aiormq.connect(
                    self._url, client_properties=said, transport_factory=factory
                )
            self._connections[what] = found
        return found


def _unfit_headers(parcel: Parcel, most: int) -> TransportError | None:
    """Return why the headers of a message cannot be sent, if so: they have to fit into one frame.

    A broker closes the connection for one that is too large, with all that is under way.
    """
    headers = parcel.properties.headers
    if not headers or sum(len(str(each)) for each in headers.values()) < most // 8:
        return None  # each character has at most four bytes
    size = len(parcel.properties.marshal()) + HEADER_BEGINS
    if size <= most:
        return None
    return MessageTooLarge(
        f"the headers of a message have {size} bytes, of at most {most}; tags and metadata are"
        " among them: pass a reference to the data instead"
    )


def _of_channel(error: ChannelClosed, said: str) -> TransportError:
    """Return why a broker has closed a channel; `said`: who, and its words."""
    match error:
        case ChannelNotFoundEntity():
            return TransportMismatch(f"{said}; {DECLARE}")
        case ChannelPreconditionFailed() if "acknowledgement" in said:
            return TransportUnavailable(f"{said}; {TOO_LONG}")
        case ChannelPreconditionFailed():
            return TransportMismatch(
                f"{said}; what is there cannot be changed: delete it once it is empty, or choose"
                " another prefix, then declare it"
            )
        case ChannelAccessRefused():
            return TransportMismatch(
                f"{said}; grant the user configure, write and read on the prefix"
            )
        case ChannelLockedResource():
            return TransportMismatch(
                f"{said}; it is of one connection alone: have it made without `exclusive`, or"
                " choose another"
            )
    return TransportUnavailable(f"{said}; the broker has closed the channel")


def raise_if_other(error: BaseException) -> None:
    """Raise an error that is none of the client's.

    It also cancels callers that wait on a connection, raises a bare Exception in them where a
    channel was closed without a reason, and in others that something is closed.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
    elif not isinstance(error, _OF_THE_CLIENT) and not _is_bare(error):
        raise error


def _is_bare(error: BaseException) -> bool:
    """Return whether the client raised it for something that was closed, and says no more."""
    closed = type(error) is RuntimeError and str(error).endswith(" closed")
    return closed or type(error) is Exception


def _alive(connection: AbstractConnection) -> bool:
    return connection.is_opened and not connection.is_closed


async def _closed(what: AbstractChannel | AbstractConnection) -> None:
    try:
        async with asyncio.timeout(CLOSE_LIMIT):
            await what.close()
    except FAILURES as error:
        raise_if_other(error)


def _text(error: BaseException) -> str:
    texts = [each for each in error.args if isinstance(each, str) and each]
    return texts[-1] if texts else type(error).__name__
