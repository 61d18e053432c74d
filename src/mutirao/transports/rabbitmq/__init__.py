"""RabbitMQ as a transport: quorum queues, confirms, delays and dead letters under one prefix.

Needs `mutirao[rabbitmq]`. Works on RabbitMQ 3.10 and newer.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf
from typing import Any

from mutirao.aio import ByLoop
from mutirao.errors import (
    ConfigurationError,
    MessageTooLarge,
    MissingDriver,
    TransportError,
    TransportMismatch,
    TransportRefused,
    TransportUnavailable,
)
from mutirao.model.brokers.message import DeadMessage, Difference, Message, Mode
from mutirao.model.jobs.events import EventKey, JobEvent
from mutirao.ports.events import Dropped, Drops, EventFeed
from mutirao.ports.transport import OnLost
from mutirao.transports.environment import check_kinds, check_mode, with_environment
from mutirao.transports.rabbitmq.urls import shown_url

try:
    from aiormq.exceptions import ChannelNotFoundEntity

    from mutirao.transports.rabbitmq import register, topology as places
    from mutirao.transports.rabbitmq.announcing import RabbitAnnouncements
    from mutirao.transports.rabbitmq.consumer import RabbitConsumer
    from mutirao.transports.rabbitmq.events import EventPublisher, dropped_lately, listening
    from mutirao.transports.rabbitmq.graveyard import Graveyard
    from mutirao.transports.rabbitmq.links import CALL_LIMIT, Links
    from mutirao.transports.rabbitmq.sending import parcel_of
    from mutirao.transports.rabbitmq.tokens import RabbitTokens, order_to_start, put_token, token_of
except ModuleNotFoundError as missing:  # pragma: no cover
    raise MissingDriver(
        f"RabbitMQ needs {missing.name}, which is not installed: pip install 'mutirao[rabbitmq]'"
    ) from missing

LONGEST_DELAY = 86_400.0  # seconds; what waits longer belongs in a store, where people see it
DELIVERY_LIMIT = 20
MAX_SIZE = 16 << 20  # bytes: what RabbitMQ 4 takes unless it is configured otherwise
WINDOW = 2_000  # messages under way at once; more would be held twice in memory

__all__ = ["RabbitMQ"]


@dataclass(frozen=True)
class RabbitOptions:
    """The options of `RabbitMQ`. Raises ConfigurationError if an option is out of range."""

    url: str = field(default="", repr=False)  # it may have a password
    prefix: str = "mutirao"
    delivery_limit: int = DELIVERY_LIMIT
    max_size: int = MAX_SIZE
    events: bool = False

    def __post_init__(self) -> None:
        """Check types and bounds."""
        check_kinds(self)
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,100}", self.prefix):
            raise ConfigurationError(
                f"prefix is {self.prefix!r}; give 1 to 100 letters, digits, dots, - and _"
            )
        if self.delivery_limit < 1 or self.max_size < 1:
            raise ConfigurationError("delivery_limit and max_size are numbers from 1")


class RabbitMQ:
    """A RabbitMQ broker, for `Mutirao(transports={"mail": RabbitMQ("amqp://…")})`.

    An option that is None comes from MUTIRAO_RABBITMQ_URL and so on, which are read when a queue is
    first used; without these it has the default of docs/rabbitmq.md.

    Parameters:
        url: `amqp://user:password@host:port/vhost`, or `amqps://` for TLS.
        mode: "alone": the message is the job. "carried": the job is in the database, and the
            message is a doorbell; see docs/outbox.md.
        prefix: of the names of all that is made at the broker.
        delivery_limit: how many consumers may vanish with a message before the broker itself gives
            it up; a worker does so after ten.
        max_size: the maximum bytes of a message's arguments; not above what the broker takes. What
            others have published and is larger is dead, unread.
        events: publish the life-cycle events of its jobs; see `app.events`.
        queue: a queue of other programs to consume, for `@app.consumer`; nothing of it is changed.

    Raises:
        ConfigurationError: the URL is none of AMQP or has an unknown parameter, or an option is out
            of range.
    """

    rewrites = True
    longest_again = inf  # what waits for longer than its queues have it goes round in them
    longest_delay = LONGEST_DELAY

    def __init__(
        self,
        url: str | None = None,
        *,
        mode: Mode = "alone",
        prefix: str | None = None,
        delivery_limit: int | None = None,
        max_size: int | None = None,
        events: bool | None = None,
        queue: str | None = None,
    ) -> None:
        check_mode(mode)
        if queue is not None and (mode != "alone" or not places.is_name(queue)):
            raise ConfigurationError(
                f"queue is {queue!r} and mode {mode!r}; give the name of a queue of other programs"
                " in the letters that AMQP 0.9.1 has for it, whose messages are the jobs:"
                ' mode="alone"'
            )
        given: dict[str, Any] = {
            "url": url, "prefix": prefix, "delivery_limit": delivery_limit, "max_size": max_size,
            "events": events,
        }  # fmt: skip
        self._given = {each: value for each, value in given.items() if value is not None}
        RabbitOptions(**self._given)  # which checks them
        if url is not None:
            shown_url(url)
        self.mode: Mode = mode
        self.source = queue
        self._links: ByLoop[Links] = ByLoop()
        self._publishers: ByLoop[EventPublisher] = ByLoop()
        self._met = set[str]()  # objects that have existed

    @cached_property
    def _options(self) -> RabbitOptions:
        return with_environment("RABBITMQ", RabbitOptions, self._given)

    @cached_property
    def name(self) -> str:
        """The broker's name for people: its URL without secrets."""
        return shown_url(self._options.url)

    @property
    def tells(self) -> bool:
        """Whether it publishes job events."""
        return self._options.events

    @property
    def events_dropped(self) -> int:
        """How many events were not published by this process."""
        return self._drops.number

    @cached_property
    def _drops(self) -> Drops:
        return Drops(f"before {self.name} took them")

    @cached_property
    def _topology(self) -> "places.Topology":
        said = self._options
        return places.Topology(said.prefix, said.delivery_limit, self.source, said.events)

    def __repr__(self) -> str:
        url = self._given.get("url")
        return f"<RabbitMQ {'at MUTIRAO_RABBITMQ_URL' if url is None else shown_url(url)}>"

    async def publish(self, messages: Sequence[Message]) -> list[TransportError | None]:
        """Publish messages; see `Transport.publish`."""
        results: list[TransportError | None] = []
        links = self._here()
        if len(messages) == 1:  # which needs no task
            return [await self._publish(links, messages[0])]
        for first in range(0, len(messages), WINDOW):
            some = messages[first : first + WINDOW]
            results += await asyncio.gather(*(self._publish(links, each) for each in some))
        return results

    @asynccontextmanager
    async def consumer(
        self, queue: str, prefetch: int, on_lost: OnLost, *, grace: float = inf
    ) -> AsyncIterator[RabbitConsumer]:
        """Consume a queue; see `Transport.consumer`."""
        links = self._here()
        async with links.channel(consuming=True) as channel:
            consumer = RabbitConsumer(
                links, self._topology, queue, channel, on_lost, self._options.max_size
            )
            try:
                async with self._made_again(f"queue {queue!r}", partial(self.declare, [queue])):
                    await consumer.begin(prefetch)
                yield consumer
            finally:
                consumer.leave()

    async def declare(self, queues: Sequence[str]) -> list[str]:
        """Make what queues need; see `Transport.declare`."""
        return await places.declare(self._topology.of_queues(queues), self._here().channel)

    async def compare(self, queues: Sequence[str]) -> list[Difference]:
        """Return what is missing or otherwise; see `Transport.compare`.

        Bindings are not compared: AMQP cannot list them. `declare` makes the missing ones.
        """
        channel = self._here().channel
        found = await places.compare(self._topology.of_queues(queues), channel)
        return [*found, *await places.missing_source(self.source, channel)]

    @asynccontextmanager
    async def tokens(self, schedules: Sequence[str]) -> AsyncIterator[RabbitTokens]:
        """Stand in line for tokens; see `KeepsSchedules.tokens`."""
        links = self._here()
        async with links.channel(consuming=True) as channel:
            tokens = RabbitTokens(links, self._topology, channel)
            what, make = "its schedules", partial(self.declare_schedules, schedules)
            async with self._made_again(what, make):
                await tokens.begin(schedules)
            yield tokens

    @asynccontextmanager
    async def announcements(self) -> AsyncIterator[RabbitAnnouncements]:
        """Listen to the announcements of workers; see `Announces.announcements`."""
        links = self._here()
        async with links.channel(consuming=True) as channel:
            announcements = RabbitAnnouncements(links, self._topology, channel)
            await announcements.begin()
            yield announcements

    async def start_schedule(self, schedule: str) -> None:
        """Start a schedule; see `KeepsSchedules.start_schedule`."""
        await put_token(self._here(), self._topology, schedule, order_to_start())

    async def token_of(self, schedule: str) -> bytes | None:
        """Return the token of a schedule; see `KeepsSchedules.token_of`."""
        return await token_of(self._here(), self._topology, schedule)

    async def declare_schedules(self, schedules: Sequence[str]) -> list[str]:
        """Make what schedules need; see `KeepsSchedules.declare_schedules`."""
        links, topology = self._here(), self._topology
        made = await places.declare(topology.of_schedules(schedules), links.channel)
        await register.note(links, topology, schedules)
        return made

    async def left_schedules(self, but: Collection[str]) -> list[str]:
        """Return other schedules that have a queue; see `KeepsSchedules.left_schedules`."""
        return await register.left(self._here(), self._topology, but)

    async def drop_schedule(self, schedule: str) -> None:
        """Delete the objects of a schedule; see `KeepsSchedules.drop_schedule`."""
        await register.drop(self._here(), self._topology, schedule)

    async def compare_schedules(self, schedules: Sequence[str]) -> list[Difference]:
        """Return what is missing or otherwise; see `KeepsSchedules.compare_schedules`."""
        return await places.compare(self._topology.of_schedules(schedules), self._here().channel)

    async def waiting(self, queue: str) -> int:
        """Return how many messages wait; see `Transport.waiting`."""
        if self.source is not None:
            return await self._count(self.source)
        async with self._made_again(f"queue {queue!r}", partial(self.declare, [queue])):
            return await self._count(self._topology.queue(queue))

    async def _count(self, name: str) -> int:
        async with self._here().channel() as channel:
            answer = await channel.queue_declare(name, passive=True, timeout=CALL_LIMIT)
        return answer.message_count or 0

    async def dead_count(self, queue: str) -> int:
        """Return how many dead messages there are; see `Transport.dead_count`."""
        return await self._count(self._topology.dead(queue))

    async def dead(self, queue: str, most: int) -> list[DeadMessage]:
        """Return dead messages; see `Transport.dead`."""
        return await Graveyard(self._here(), self._topology, queue).look(most)

    async def return_dead(self, queue: str, ids: Sequence[str] | None) -> int:
        """Send dead messages back; see `Transport.return_dead`."""
        return await Graveyard(self._here(), self._topology, queue).give_back(ids)

    async def drop_dead(self, queue: str, ids: Sequence[str] | None) -> int:
        """Delete dead messages; see `Transport.drop_dead`."""
        return await Graveyard(self._here(), self._topology, queue).drop(ids)

    async def dropped(self) -> Dropped | None:
        """Return how many events were dropped lately; see `TellsEvents.dropped`."""
        return await dropped_lately(self._here(), self._topology)

    def tell(self, event: JobEvent) -> None:
        """Publish an event soon; see `TellsEvents.tell`."""
        self._publishers.here(
            lambda: EventPublisher(self._here(), self._topology, self._drops)
        ).add(event)

    @asynccontextmanager
    async def listen(
        self, filters: Sequence[EventKey], feed: EventFeed
    ) -> AsyncIterator["asyncio.Future[TransportError]"]:
        """Put events into a feed; see `TellsEvents.listen`.

        By a connection of its own: a worker that ends closes those of its event loop.
        """
        links = self._linked()
        try:
            async with listening(links, self._topology, filters, feed) as ended:
                yield ended
        finally:
            await links.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; see `Transport.aclose`."""
        if (links := self._links.get()) is None or links.consumers:
            return
        if publisher := self._publishers.pop():
            await publisher.close()
        self._links.pop()
        await links.close()

    @asynccontextmanager
    async def _made_again(
        self, what: str, make: Callable[[], Awaitable[Sequence[str]]]
    ) -> AsyncIterator[None]:
        """Declare again what this process has seen at the broker before and is gone now.

        Objects that it has never seen are declared by people.

        Raises:
            TransportUnavailable: it was missing, and exists now.
            TransportMismatch: it is missing, or cannot be made.
        """
        try:
            yield
        except TransportMismatch as error:
            if what not in self._met or not isinstance(error.__cause__, ChannelNotFoundEntity):
                raise
            made = len(await make())
            raise TransportUnavailable(
                f"{self.name} has lost {what}, or somebody has deleted that; what it needs is made"
                f" again ({made} names)"
            ) from error
        self._met.add(what)

    async def _publish(self, links: Links, message: Message) -> TransportError | None:
        if message.delay > self.longest_delay:
            return TransportRefused(
                f"message {message.id} is to wait {message.delay:g} s; a broker holds one for at"
                f" most {self.longest_delay:g} s: what waits longer belongs in the database"
            )
        try:
            parcel = parcel_of(self._topology, message, message.delay)
        except TransportError as error:
            return error
        if (size := len(parcel.body)) > self._options.max_size:
            return MessageTooLarge(
                f"a message of {size} bytes is more than {self._options.max_size}, which max_size="
                " allows; pass a reference to the data instead"
            )
        return await links.publish(parcel)

    def _here(self) -> Links:
        return self._links.here(self._linked)

    def _linked(self) -> Links:
        return Links(self._options.url, self.name)
