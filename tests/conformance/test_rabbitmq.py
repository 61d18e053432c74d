"""The contract of a transport on RabbitMQ, and what only RabbitMQ has."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncIterator
from itertools import cycle
from typing import Any
from uuid import uuid4

import aiormq
import pamqp.frame
import pytest
from aiormq.channel import Channel
from aiormq.exceptions import ChannelAccessRefused, ChannelPreconditionFailed
from pamqp.commands import Basic, Connection

from mutirao.client.transports import examine_transports
from mutirao.errors import (
    ConfigurationError,
    MessageTooLarge,
    TransportDenied,
    TransportError,
    TransportMismatch,
    TransportUnavailable,
)
from mutirao.model.brokers.message import Ack, Bury, DeadMessage, Delivery
from mutirao.model.findings import Level
from mutirao.ports import Consumer, Transport
from mutirao.ports.events import EventFeed, TellsEvents
from mutirao.transports.rabbitmq import RabbitMQ, consumer, links, prefetch, topology
from mutirao_conformance import EventsContract, TransportContract
from mutirao_conformance.events import ALL, event
from mutirao_conformance.kit import deadline
from mutirao_conformance.transport import (
    CAUSE,
    OTHER,
    QUEUE,
    PublishForeign,
    consuming,
    letter,
    publish,
    read,
    receive,
    settle,
)
from tests.support.rabbitmq import RabbitServer, delete_queue, emptied, publish_raw
from tests.support.waiting import until

PREFIX = "contract"


@pytest.fixture
async def transport(rabbit: RabbitServer) -> AsyncIterator[RabbitMQ]:
    """The queues of the contract, with nothing in them."""
    transport = RabbitMQ(rabbit.url(), prefix=PREFIX)
    async with emptied(transport, rabbit, QUEUE, OTHER):
        yield transport


class TestRabbitMQ(TransportContract):
    """A node of its own."""

    @pytest.fixture
    def unreachable(self) -> Transport:
        """Where nobody listens."""
        return RabbitMQ("amqp://guest:guest@127.0.0.1:1/")

    @pytest.fixture
    def publish_foreign(self, rabbit: RabbitServer) -> PublishForeign:
        """By the client, without any property."""

        async def publish(queue: str, body: bytes) -> None:
            await publish_raw(rabbit, PREFIX, queue, body)

        return publish


class TestRabbitEvents(EventsContract):
    """By the same node."""

    @pytest.fixture
    async def transport(self, rabbit: RabbitServer) -> AsyncIterator[RabbitMQ]:
        """One that tells."""
        transport = RabbitMQ(rabbit.url(), prefix=PREFIX, events=True)
        await transport.declare([])
        yield transport
        await transport.aclose()

    @pytest.fixture
    def unreachable(self) -> TellsEvents:
        """Where nobody listens."""
        return RabbitMQ("amqp://guest:guest@127.0.0.1:1/", events=True)

    async def test_without_the_exchange(
        self, rabbit: RabbitServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Who listens is told what to do; what is told is dropped, and counted."""
        transport = RabbitMQ(rabbit.url(), prefix="undeclared", events=True)
        with pytest.raises(TransportMismatch, match="transports declare"):
            async with transport.listen(ALL, EventFeed(9)):
                pass
        async with deadline():
            transport.tell(event())
            await until(lambda: transport.events_dropped)
        await transport.aclose()
        assert "events were dropped before amqp://" in caplog.text


async def test_what_was_dropped_is_noted(rabbit: RabbitServer) -> None:
    """With the next event, once a minute; whoever examines the broker later finds it."""
    publisher = RabbitMQ(rabbit.url(), prefix="noted", events=True)
    await publisher.declare([])
    assert await publisher.dropped() is None
    await publish_raw(rabbit, "noted-events", "dropped", b"not a note")
    for _ in range(2):
        publisher._drops.add(3)
        publisher.tell(event())
        await publisher.aclose()  # which tells what is left
    asking = RabbitMQ(rabbit.url(), prefix="noted", events=True)

    async def noted() -> bool:
        seen = await asking.dropped()
        return seen is not None and seen.number == 6

    async with deadline():
        await until(noted)
        assert (await examine_transports({"q": asking}, {"q"}))[0].level is Level.PROBLEM
        await asking.declare(["q"])
        _, found = await examine_transports({"q": asking}, {"q"})
    assert " 6 events were not published within a day" in found.found
    await asking.aclose()


async def test_a_delay_of_several_periods(transport: RabbitMQ) -> None:
    """0.7 s is 0.5 and 0.2: who consumes sends it on, and hands it out once."""
    loop = asyncio.get_running_loop()
    asked = loop.time()
    await publish(transport, letter(delay=0.7, headers={"kept": "é"}))
    async with consuming(transport) as consumer:
        (delivery,) = await receive(consumer)
        assert loop.time() - asked >= 0.7
        assert read(delivery).headers == {"kept": "é"}
        assert read(delivery).lost == 0
        await settle(consumer, Ack(delivery))


async def test_a_message_of_another_program(transport: RabbitMQ, rabbit: RabbitServer) -> None:
    """Three properties make a job; one of a newer form is left alone, with what to do."""
    said: dict[str, Any] = {"message_id": "order-7", "message_type": "greet"}
    await publish_raw(rabbit, PREFIX, QUEUE, b'{"name": "x"}', **said)
    await publish_raw(rabbit, PREFIX, QUEUE, b"{}", **said, headers={"mutirao-version": 2})
    await publish_raw(rabbit, PREFIX, QUEUE, b"{}", **said, headers={"tags": ["x"], "n": None})
    async with consuming(transport) as consumer:
        plain, newer, typed = await receive(consumer, 3)
        assert read(typed).headers == {"tags": "['x']"}
        await settle(consumer, Ack(typed))
        assert (read(plain).id, read(plain).task) == ("order-7", "greet")
        assert newer.message is None
        assert "upgrade the workers" in str(newer.problem)
        await settle(consumer, Ack(plain), Ack(newer))


async def test_what_is_done_together_is_acknowledged_so(
    transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one frame up to the first that is held, and in one for each behind it."""
    frames: list[tuple[int, bool]] = []
    acknowledge = Channel.basic_ack

    async def counting(self: Channel, tag: int, multiple: bool = False, **how: Any) -> None:
        frames.append((tag, multiple))
        await acknowledge(self, tag, multiple, **how)

    monkeypatch.setattr(Channel, "basic_ack", counting)
    await publish(transport, *(letter() for _ in range(50)))
    async with consuming(transport) as consumer:
        came = await receive(consumer, 50)
        held = came.pop(40)
        await settle(consumer, *map(Ack, came))
        assert frames[0] == (40, True)
        assert sorted(frames[1:]) == [(tag, False) for tag in range(42, 51)]
        await settle(consumer, Ack(held))
        assert frames[10:] == [(41, True)]


async def test_deliveries_go_past_the_client(
    transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads answers to what it has asked, and as good as nothing for a message."""
    read: list[str] = []
    unmarshal = pamqp.frame.unmarshal

    def counting(data: bytes) -> Any:
        found = unmarshal(data)
        read.append(type(found[-1]).__name__)
        return found

    await publish(transport, *(letter(headers={"n": n}) for n in range(100)))
    monkeypatch.setattr(pamqp.frame, "unmarshal", counting)
    async with consuming(transport) as consumer:
        await settle(consumer, *map(Ack, await receive(consumer, 100)))
    assert not {"Deliver", "ContentHeader", "ContentBody"} & {*read}
    assert len(read) < 20


async def test_properties_that_nobody_can_read(transport: RabbitMQ, rabbit: RabbitServer) -> None:
    """Are those of one message, which is dead; the others come."""

    class Wrong(Basic.Properties):
        def marshal(self) -> bytes:
            return struct.pack(">HQ", self.flags["timestamp"], 2**63 - 1)

    await publish_raw(rabbit, PREFIX, QUEUE, b"{}", properties=Wrong())
    await publish(transport, letter())
    async with consuming(transport) as consumer:
        wrong, _ = came = await receive(consumer, 2)
        assert wrong.message is None
        assert "properties" in str(wrong.problem)
        await settle(consumer, Bury(wrong, CAUSE), Ack(came[1]))
    [dead] = await transport.dead(QUEUE, 2)
    assert (dead.raw, dead.task) == (b"{}", None)
    assert await transport.drop_dead(QUEUE, None) == 1


async def test_the_broker_gives_up(rabbit: RabbitServer) -> None:
    """After its delivery limit, if every consumer vanishes before it can judge.

    So with what somebody has published to the queue itself, by its name at the broker.
    """
    transport = RabbitMQ(rabbit.url(), prefix="limited", delivery_limit=1)
    async with emptied(transport, rabbit, "q"):
        await publish(transport, letter(queue="q"))
        await publish_raw(rabbit, "", "limited.q", b"{}")
        for _ in range(2):
            async with consuming(transport, "q") as consumer:
                await receive(consumer, 2)

        async def given_up() -> list[DeadMessage] | None:
            found = await transport.dead("q", 2)
            return found if len(found) == 2 else None

        async with deadline():
            found = await until(given_up)
        for each in found:
            assert each.cause.error_type == "GivenUpByBroker"
            assert "delivery_limit" in each.cause.error
        assert await transport.drop_dead("q", None) == 2


async def test_what_is_otherwise_is_named(rabbit: RabbitServer) -> None:
    """And is not changed: neither by comparing nor by declaring."""
    one = RabbitMQ(rabbit.url(), prefix="differs", delivery_limit=3)
    other = RabbitMQ(rabbit.url(), prefix="differs", delivery_limit=4)
    await one.declare(["q"])
    (found,) = await other.compare(["q"])
    assert str(found) == (
        "queue 'differs.q' has x-delivery-limit = '3'; expected x-delivery-limit = '4'"
    )
    with pytest.raises(TransportMismatch, match="x-delivery-limit"):
        await other.declare(["q"])
    assert await one.compare(["q"]) == []
    await one.aclose()
    await other.aclose()


async def test_a_queue_that_is_deleted(transport: RabbitMQ, rabbit: RabbitServer) -> None:
    """Its consumer is told; what it was handed it may end. What is published comes back."""
    await transport.declare(["short-lived"])
    lost: list[Delivery] = []
    async with deadline(), transport.consumer("short-lived", 5, lost.extend) as consumer:
        await publish(transport, *(letter(queue="short-lived") for _ in range(2)))
        one, other = await receive(consumer, 2)
        await delete_queue(rabbit, f"{PREFIX}.short-lived")
        with pytest.raises(TransportUnavailable, match="was deleted"):
            await consumer.receive(1)
    assert lost == []
    assert await consumer.settle([Ack(one), Bury(other, CAUSE)]) == [None, None]
    assert await transport.drop_dead("short-lived", None) == 1
    (error,) = await transport.publish([letter(queue="short-lived")])
    assert isinstance(error, TransportMismatch)


@pytest.mark.parametrize("version", [(4, 2), (4, 3)])
async def test_a_consumer_that_is_cancelled(
    transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int]
) -> None:
    """Before 4.3 its queue was deleted; since then a queue that is there hands out again."""
    monkeypatch.setattr(links.Links, "version_of", lambda *_: version)
    lost: list[Delivery] = []
    async with deadline(), transport.consumer(QUEUE, 5, lost.extend) as consumer:
        await publish(transport, letter())
        [held] = await receive(consumer)
        await consumer._cancelled(None)
        with pytest.raises(TransportUnavailable):
            await consumer.receive(1)
    assert lost == ([held] if version == (4, 3) else [])
    async with consuming(transport) as consuming_again:
        await settle(consuming_again, *map(Ack, await receive(consuming_again)))


async def test_a_queue_that_is_deleted_last(
    transport: RabbitMQ, rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RabbitMQ 4.3 ends the consumers of a queue first: that is still found for a moment."""
    await transport.declare(["short-lived"])
    lost: list[Delivery] = []

    async def then_delete(name: str, channel: topology.OpenChannel) -> bool:
        found = await topology.is_there(name, channel)
        await delete_queue(rabbit, name)
        return found

    async with deadline(), transport.consumer("short-lived", 5, lost.extend) as consumer:
        await publish(transport, letter(queue="short-lived"))
        [held] = await receive(consumer)
        monkeypatch.setattr(links.Links, "version_of", lambda *_: (4, 3))
        monkeypatch.setattr("mutirao.transports.rabbitmq.consumer.is_there", then_delete)
        await consumer._cancelled(None)
        with pytest.raises(TransportUnavailable, match="was deleted"):
            await consumer.receive(1)
    assert lost == []
    assert await consumer.settle([Ack(held)]) == [None]


async def test_what_the_broker_has_lost(rabbit: RabbitServer) -> None:
    """Is made again by whoever has consumed it, and says so; what was never there is not."""
    transport = RabbitMQ(rabbit.url(), prefix=f"lost-{uuid4().hex[:8]}")
    made = [*await transport.declare(["q"]), *await transport.declare_schedules(["tick"])]

    async def use() -> None:
        async with consuming(transport, "q"), transport.tokens(["tick"]):
            assert await transport.waiting("q") == 0

    await use()
    async with aiormq.connect(rabbit.url()) as connection:
        channel = await connection.channel()
        for name in made:
            await channel.exchange_delete(name)
            await channel.queue_delete(name)
    for what in ("queue 'q'", "its schedules"):
        with pytest.raises(TransportUnavailable, match=rf"has lost {what}.*made again"):
            await use()
    await use()
    assert await transport.compare(["q"]) + await transport.compare_schedules(["tick"]) == []
    with pytest.raises(TransportMismatch, match="transports declare"):
        await transport.waiting("never there")
    await transport.aclose()


async def test_another_prefetch_returns_nothing(
    transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a stop: what is on its way to a cancelled consumer counts as delivered before."""
    monkeypatch.setattr(prefetch, "QUIET", 2.0)  # for which a busy broker hands out nothing
    monkeypatch.setattr(prefetch, "LONGEST_STOP", 60.0)
    sizes, left = cycle((20, 80, 320, 20, 500)), 2_000
    await publish(transport, *(letter() for _ in range(left)))

    async def take(one: Consumer) -> bool:
        nonlocal left
        came = await one.receive(500)
        assert {each.returned for each in came} <= {0}
        left -= len(came)
        await settle(one, *map(Ack, came))
        return bool(came)

    for least in (500, 0):
        async with deadline(), transport.consumer(QUEUE, 20, print) as one:
            while left > least:
                await one.resize(next(sizes))
                await take(one)
            await one.stop()
            while await take(one):
                pass
    assert left == 0


async def test_a_smaller_prefetch_while_all_is_held(transport: RabbitMQ) -> None:
    """What is held stays held, and what waits comes to who is left."""
    await publish(transport, *(letter() for _ in range(10)))
    async with deadline(), transport.consumer(QUEUE, 2, print) as one:
        await one.resize(6)
        held = await receive(one, 6)
        await one.resize(3)
        await until(lambda: sum(one._prefetch._sizes.values()) == 3)
        await settle(one, *map(Ack, held))
        for _ in range(4):
            (came,) = await one.receive(1)
            assert came.returned == 0
            await settle(one, Ack(came))


async def test_a_consumer_that_the_broker_has_forgotten(
    transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not cancelled, and nothing comes: whoever consumes asks, and begins anew."""
    monkeypatch.setattr(consumer, "LOOK_EVERY", 0.05)
    lost: list[Delivery] = []
    async with deadline(), transport.consumer(QUEUE, 5, lost.extend) as one:
        await publish(transport, letter())
        (held,) = await receive(one)
        await one._channel.basic_cancel(*one._prefetch.tags)
        await settle(one, Ack(held))
        with pytest.raises(TransportUnavailable, match="has forgotten this consumer"):
            await one.receive(1)
    assert lost == []


async def test_a_consumer_that_leaves_while_it_looks(
    transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client warns of nothing: what the broker was asked ends with the channel."""
    monkeypatch.setattr(consumer, "LOOK_EVERY", 0.0)
    asked = asyncio.Event()
    look = consumer.RabbitConsumer._look

    async def looked(one: consumer.RabbitConsumer) -> tuple[int, int]:
        asked.set()
        return await look(one)

    monkeypatch.setattr(consumer.RabbitConsumer, "_look", looked)
    async with consuming(transport):
        await asked.wait()
        for _ in range(5):  # until the client has sent it
            await asyncio.sleep(0)
    assert "cancelled" not in caplog.text


async def test_a_consumer_that_the_broker_has_forgotten_beside_others(
    transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits and is not handed out tells it; an idle one that is known stays."""
    for each in ("LOOK_EVERY", "LOOK_SELDOM", "LOOK_AGAIN"):
        monkeypatch.setattr(consumer, each, 0.05)
    looks: list[tuple[int, int]] = []
    look = consumer.RabbitConsumer._look

    async def counted(one: consumer.RabbitConsumer) -> tuple[int, int]:
        looks.append(await look(one))
        return looks[-1]

    monkeypatch.setattr(consumer.RabbitConsumer, "_look", counted)
    async with deadline(), transport.consumer(QUEUE, 1, print) as busy:
        await publish(transport, letter())
        await receive(busy)
        async with transport.consumer(QUEUE, 5, print) as forgotten:
            await until(lambda: len(looks) == 3)
            assert looks == [(0, 2)] * 3
            await forgotten._channel.basic_cancel(*forgotten._prefetch.tags)
            await publish(transport, letter())
            with pytest.raises(TransportUnavailable, match="has forgotten this consumer"):
                await forgotten.receive(1)
            assert looks[-2:] == [(1, 1)] * 2
        async with transport.consumer(QUEUE, 5, print) as anew:
            await settle(anew, *map(Ack, await receive(anew)))


async def test_a_broker_that_reads_nothing(
    transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is short of memory: what it would read later is not sent as often as it is tried."""
    await publish(transport, letter(id="first"))
    connection: Any = transport._here()._connections["publishes"]
    await connection._Connection__handle_connection_blocked(
        Connection.Blocked(reason="low on memory")
    )
    with monkeypatch.context() as patched:
        patched.setattr(links, "CALL_LIMIT", 0.01)
        for _ in range(3):
            [error] = await transport.publish([letter(id="second")])
            assert isinstance(error, TransportUnavailable)
            assert "out of memory or disk" in str(error)
    await connection._Connection__handle_connection_unblocked(None)
    await publish(transport, letter(id="second"))
    async with consuming(transport) as one:
        came = await receive(one, 2)
        assert [read(each).id for each in came] == ["first", "second"]
        assert await transport.waiting(QUEUE) == 0
        await settle(one, *map(Ack, came))


async def test_a_smaller_prefetch_that_fails(
    transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happens later; whoever receives next is told."""

    async def defect(*_: Any, **__: Any) -> None:
        raise ValueError("a defect")

    async with deadline(), transport.consumer(QUEUE, 5, print) as one:
        monkeypatch.setattr(Channel, "basic_cancel", defect)
        await one.resize(1)
        with pytest.raises(ValueError, match="a defect"):
            await one.receive(1)


async def test_closed_without_a_reason(
    transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client raises a bare Exception then: the connection is broken. Other errors are ours."""
    lost: list[Delivery] = []
    raised: Exception = ValueError("a defect")

    async def closed(*_: Any, **__: Any) -> None:
        raise raised

    async with deadline(), transport.consumer(QUEUE, 5, lost.extend) as consumer:
        monkeypatch.setattr(Channel, "basic_cancel", closed)
        with pytest.raises(ValueError, match="a defect"):
            await consumer.cancel("any")
        raised = Exception()
        await consumer.cancel("any")
        with pytest.raises(TransportUnavailable, match="was closed"):
            await consumer.receive(1)


@pytest.mark.parametrize(
    ("said", "kind", "advice"),
    [
        ("delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms. This"
         " timeout value can be configured, see consumers doc guide to learn more",
         TransportUnavailable, "consumer_timeout.* raise that"),
        ("inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received none but current is"
         " the value 'quorum' of type 'longstr'", TransportMismatch, "delete it once it is empty"),
    ],
)  # fmt: skip
async def test_what_was_not_as_the_broker_wants(
    transport: RabbitMQ, said: str, kind: type[TransportError], advice: str
) -> None:
    """It has one code for several things; the words are those of 3.10."""
    found = transport._here().translated(ChannelPreconditionFailed(f"PRECONDITION_FAILED - {said}"))
    assert type(found) is kind
    assert re.search(advice, str(found))


async def test_a_queue_of_one_connection(rabbit: RabbitServer) -> None:
    """Is told as such: its owner has to let others in."""
    theirs = RabbitMQ(rabbit.url(), queue="exclusive")
    async with aiormq.connect(rabbit.url()) as connection:
        await (await connection.channel()).queue_declare("exclusive", exclusive=True)
        with pytest.raises(TransportMismatch, match="one connection alone"):
            await theirs.waiting("exclusive")
    await theirs.aclose()


async def test_headers_that_are_too_large(transport: RabbitMQ) -> None:
    """Are refused here: the broker would close the connection, with all that is under way."""
    large, passed = await transport.publish(
        [letter(headers={"metadata": "é" * 70_000}), letter(headers={"metadata": "é" * 60_000})]
    )
    assert isinstance(large, MessageTooLarge)
    assert "tags and metadata" in str(large)
    assert passed is None
    async with consuming(transport) as consumer:
        await settle(consumer, *map(Ack, await receive(consumer)))


async def test_a_delay_that_cannot_go_on(
    transport: RabbitMQ, rabbit: RabbitServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Is told once, with what to do, and goes on once that is done."""
    said: dict[str, Any] = {"message_id": "a", "message_type": "greet"}
    gone = f"{PREFIX}-delay-0.2"
    async with aiormq.connect(rabbit.url()) as connection, consuming(transport) as consumer:
        await (await connection.channel()).exchange_delete(gone)
        for n in range(2):
            headers: dict[str, Any] = {"mutirao-wait": 0.2, "n": n}
            await publish_raw(rabbit, PREFIX, QUEUE, b"{}", **said, headers=headers)
        async with deadline():
            await until(lambda: "cannot be sent on" in caplog.text)
        await transport.declare([QUEUE])
        await settle(consumer, *map(Ack, await receive(consumer, 2)))
    [logged] = (each for each in caplog.messages if "cannot be sent on" in each)
    assert "transports declare" in logged


async def test_nobody_gets_in(rabbit: RabbitServer) -> None:
    """With a wrong password, or a virtual host that is not there; no password is told."""
    for url in (rabbit.url("guest:wr0ng"), f"{rabbit.url()}nowhere"):
        transport = RabbitMQ(url)
        (error,) = await transport.publish([letter()])
        assert isinstance(error, TransportDenied)
        assert "correct the URL" in str(error)
        assert "wr0ng" not in f"{error} {transport!r}"


async def test_who_may_not(transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever compares without rights is told once what to grant, not for each thing.

    The broker's words are those of 3.10; a user without rights takes its tool some seconds to make.
    """
    said = f"ACCESS_REFUSED - access to exchange '{PREFIX}' in vhost '/' refused for user 'bob'"

    async def refused(*_: Any, **__: Any) -> None:
        raise ChannelAccessRefused(403, said)

    monkeypatch.setattr(topology, "_ask", refused)
    [found] = await examine_transports({QUEUE: transport}, {QUEUE})
    assert f"{said}; grant the user configure, write and read" in found.found
    assert found.advice == "correct the rights of its user"


async def test_no_such_file() -> None:
    """What a URL says of TLS is told apart from a broker that is away."""
    transport = RabbitMQ("amqps://127.0.0.1:1/?cafile=/no/such/file")
    [error] = await transport.publish([letter()])
    assert "cafile, certfile, keyfile" in str(error)


@pytest.mark.parametrize("url", ["http://x", "amqp:///v", "amqp://host:port/", "mail"])
def test_no_url(url: str) -> None:
    """Is refused at once, before anything connects."""
    with pytest.raises(ConfigurationError, match="amqp://user"):
        RabbitMQ(url)


async def test_one_that_is_too_large(transport: RabbitMQ, rabbit: RabbitServer) -> None:
    """Is refused here, where it harms no other: a broker would close the channel."""
    small = RabbitMQ(rabbit.url(), prefix=PREFIX, max_size=10)
    refused, passed = await small.publish([letter(args='{"a": "too large"}'), letter()])
    assert "max_size" in str(refused)
    assert passed is None
    await small.aclose()


async def test_what_others_have_made_too_large(transport: RabbitMQ) -> None:
    """Is delivered unread; of several one is held at a time, and the small ones go past them."""
    small = RabbitMQ(transport._options.url, prefix=PREFIX, max_size=10)
    theirs = [letter(args='{"a": "theirs"}', id=f"theirs {n}") for n in range(3)]
    await publish(transport, *theirs)
    async with consuming(small) as consumer:
        (large,) = await receive(consumer)
        assert (large.message, large.foreign, large.raw) == (None, None, b'{"a": "theirs"}')
        assert "more than 10 bytes, which max_size= allows" in str(large.problem)
        await publish(transport, letter())
        (kept,) = await receive(consumer)
        assert read(kept).args == "{}"
        held = [each.body for each in consumer._held.values()]  # type: ignore[attr-defined]
        assert sorted(held) == [b"", b"", large.raw, b"{}"]
        await settle(consumer, Ack(kept))
        seen = [large.id]
        await settle(consumer, Bury(large, CAUSE))
        for _ in range(2):
            (large,) = await receive(consumer)
            seen.append(large.id)
            await settle(consumer, Bury(large, CAUSE))
    assert sorted(seen) == [each.id for each in theirs]
    assert sorted(each.id for each in await small.dead(QUEUE, 5)) == sorted(seen)
    assert await transport.return_dead(QUEUE, None) == 3
    async with consuming(transport) as consumer:
        came = await receive(consumer, 3)
        assert {read(each).args for each in came} == {theirs[0].args}
        await settle(consumer, *map(Ack, came))
    await small.aclose()
