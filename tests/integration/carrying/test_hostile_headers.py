"""What other programs may say beside a body: it can at worst end its own attempt."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from typing import Any

import aiormq
import pytest
from pamqp.commands import Basic

from mutirao import Dead, Job, Mutirao, Retry
from mutirao.errors import WorkerFailed
from mutirao.model.brokers.message import Again, Bury
from mutirao.transports.decoding import json_arguments
from mutirao.transports.rabbitmq import RabbitMQ, consumer
from mutirao.transports.rabbitmq.hand import hand_in
from mutirao.transports.rabbitmq.links import Links
from mutirao.transports.rabbitmq.settling import parcel_for
from tests.support.rabbitmq import RabbitServer, emptied, publish_raw
from tests.support.waiting import until

THEIRS = "hostile"


class Raw(Basic.Properties):
    """Properties that travel as these bytes. `table`: the entries of the headers."""

    def __init__(self, table: bytes = b"", flags: int = 0x2000, rest: bytes = b"") -> None:
        super().__init__()
        headers = struct.pack(">I", len(table)) + table if flags & 0x2000 else b""
        self.raw = struct.pack(">H", flags) + headers + rest

    def marshal(self) -> bytes:
        """Return them as they travel."""
        return self.raw


def entry(name: bytes, value: bytes) -> bytes:
    """Return a header as it travels; the first byte of a value is its type."""
    return bytes([len(name)]) + name + value


def text(value: bytes) -> bytes:
    """Return a text that need not be one."""
    return b"S" + struct.pack(">I", len(value)) + value


def counted(kind: bytes, value: bytes) -> bytes:
    """Return a value whose length travels before it."""
    return kind + struct.pack(">I", len(value)) + value


NOT_UTF8 = entry(b"argsrepr", text(b"('\xed\xa0\x80',)"))
READABLE = {
    "text": NOT_UTF8,
    "bytes": entry(b"h", counted(b"x", b"\xff\x00")),
    "decimal": entry(b"h", b"D" + struct.pack(">BI", 2, 2**32 - 1)),
    "double": entry(b"h", b"d" + struct.pack(">d", 1e300)),
    "a tenth": entry(b"h", b"d" + struct.pack(">d", 0.1)),
    "milliseconds": entry(b"h", b"T" + struct.pack(">Q", 1_764_210_000_123)),
    "void": entry(b"h", b"V"),
    "large": entry(b"h", b"l" + struct.pack(">q", -(2**63))),
    "nested": entry(b"h", counted(b"F", entry(b"a", counted(b"A", text(b"\xff") + b"t\x01")))),
    "a long name": entry(b"n" * 255, b"t\x01"),
    "a name of bytes": entry(b"\xff", b"t\x01"),
}
UNREADABLE = {
    "a moment in no year": entry(b"h", b"T" + struct.pack(">Q", 2**63 - 1)),
    "deep": entry(b"h", b""),
}
for _ in range(5_000):
    UNREADABLE["deep"] = entry(b"h", counted(b"F", UNREADABLE["deep"][2:] and UNREADABLE["deep"]))
TEXTS = 0x8000 | 0x0080 | 0x0008  # content type, message id, application
NO_TEXTS = b"\x02\xff\xfe\x01\xff\x01\xfd"


@pytest.fixture
async def broker(rabbit: RabbitServer) -> AsyncIterator[RabbitMQ]:
    """A queue of other programs, and ours beside it, with nothing in them."""
    broker = RabbitMQ(rabbit.url(), prefix="hostile", queue=THEIRS)
    async with aiormq.connect(rabbit.url()) as connection:
        channel = await connection.channel()
        await channel.queue_declare(THEIRS, durable=True)
        await channel.queue_purge(THEIRS)
    async with emptied(broker, rabbit, THEIRS):
        yield broker


async def dead(broker: RabbitMQ, number: int) -> list[Any]:
    """Wait until so many messages are dead; return them."""

    async def found() -> list[Any] | None:
        there = await broker.dead(THEIRS, 100)
        return there if len(there) >= number else None

    return await until(found)


async def table_at(rabbit: RabbitServer, queue: str) -> bytes:
    """Return the properties of the first message in a queue, as they travel; it stays there."""
    links = Links(rabbit.url(), "a test")
    try:
        async with hand_in(links, queue) as hand:
            async for each in hand.take(1):
                return each.properties.marshal()
    finally:
        await links.close()
    raise AssertionError("nothing is there")


async def test_good_ones_go_past_thirty(broker: RabbitMQ, rabbit: RabbitServer) -> None:
    """Which are retried and die, at a concurrency of five; nothing stalls."""
    app, ran, failed = Mutirao(), set[int](), list[int]()

    @app.consumer(broker, decode=json_arguments, retry=Retry.fixed(2, interval=0.01))
    async def order(number: int) -> None:
        if number < 0:
            failed.append(number)
            raise OSError("no")
        ran.add(number)

    for n in range(30):
        await publish_raw(rabbit, "", THEIRS, b'{"number": -%d}' % (n + 1), Raw(NOT_UTF8))
    for n in range(20):
        await publish_raw(rabbit, "", THEIRS, b'{"number": %d}' % n)
    async with app.worker(queues=[THEIRS], concurrency=5) as worker:
        await until(lambda: len(ran) == 20)
        found = await dead(broker, 30)
        assert worker.health().alive
    assert {each.cause.error_type for each in found} == {"OSError"}
    assert len(failed) == 60
    await app.aclose()


@pytest.mark.parametrize("kind", READABLE)
async def test_kept_byte_for_byte(broker: RabbitMQ, rabbit: RabbitServer, kind: str) -> None:
    """Through a retry, a death and a return: a decoder reads the same each time."""
    app, met, table = Mutirao(), list[Any](), READABLE[kind]

    def decode(message: Any) -> dict[str, Any]:
        met.append(repr(message.headers))
        return {}

    @app.consumer(broker, decode=decode, retry=Retry.fixed(2, interval=0.01))
    async def order(job: Job) -> None:
        if len(met) < 3:
            raise OSError("no")

    await publish_raw(rabbit, "", THEIRS, b"", Raw(table))
    async with app.worker(queues=[THEIRS]):
        await dead(broker, 1)
        assert table in await table_at(rabbit, f"hostile-dead.{THEIRS}")
        assert await broker.return_dead(THEIRS, None) == 1
        await until(lambda: len(met) == 3)
    assert met[0] == met[1] == met[2] != "{}"
    await app.aclose()


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_unreadable_ones_are_dead(broker: RabbitMQ, rabbit: RabbitServer, kind: str) -> None:
    """With their bytes; they are shown, returned and dropped, and harm no other."""
    app, ran, table = Mutirao(), list[int](), UNREADABLE[kind]

    @app.consumer(broker, decode=json_arguments)
    async def order(number: int) -> None:
        ran.append(number)

    for _ in range(3):
        await publish_raw(rabbit, "", THEIRS, b'{"number": 1}', Raw(table))
    await publish_raw(rabbit, "", THEIRS, b'{"number": 2}')
    async with app.worker(queues=[THEIRS], concurrency=1) as worker:
        await until(lambda: ran == [2])
        for _ in range(2):
            found = await dead(broker, 3)
            assert table in await table_at(rabbit, f"hostile-dead.{THEIRS}")
            assert await broker.return_dead(THEIRS, [found[0].id]) == 1
        await dead(broker, 3)
        assert worker.health().alive
    assert "properties" in found[0].cause.error
    assert await broker.drop_dead(THEIRS, None) == 3
    await app.aclose()


async def test_names_that_are_no_text(broker: RabbitMQ, rabbit: RabbitServer) -> None:
    """Ids, content types and names of applications: a job has an id all the same."""
    app, ids = Mutirao(), list[str]()

    @app.consumer(broker, decode=lambda _: {}, retry=Retry.fixed(2, interval=0.01))
    async def order(job: Job) -> None:
        ids.append(str(job.id))
        raise OSError("no") if len(ids) < 2 else Dead("never")

    await publish_raw(rabbit, "", THEIRS, b"", Raw(flags=TEXTS, rest=NO_TEXTS))
    async with app.worker(queues=[THEIRS]):
        [found] = await dead(broker, 1)
    assert ids[0] == ids[1]
    assert (found.id, found.cause.error) == ("\\xff", "never")
    assert NO_TEXTS[:3] in await table_at(rabbit, f"hostile-dead.{THEIRS}")
    await app.aclose()


async def test_headers_that_leave_no_room(broker: RabbitMQ, rabbit: RabbitServer) -> None:
    """For the cause or an attempt: it is dead with a shorter cause, without them at worst."""
    app, ran = Mutirao(), list[int]()

    @app.consumer(broker, decode=json_arguments, retry=Retry.fixed(2, interval=0.01))
    async def order(number: int) -> None:
        ran.append(number)
        if number:
            raise OSError("no " * 3_000)

    large = entry(b"h", text(b"x" * 130_800))
    for n in (1, 2, 3):
        await publish_raw(rabbit, "", THEIRS, b'{"number": %d}' % n, Raw(large))
    await publish_raw(rabbit, "", THEIRS, b'{"number": 0}')
    async with app.worker(queues=[THEIRS], concurrency=1) as worker:
        found = await dead(broker, 3)
        await until(lambda: 0 in ran)
        assert worker.health().alive
    assert {each.raw for each in found} == {b'{"number": %d}' % n for n in (1, 2, 3)}
    await app.aclose()


async def test_a_settlement_that_always_fails(
    broker: RabbitMQ, rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whatever error: the others of its batch are settled, it is dead with that reason."""
    app, ran = Mutirao(), list[int]()

    def fails(topology: Any, queue: str, message: Any, settling: Again | Bury) -> Any:
        if isinstance(settling, Again) and message.body == b'{"number": 3}':
            raise LookupError("a defect")
        return parcel_for(topology, queue, message, settling)

    monkeypatch.setattr(consumer, "parcel_for", fails)

    @app.consumer(broker, decode=json_arguments, retry=Retry.fixed(2, interval=0.01))
    async def order(job: Job, number: int) -> None:
        if job.attempt == 1:
            raise OSError("no")
        ran.append(number)

    for n in range(6):
        await publish_raw(rabbit, "", THEIRS, b'{"number": %d}' % n)
    async with app.worker(queues=[THEIRS], linger=0.2) as worker:
        await until(lambda: sorted(ran) == [0, 1, 2, 4, 5])
        [found] = await dead(broker, 1)
        assert worker.health().alive
    assert found.cause.error_type == "SettlingFailed"
    assert "LookupError: a defect" in found.cause.error
    await app.aclose()


async def test_what_can_never_be_settled(
    broker: RabbitMQ, rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends the worker: it does not look alive over a queue that it serves no more."""

    def fails(*_: Any) -> Any:
        raise LookupError("a defect")

    monkeypatch.setattr(consumer, "parcel_for", fails)
    app = Mutirao()

    @app.consumer(broker, decode=json_arguments)
    async def order(number: int) -> None:
        raise Dead("never")

    await publish_raw(rabbit, "", THEIRS, b'{"number": 1}')

    async def work() -> None:
        async with app.worker(queues=[THEIRS]) as worker:
            await until(lambda: not worker.health().alive)
            monkeypatch.undo()

    with pytest.raises(WorkerFailed, match="can never be settled: a defect"):
        await work()
    await app.aclose()


async def test_a_schedules_queue(rabbit: RabbitServer) -> None:
    """What others put there is dropped, whatever stands beside its body."""
    broker = RabbitMQ(rabbit.url(), prefix="hostile-kept")
    app, ran = Mutirao(transports={"feeds": broker}), list[int]()
    await broker.declare(["feeds"])
    await broker.declare_schedules(["pull"])

    @app.schedule(every=0.2)
    @app.task(queue="feeds")
    async def pull(job: Job) -> None:
        ran.append(job.id)

    for table in (*UNREADABLE.values(), NOT_UTF8):
        await publish_raw(rabbit, "hostile-kept-schedules", "pull", b"no token", Raw(table))
    async with app.worker(queues=["feeds"]):
        await until(lambda: len(ran) >= 2)
        for table in UNREADABLE.values():
            await publish_raw(rabbit, "hostile-kept-schedules", "pull", b"{}", Raw(table))
        before = len(ran)
        await until(lambda: len(ran) >= before + 2)
    await app.aclose()


async def test_doorbells(rabbit: RabbitServer, lite_url: str) -> None:
    """What is none is dead; those beside it are answered."""
    broker = RabbitMQ(rabbit.url(), prefix="hostile-bells", mode="carried")
    app, ran = Mutirao(lite_url, transports={"mail": broker}), asyncio.Event()

    @app.task(queue="mail")
    async def send() -> None:
        ran.set()

    async with emptied(broker, rabbit, "mail"):
        for table in (*UNREADABLE.values(), *READABLE.values()):
            await publish_raw(rabbit, "hostile-bells", "mail", b"\xff", Raw(table))
        async with app.worker(queues=["mail"], concurrency=1):
            await send.aenqueue()
            await until(ran.is_set)

            async def buried() -> bool:
                number = len(UNREADABLE) + len(READABLE)
                return len(await broker.dead("mail", 100)) == number

            await until(buried)
    await app.aclose()
    app.close()
