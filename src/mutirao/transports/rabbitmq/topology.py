"""Exchanges, queues and bindings at the broker, all under one prefix.

    exchange PREFIX            direct: a queue's name leads to it
    queue PREFIX.QUEUE         what waits
    exchange, queue PREFIX-delay-SECONDS
                               one for each period; what has waited goes to PREFIX, by its key
    exchange PREFIX-dead       direct
    queue PREFIX-dead.QUEUE    what is dead
    exchange PREFIX-events     topic: kind, task and queue lead to the listeners
    queue PREFIX-events        notes of how many events were dropped, for a day
    exchange PREFIX-schedules  direct
    queue PREFIX-schedules.SCHEDULE
                               the token of a schedule
    queue PREFIX-schedules     the names of schedules that were ever declared
    exchange PREFIX-workers    fanout: announcements between workers, each has a queue while it
                               listens

All queues but the latter are quorum queues: only these have delivery limits, and dead letters that
are not lost.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

from aiormq.abc import AbstractChannel
from aiormq.exceptions import ChannelAccessRefused, ChannelNotFoundEntity

from mutirao.errors import TransportMismatch, TransportRefused
from mutirao.model.brokers.message import Difference
from mutirao.transports.rabbitmq.delays import PERIODS, name_of
from mutirao.transports.rabbitmq.fields import MAX_NAME
from mutirao.transports.rabbitmq.links import CALL_LIMIT

NO_LIMIT = 2_000_000_000  # of deliveries: looking at the dead is one, and 4.x drops after 20

OpenChannel = Callable[[], AbstractAsyncContextManager[AbstractChannel]]
Arguments = dict[str, Any]
_AT_LEAST_ONCE: Arguments = {
    "x-queue-type": "quorum",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}
DROPPED = "dropped"  # the key of notes; those of events have two dots
_NOTES: Arguments = {
    "x-queue-type": "quorum",
    "x-max-length": 1_000,
    "x-message-ttl": 86_400_000,  # milliseconds
    "x-delivery-limit": NO_LIMIT,
}
_PLAIN = re.compile(r"[a-zA-Z0-9\-_.:@#,/ ]")
_VALUE = re.compile(r"the value '(.*)' of type '\w+'")
_INEQUIVALENT = re.compile(r"inequivalent arg '([^']+)'.*received (.+?) but current is (.+)", re.S)


class Things(NamedTuple):
    """Exchanges with their types, queues with their arguments, bindings."""

    exchanges: dict[str, str]
    queues: dict[str, Arguments]
    bindings: list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Topology:
    """The names at the broker.

    Parameters:
        limit: deliveries after which the broker itself gives a message up.
        source: the queue of other programs that is consumed as well; None: none.
        has_events: whether job events are published.
    """

    prefix: str
    limit: int
    source: str | None = None
    has_events: bool = False

    def queue(self, queue: str) -> str:
        """Return the broker's name of a queue.

        Raises:
            TransportRefused: it would be too long.
        """
        return _short(f"{self.prefix}.{_plain(queue)}")

    def dead(self, queue: str) -> str:
        """Return the name of the queue of the dead of a queue."""
        return _short(f"{self.dead_exchange}.{_plain(queue)}")

    @property
    def dead_exchange(self) -> str:
        """The name of the exchange that leads to the dead."""
        return f"{self.prefix}-dead"

    @property
    def events(self) -> str:
        """The name of the exchange that leads to the listeners to events."""
        return f"{self.prefix}-events"

    @property
    def schedules(self) -> str:
        """The name of the exchange that leads to the tokens of schedules."""
        return f"{self.prefix}-schedules"

    @property
    def workers(self) -> str:
        """The name of the exchange for announcements between workers."""
        return f"{self.prefix}-workers"

    def schedule(self, schedule: str) -> str:
        """Return the name of the queue of a schedule's token."""
        return _short(f"{self.schedules}.{_plain(schedule)}")

    def delay(self, period: float) -> str:
        """Return the name of the exchange and queue that hold a message for a period."""
        return f"{self.prefix}-delay-{name_of(period)}"

    def exchanges(self) -> dict[str, str]:
        """Return the exchanges by name, with their types."""
        fixed = {self.prefix: "direct", self.dead_exchange: "direct"}
        fixed |= {self.workers: "fanout", self.events: "topic"}
        return fixed | {self.delay(each): "fanout" for each in PERIODS}

    def queues(self, queues: Sequence[str]) -> dict[str, Arguments]:
        """Return the queues by name, with their arguments."""
        found: dict[str, Arguments] = {}
        for each in PERIODS:
            found[self.delay(each)] = {
                **_AT_LEAST_ONCE,
                "x-message-ttl": int(each * 1000),
                "x-dead-letter-exchange": self.prefix,
            }
        if self.has_events:
            found[self.events] = _NOTES
        for name in queues:
            found[self.queue(name)] = {
                **_AT_LEAST_ONCE,
                "x-delivery-limit": self.limit,
                "x-dead-letter-exchange": self.dead_exchange,
            }
            found[self.dead(name)] = {"x-queue-type": "quorum", "x-delivery-limit": NO_LIMIT}
        return found

    def of_schedules(self, schedules: Sequence[str]) -> "Things":
        """Return what schedules need."""
        arguments: Arguments = {
            "x-queue-type": "quorum",
            "x-single-active-consumer": True,
            "x-delivery-limit": NO_LIMIT,
        }
        register = {"x-queue-type": "quorum", "x-delivery-limit": NO_LIMIT}
        tokens = [(self.schedule(each), self.schedules, each) for each in schedules]
        return Things(
            {self.schedules: "direct"},
            {self.schedules: register} | {self.schedule(each): arguments for each in schedules},
            [(self.schedules, self.schedules, ""), *tokens],
        )

    def of_queues(self, queues: Sequence[str]) -> "Things":
        """Return what queues need."""
        return Things(self.exchanges(), self.queues(queues), self.bindings(queues))

    def bindings(self, queues: Sequence[str]) -> list[tuple[str, str, str]]:
        """Return the bindings: queue, exchange, key."""
        delays = [(self.delay(each), self.delay(each), "") for each in PERIODS]
        works = [(self.queue(each), self.prefix, each) for each in queues]
        if self.has_events:
            works.append((self.events, self.events, DROPPED))
        # A message that the broker gives up keeps its key: the queue's name, if it was published to
        # it.
        dead = [
            (self.dead(each), self.dead_exchange, key)
            for each in queues
            for key in (each, self.queue(each))
        ]
        return delays + works + dead


def is_name(name: object) -> TypeGuard[str]:
    """Return whether the client takes this as the name of a queue."""
    if not isinstance(name, str):
        return False
    return 0 < len(name) <= MAX_NAME and all(map(_PLAIN.fullmatch, name))


@lru_cache(1_024)  # of each message: to look at each letter is half of what else is made of it
def _plain(name: str) -> str:
    """Return a name in the letters that AMQP allows; others as `+` and two digits for each byte."""
    return "".join(
        each if _PLAIN.fullmatch(each) else "".join(f"+{byte:02X}" for byte in each.encode())
        for each in name
    )


def word_of(name: str) -> str:
    """Return a name as one word of the keys of a topic exchange, which dots part."""
    return _plain(name).replace(".", "+2E").replace("#", "+23")


def _short(name: str) -> str:
    if len(name) > MAX_NAME:
        raise TransportRefused(
            f"{name!r} has {len(name)} bytes; a name at the broker has at most {MAX_NAME}: choose a"
            " shorter queue or prefix"
        )
    return name


async def declare(things: Things, channel: OpenChannel) -> list[str]:
    """Make these things; see `Transport.declare`."""
    async with channel() as opened:
        for name, kind in things.exchanges.items():
            await opened.exchange_declare(name, exchange_type=kind, durable=True)
        for name, arguments in things.queues.items():
            await opened.queue_declare(name, durable=True, arguments=arguments)
        for queue, exchange, key in things.bindings:
            await opened.queue_bind(queue, exchange, key)
    return [*things.exchanges, *things.queues]


async def compare(things: Things, channel: OpenChannel) -> list[Difference]:
    """Return what is missing or otherwise; see `Transport.compare`.

    A broker reports an argument only if the thing is declared with another one, and then closes the
    channel. A passive declaration goes first, so that nothing is created.
    """
    left: list[tuple[str, str | Arguments]] = [*things.exchanges.items(), *things.queues.items()]
    found: list[Difference] = []
    while left:
        try:
            async with channel() as opened:
                while left:
                    await _ask(opened, *left[0], passive=True)
                    await _ask(opened, *left[0], passive=False)
                    left.pop(0)
        except TransportMismatch as error:
            if isinstance(error.__cause__, ChannelAccessRefused):
                raise  # of all the rest it would say the same
            found.append(_difference(*left.pop(0), error))
    return found


async def is_there(queue: str, channel: OpenChannel) -> bool:
    """Return whether the broker has a queue of this name.

    Raises:
        TransportError: the broker does not answer.
    """
    try:
        async with channel() as opened:
            await opened.queue_declare(queue, passive=True, timeout=CALL_LIMIT)
    except TransportMismatch as error:
        if isinstance(error.__cause__, ChannelNotFoundEntity):
            return False
        raise
    return True


async def missing_source(source: str | None, channel: OpenChannel) -> list[Difference]:
    """Return that the queue of other programs is missing, if so; how it is made is theirs."""
    if source is None or await is_there(source, channel):
        return []
    what = f"queue {source!r} of other programs"
    return [Difference(what, "a queue that they have made", None, theirs=True)]


def _difference(name: str, expected: str | Arguments, error: TransportMismatch) -> Difference:
    """Return how one thing differs, in the first argument that does."""
    what = f"{'exchange' if isinstance(expected, str) else 'queue'} {name!r}"
    words = expected if isinstance(expected, str) else _in_words(expected)
    if isinstance(error.__cause__, ChannelNotFoundEntity):
        return Difference(what, words, None)
    if (differs := _INEQUIVALENT.search(str(error))) is None:
        return Difference(what, words, str(error))
    argument, *values = differs.groups()
    ours, theirs = (_VALUE.sub(r"\1", each.partition(";")[0]) for each in values)
    return Difference(what, f"{argument} = {ours}", f"{argument} = {theirs}")


async def _ask(
    channel: AbstractChannel, name: str, expected: str | Arguments, *, passive: bool
) -> None:
    if isinstance(expected, str):
        await channel.exchange_declare(name, exchange_type=expected, durable=True, passive=passive)
    else:
        await channel.queue_declare(name, durable=True, arguments=expected, passive=passive)


def _in_words(arguments: Arguments) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sorted(arguments.items()))
