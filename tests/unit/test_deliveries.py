"""What a broker sends, cut into deliveries and the rest, however the network cuts it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from pamqp import frame
from pamqp.body import ContentBody
from pamqp.commands import Basic, Channel
from pamqp.header import ContentHeader

from mutirao.model.brokers.message import Again, Delivery, Message
from mutirao.transports.rabbitmq import fields, wire
from mutirao.transports.rabbitmq.deliveries import SIGN_OF_LIFE, Arrived, DeliveryStream, Taker
from mutirao.transports.rabbitmq.settling import parcel_for
from mutirao.transports.rabbitmq.topology import Topology

LARGEST = 9  # bytes
PLAIN = Basic.Properties(
    content_type="application/json", delivery_mode=2, message_id="7", message_type="greet"
)


class Line:
    """A stream with one consumer of ours, and what it was given."""

    def __init__(self) -> None:
        self.came: list[Arrived] = []
        self.large: list[int] = []
        self.stream = DeliveryStream({b"ours": Taker(self.came.append, LARGEST, self.keeps)})

    def keeps(self, message: Arrived) -> bool:
        """Keep the body of the first large one only."""
        self.large.append(message.tag)
        return len(self.large) == 1

    def rest(self) -> bytes:
        """Return what was left to aiormq."""
        return bytes(self.stream._buffer)  # type: ignore[attr-defined]

    @property
    def bodies(self) -> list[bytes]:
        """Those of what came."""
        return [each.body for each in self.came]


@pytest.fixture
async def line() -> Line:
    """A stream of the running event loop."""
    return Line()


def delivered(
    *bodies: bytes, consumer: str = "ours", tag: int = 1, properties: Basic.Properties = PLAIN
) -> bytes:
    """Return the frames of a delivery whose body travels in these parts."""
    method = Basic.Deliver(consumer, tag, redelivered=True, exchange="from", routing_key="key")
    header = ContentHeader(body_size=sum(map(len, bodies)), properties=properties)
    body = b"".join(frame.marshal(ContentBody(each), 3) for each in bodies)
    return frame.marshal(method, 3) + frame.marshal(header, 3) + body


def others() -> bytes:
    """Return frames that are aiormq's: an answer, and a delivery to a consumer of its own."""
    answer = frame.marshal(Basic.CancelOk("ours"), 3)
    return answer + delivered(b"x", consumer="theirs") + SIGN_OF_LIFE


WRAPPED = Basic.Properties(message_id="7", headers={"raw": bytearray(PLAIN.marshal())})


def left() -> bytes:
    """Return what aiormq is given of those: properties that it can read, whatever they were."""
    answer = frame.marshal(Basic.CancelOk("ours"), 3)
    return answer + delivered(b"x", consumer="theirs", properties=WRAPPED) + SIGN_OF_LIFE


def cuts(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield it in two parts, cut everywhere."""
    for at in range(1, len(data)):
        yield data[:at], data[at:]


async def test_wherever_it_is_cut() -> None:
    """Deliveries are handed over, and all other frames are left as they came."""
    sent = delivered(b"{}", tag=1) + others() + delivered(b"a", b"bc", tag=2) + delivered(tag=3)
    for parts in cuts(sent):
        line = Line()
        for part in parts:
            line.stream.feed_data(part)
        assert line.bodies == [b"{}", b"abc", b""]
        assert line.rest().replace(SIGN_OF_LIFE, b"") == left().replace(SIGN_OF_LIFE, b"")
        assert [each.tag for each in line.came] == [1, 2, 3]


async def test_a_large_one(line: Line) -> None:
    """Is kept if its taker says so; otherwise it comes without a body, and is not gathered."""
    for tag, body in ((1, b"012345678"), (2, b"0123456789"), (3, b"9876543210")):
        line.stream.feed_data(delivered(body[:5], body[5:], tag=tag))
    assert line.large == [2, 3]
    assert line.bodies == [b"012345678", b"0123456789", b""]
    assert [each.size for each in line.came] == [9, 10, 10]


async def test_what_is_known_of_one(line: Line) -> None:
    """As it was published, read when somebody asks."""
    said = Basic.Properties(message_id="7", headers={"mutirao-attempt": 2})
    line.stream.feed_data(delivered(b"{}", properties=said))
    [message] = line.came
    assert message.redelivered
    assert (message.exchange, message.routing_key) == ("from", "key")
    assert message.properties == said
    assert wire.plain_message(message.header, message.body, "q") is None


async def test_a_plain_one_reads_the_same(line: Line) -> None:
    """In short as in full; one that says more is read in full."""
    line.stream.feed_data(delivered(b'{"n": 1}'))
    for unusual in ({"headers": {"a": 1}}, {"content_encoding": "gzip"}, {"message_type": "é" * 9}):
        said = {name: getattr(PLAIN, name) for name in Basic.Properties.attributes()}
        line.stream.feed_data(delivered(b"{}", properties=Basic.Properties(**said | unusual)))
    short = [wire.plain_message(each.header, each.body, "q") for each in line.came]
    full = [wire.message_of(each.properties, each.body, "q") for each in line.came]
    assert short == [full[0], None, None, full[3]]


class Wrong(Basic.Properties):
    """Properties that no client can read: a moment in no year that there is."""

    def marshal(self) -> bytes:
        """Return them as they travel."""
        return struct.pack(">HQ", self.flags["timestamp"], 2**63 - 1)


async def test_properties_that_cannot_be_read(line: Line) -> None:
    """Are an error of that message, where they are read."""
    line.stream.feed_data(delivered(b"{}", properties=Wrong()))
    [message] = line.came
    assert wire.plain_message(message.header, message.body, "q") is None
    with pytest.raises(wire.Unreadable, match="properties"):
        assert message.properties


async def test_a_sign_of_life(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a second where there are deliveries only: aiormq would take the broker for gone."""
    now = 100.0
    monkeypatch.setattr(line.stream._clock, "time", lambda: now)
    for _ in range(3):
        line.stream.feed_data(delivered(b"{}"))
    assert line.rest() == SIGN_OF_LIFE
    now += 1.0
    line.stream.feed_data(delivered(b"{}"))
    assert line.rest() == 2 * SIGN_OF_LIFE


NO_END = frame.marshal(Channel.Open(), 1)[:-1] + b"?"


@pytest.mark.parametrize(
    "answer", [b"AMQP\x00\x00\x09\x01", b"HTTP/1.1 400 Bad Request\r\n", NO_END]
)
async def test_what_is_no_frame(line: Line, answer: bytes) -> None:
    """Is left to aiormq, and so is all that follows."""
    line.stream.feed_data(answer)
    line.stream.feed_data(delivered(b"{}"))
    assert line.rest() == answer + delivered(b"{}")
    assert line.came == []


async def test_the_end_in_a_frame(line: Line) -> None:
    """What had come of it is left to aiormq, which says so."""
    line.stream.feed_data(delivered(b"{}")[:-1])
    line.stream.feed_eof()
    assert line.came == []
    assert (await line.stream.read()).removeprefix(SIGN_OF_LIFE).startswith(b"\x03")


async def test_a_consumer_that_has_left() -> None:
    """Takes nothing any more."""
    stream = DeliveryStream({})
    stream.feed_data(delivered(b"{}"))
    stream.feed_eof()
    assert await stream.read() == delivered(b"{}", properties=WRAPPED)


class _NoMoment(Basic.Properties):
    def marshal(self) -> bytes:
        return struct.pack(">HQ", self.flags["timestamp"], 2**63 - 1)


@pytest.mark.parametrize(
    "begin",
    [
        Basic.Deliver("them", 1, False, "", ""),
        Basic.GetOk(1, False, "", "", 0),
        Basic.Return(312, "no", "", ""),
    ],
)
async def test_what_the_client_cannot_read(begin: Any) -> None:
    """Is wrapped: otherwise it would close the connection, and be handed the same again."""
    stream, properties = DeliveryStream({}), _NoMoment()
    header = ContentHeader(body_size=1, properties=properties)
    parts = [frame.marshal(each, 3) for each in (begin, header, ContentBody(b"x"))]
    with pytest.raises(Exception, match=r"year|range|out of"):
        frame.unmarshal(parts[1])
    stream.feed_data(b"".join(parts))
    found: list[Any] = []
    left = bytes(stream._buffer)  # type: ignore[attr-defined]
    while left:
        taken, _, read = frame.unmarshal(left)
        left = left[taken:]
        found.append(read)
    assert fields.unwrapped(found[1].properties).marshal() == properties.marshal()
    assert found[2].value == b"x"


@pytest.mark.parametrize(
    ("suspect", "after", "exchange", "rest"),
    [
        (False, 0.6, "p-delay-0.5", 0.1),
        (True, 0.6, "p-delay-0.5", 0.0),
        (True, 30.0, "p-delay-20", 0.0),
        (True, 0.0, "p", 0.0),
    ],
)
async def test_a_suspect_waits_for_one_period(
    line: Line, suspect: bool, after: float, exchange: str, rest: float
) -> None:
    """At the end of each it would be sent on, and be there twice if a worker ended then."""
    line.stream.feed_data(delivered(b"{}"))
    message = Message(id="7", task="greet", queue="mail", suspect=suspect)
    again = Again(Delivery(message, b"{}"), message, after)
    parcel = parcel_for(Topology("p", 20), "mail", line.came[0], again)
    assert (parcel.exchange, wire.rest_of(parcel.properties)) == (exchange, rest)
