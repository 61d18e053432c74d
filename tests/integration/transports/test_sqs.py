"""SQS with its faults, each ordered from the fake; time is injected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mutirao.errors import (
    ConfigurationError,
    DeliveryLost,
    MessageTooLarge,
    TransportMismatch,
    TransportRefused,
    TransportUnavailable,
)
from mutirao.model.message import Ack, Again, Bury, Cause, Delivery, Message
from mutirao.transports.sqs import SQS
from mutirao.transports.sqs.consumer import SqsConsumer
from mutirao.transports.sqs.leases import Timing
from tests.support.sqs_faults import FakeSqs
from tests.support.waiting import soon, until

VISIBILITY = 30
CHANGE, DELETE = "change_message_visibility_batch", "delete_message_batch"
Lines = Callable[[], list[str]]


class World:
    """A broker, a transport and the time."""

    def __init__(self, **options: Any) -> None:
        self.now = 1_000.0
        self.broker = FakeSqs(lambda: self.now)
        self.fifo = options.get("fifo", False)
        self.name = "q.fifo" if self.fifo else "q"
        self.lost: list[str] = []
        timing = Timing(lambda: self.now, self.wait, threaded=False)
        both = self.broker, self.broker
        options = {"visibility": VISIBILITY, "wait": 1, **options}
        self.transport = SQS(clients=lambda: both, timing=timing, **options)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def beat(self) -> float:
        """Have the heartbeat make a turn; return the seconds until the next one."""
        return self.transport._open().heartbeat.turn()

    async def publish(self, *messages: Message) -> None:
        """Publish messages that all pass."""
        await self.transport.declare(["q"])
        assert await self.transport.publish(messages) == [None] * len(messages)

    @asynccontextmanager
    async def consuming(self, prefetch: int = 10) -> AsyncIterator[SqsConsumer]:
        """Consume the queue, and note what is lost."""
        async with self.transport.consumer("q", prefetch, self._lose) as consumer:
            yield consumer

    def visible_in(self) -> list[float]:
        """Return the seconds after which each message is visible."""
        return [each.visible_at - self.now for each in self.broker.queues[self.name].messages]

    def _lose(self, lost: Any) -> None:
        self.lost += [id_of(each) for each in lost]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """One with a standard queue."""
    world = World()
    yield world
    await world.transport.aclose()


@pytest.fixture
async def ordered() -> AsyncIterator[World]:
    """One whose queue keeps order."""
    world = World(fifo=True)
    yield world
    await world.transport.aclose()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    """Return the lines of the log about messages so far."""
    with caplog.at_level(logging.DEBUG, "mutirao.sqs"):
        yield lambda: caplog.messages


def message(id: str, **options: Any) -> Message:
    """Return a message."""
    return Message(**{"id": id, "task": "encode", "queue": "q", **options})


def id_of(delivery: Delivery) -> str:
    """Return the id of a message."""
    assert delivery.message is not None
    return delivery.message.id


async def receive(consumer: SqsConsumer, number: int = 1) -> list[Delivery]:
    """Receive so many."""
    found: list[Delivery] = []
    while len(found) < number:
        found += await soon(consumer.receive(number - len(found)))
    return found


async def test_a_deletion_that_is_lost(world: World) -> None:
    """SQS says that it has deleted: the message comes again when its time is over."""
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        world.broker.lost_deletes = 1
        [first] = await receive(consumer)
        assert await consumer.settle([Ack(first)]) == [None]
        world.wait(VISIBILITY)
        [again] = await receive(consumer)
        assert again.message is not None
        assert (again.message.id, again.message.attempt) == ("a", 2)
        assert await consumer.settle([Ack(again)]) == [None]
    assert world.visible_in() == []


async def test_handed_out_twice(world: World) -> None:
    """What is held is not worked on twice; only the newest handle deletes it."""
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        [first] = await receive(consumer)
        world.broker.duplicates = 1
        await world.publish(message("b"))
        assert [id_of(each) for each in await receive(consumer)] == ["b"]
        await until(lambda: not world.broker.duplicates)
        assert await consumer.settle([Ack(first)]) == [None]
        assert len(world.visible_in()) == 1


async def test_out_of_order(world: World) -> None:
    """All arrive."""
    world.broker.disorder = True
    await world.publish(*(message(str(n)) for n in range(25)))
    async with world.consuming(prefetch=25) as consumer:
        came = await receive(consumer, 25)
        assert {id_of(each) for each in came} == {str(n) for n in range(25)}
        assert await consumer.settle([Ack(each) for each in came]) == [None] * 25
    assert world.broker.requests[DELETE] == 3


async def test_a_handle_that_grew_stale(world: World, lines: Lines) -> None:
    """The handler is told to end, and nothing is deleted."""
    await world.publish(message("a"), message("b"))
    async with world.consuming() as consumer:
        came = await receive(consumer, 2)
        world.broker.steal("q")
        world.wait(VISIBILITY * 2 / 3)
        world.beat()
        await until(lambda: len(world.lost) == 2)
        assert sorted(world.lost) == ["a", "b"]
        told = await consumer.settle([Ack(each) for each in came])
        assert [type(each) for each in told] == [DeliveryLost] * 2
    assert world.broker.requests[DELETE] == 0
    assert len(world.visible_in()) == 2
    assert any(
        each.startswith("message a of q is lost to this worker: SQS says") for each in lines()
    )


async def test_visibility_follows_the_work(world: World, lines: Lines) -> None:
    """It is extended at two thirds, in batches, and never for longer than usual."""
    await world.publish(*(message(str(n)) for n in range(20)))
    async with world.consuming(prefetch=20) as consumer:
        await receive(consumer, 20)
        for beat in range(1, 50):
            world.wait(VISIBILITY * 2 / 3)
            assert world.beat() == pytest.approx(VISIBILITY * 2 / 3)
            assert world.visible_in() == [VISIBILITY] * 20
            assert world.broker.requests[CHANGE] == 2 * beat
    assert max(world.visible_in()) <= 0
    assert "message 0 of q is still worked on, for 20 s" in lines()


async def test_twelve_hours(world: World) -> None:
    """The cap counts from the receipt: we stop before SQS refuses, and say why."""
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        while not world.lost and world.now < 50_000:
            world.wait(10)
            world.beat()
            await asyncio.sleep(0)
        assert 1_000 + 43_000 < world.now < 1_000 + 43_200
        [told] = await consumer.settle([Ack(held)])
        assert isinstance(told, DeliveryLost)
        assert "held for its longest time, 43140 s" in str(told)


async def test_the_longest_runtime() -> None:
    """It is shorter where one is set."""
    world = World(max_runtime=45)
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        await receive(consumer)
        world.wait(20)
        world.beat()
        world.wait(20)
        world.beat()
        assert world.visible_in() == [5]  # no longer than it is held
        world.wait(5)
        world.beat()
        await until(lambda: world.lost == ["a"])
    await world.transport.aclose()


async def test_an_extension_that_is_throttled(world: World) -> None:
    """It is tried again as long as there is time; then the message is lost."""
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        await receive(consumer)
        world.broker.refuse(CHANGE, "RequestThrottled")
        world.wait(20)
        assert 0 < world.beat() <= 1
        world.wait(1)
        world.beat()
        assert world.visible_in() == [VISIBILITY]
        world.broker.refuse_entries(CHANGE, "InternalError", times=99)
        while True:
            rest = world.beat()
            await asyncio.sleep(0)
            if world.lost:
                break
            world.wait(max(0.1, rest))
        assert 1_000 + 21 + VISIBILITY <= world.now < 1_000 + 21 + VISIBILITY + 2


@pytest.mark.parametrize(("after", "seen"), [(0.0, 0.0), (90.0, 90.0), (86_400.0, 43_098.0)])
async def test_what_failed_is_soon_back(world: World, after: float, seen: float) -> None:
    """At once, or after its back-off, as far as SQS allows from the receipt."""
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        world.wait(20)
        world.beat()
        world.wait(81)  # late: its handler was slow to end
        world.broker.queues["q"].messages[0].visible_at = world.now + 1
        assert held.message is not None
        await consumer.stop()
        assert await consumer.settle([Again(held, held.message, after)]) == [None]
        assert world.visible_in() == [pytest.approx(seen, abs=1)]


@pytest.mark.parametrize("code", ["RequestThrottled", "OverLimit", "ExpiredToken"])
async def test_trouble_of_one_queue(world: World, lines: Lines, code: str) -> None:
    """Is waited out there, and nowhere else; what is held stays."""
    await world.publish(message("a"))
    await world.transport.declare(["other"])
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        world.broker.refuse("receive_message", code, times=2)
        await until(lambda: sum("is paused" in each for each in lines()) == 2)
        async with world.transport.consumer("other", 1, print) as other:
            await world.transport.publish([message("o", queue="other"), message("b")])
            assert [id_of(each) for each in await receive(other)] == ["o"]
            assert [id_of(each) for each in await receive(consumer)] == ["b"]
        assert await consumer.settle([Ack(held)]) == [None]
    assert "q goes on" in lines()


@pytest.mark.parametrize("code", ["AWS.SimpleQueueService.NonExistentQueue", "AccessDenied"])
async def test_a_queue_that_is_gone(world: World, code: str) -> None:
    """Whoever consumes is told; publishing tells it of each message."""
    await world.publish()
    async with world.consuming() as consumer:
        world.broker.refuse("receive_message", code)
        with pytest.raises(TransportMismatch):
            await soon(consumer.receive(1))
    world.broker.refuse("send_message_batch", code)
    [told] = await world.transport.publish([message("a")])
    assert isinstance(told, TransportMismatch)


async def test_entries_that_fail(world: World) -> None:
    """Each is told apart: those that pass are tried again, and only those."""
    await world.publish()
    world.broker.refuse_entries("send_message_batch", "InternalError", most=1)
    away, sent = await world.transport.publish([message("a"), message("b")])
    assert (type(away), sent) == (TransportUnavailable, None)
    world.broker.refuse_entries("send_message_batch", "InvalidMessageContents", sender=True)
    refused, sent = await world.transport.publish([message("c"), message("d")])
    assert (type(refused), sent) == (TransportRefused, None)
    async with world.consuming() as consumer:
        came = await receive(consumer, 2)
        world.broker.refuse_entries(DELETE, "InternalError", times=2)
        assert await consumer.settle([Ack(each) for each in came]) == [None, None]
    assert world.broker.requests[DELETE] == 3
    assert world.visible_in() == []


async def test_deletes_that_never_pass(world: World) -> None:
    """They end when the message is not ours any more, at the latest."""
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        world.broker.refuse_entries(DELETE, "InternalError", times=99)
        [told] = await consumer.settle([Ack(held)])
        assert isinstance(told, TransportUnavailable)
        assert world.now <= 1_000 + VISIBILITY
        world.wait(VISIBILITY)
        [again] = await receive(consumer)
        assert id_of(again) == "a"


async def test_what_is_dead_is_kept_first(world: World) -> None:
    """A message is deleted once its copy is confirmed, not before."""
    await world.publish(message("a"))
    cause = Cause(error_type="ValueError", error="no\x00 é\ufffe")
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        world.broker.refuse_entries("send_message_batch", "InvalidMessageContents", sender=True)
        [told] = await consumer.settle([Bury(held, cause)])
        assert isinstance(told, TransportRefused)
        assert world.broker.requests[DELETE] == 0
        assert await consumer.settle([Bury(held, cause)]) == [None]
    assert [each.cause for each in await world.transport.dead("q", 5)] == [cause]


async def test_leaving(world: World) -> None:
    """What was not settled is visible at once, started or not."""
    await world.publish(*(message(str(n)) for n in range(15)))
    async with world.consuming(prefetch=15) as consumer:
        await receive(consumer, 12)
        await until(lambda: not world.broker.waiting("q"))
    assert len(world.broker.waiting("q")) == 15


async def test_groups_keep_their_order(ordered: World) -> None:
    """One of a group at a time; another group does not wait."""
    await ordered.publish(*(message(id, ordering_key=id[0]) for id in ("a1", "a2", "b1", "a3")))
    async with ordered.consuming() as consumer:
        a1, b1 = await receive(consumer, 2)
        assert [id_of(a1), id_of(b1)] == ["a1", "b1"]
        assert await consumer.settle([Ack(a1)]) == [None]
        [a2] = await receive(consumer)
        assert id_of(a2) == "a2"
        assert await consumer.settle([Ack(a2), Ack(b1)]) == [None, None]
        assert [id_of(each) for each in await receive(consumer)] == ["a3"]


async def test_a_group_stops_at_its_first_failure(ordered: World) -> None:
    """The rest is given back, and comes behind it again, for whoever consumes."""
    await ordered.publish(*(message(id, ordering_key=id[0]) for id in ("a1", "a2", "a3", "b1")))
    async with ordered.consuming() as consumer:
        a1, b1 = await receive(consumer, 2)
        assert a1.message is not None
        assert await consumer.settle([Again(a1, a1.message, 60), Ack(b1)]) == [None, None]
        assert ordered.visible_in() == [60, 0, 0]
        ordered.wait(60)
        for expected in ("a1", "a2", "a3"):
            [each] = await receive(consumer)
            assert id_of(each) == expected
            assert await consumer.settle([Ack(each)]) == [None]


async def test_a_stale_handle_of_a_group(ordered: World) -> None:
    """FIFO queues say so when deleting, and what waited behind it is given back."""
    await ordered.publish(message("a1", ordering_key="a"), message("a2", ordering_key="a"))
    async with ordered.consuming() as consumer:
        [a1] = await receive(consumer)
        ordered.broker.steal("q.fifo")
        [told] = await consumer.settle([Ack(a1)])
        assert isinstance(told, DeliveryLost)
    assert len(ordered.visible_in()) == 2


async def test_what_is_refused_at_the_caller(world: World, ordered: World) -> None:
    """Delays past SQS's, sizes, arguments that are no text; others of the call pass."""
    await world.publish()
    bad = [
        message("late", delay=901), message("large", args='{"a": "%s"}' % ("é" * (1 << 19))),
        message("odd", args='{"a": "\ud800"}'), message("broken", args="{"),
    ]  # fmt: skip
    told = await world.transport.publish([*bad, message("good", args='{"a": "\ufffe"}')])
    refused = [TransportRefused, MessageTooLarge, *[TransportRefused] * 2]
    assert [type(each) for each in told] == [*refused, type(None)]
    assert "into the store" in str(told[0])
    assert "a bucket of S3" in str(told[1])
    async with world.consuming() as consumer:
        [good] = await receive(consumer)
        assert good.raw == b'{"a": "\\ufffe"}'  # the same JSON, in characters that XML has
    await ordered.publish()
    [told_of_order] = await ordered.transport.publish([message("late", delay=1)])
    assert isinstance(told_of_order, TransportRefused)
    odd: list[dict[str, Any]] = [{"visibility": 1}, {"wait": 0}, {"max_receives": 4}]
    for options in odd:
        with pytest.raises(ConfigurationError, match="give a whole number"):
            SQS(**options)
    single = SQS("q", clients=lambda: (world.broker, world.broker))
    await single.declare(["q"])
    with pytest.raises(ConfigurationError, match="asked for 'r' too"):
        await single.declare(["r"])
    await single.aclose()


async def test_batches_by_size(world: World) -> None:
    """What is too large together goes apart."""
    await world.publish(*(message(str(n), args='{"a": "%s"}' % ("x" * 400_000)) for n in range(5)))
    assert world.broker.requests["send_message_batch"] == 3


async def test_whose_message_it_is(world: World) -> None:
    """SQS is told the tenant, in characters that it accepts."""
    await world.publish(
        message("a", headers={"tenant": "acme"}), message("b", headers={"tenant": "são"}),
        message("c"),
    )  # fmt: skip
    acme, other, nobody = (each.group for each in world.broker.queues["q"].messages)
    assert (acme, nobody) == ("acme", None)
    assert other is not None
    assert other.isascii()


async def test_the_life_of_a_message_in_the_log(world: World, lines: Lines) -> None:
    """Got, started, failed, done: each with its id."""
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        assert held.message is not None
        await consumer.settle([Again(held, held.message)])
        await consumer.settle([Ack(each) for each in await receive(consumer)])
    assert [each for each in lines() if "message a" in each] == [
        "got message a of q (hand-out 1)",
        "message a of q started",
        "message a of q failed; it comes again in 0 s",
        "got message a of q (hand-out 2)",
        "message a of q started",
        "message a of q done",
    ]
