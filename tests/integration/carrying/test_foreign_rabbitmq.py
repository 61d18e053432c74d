"""Queues of other programs on RabbitMQ: what Celery and Kombu really publish, and what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import aiormq
import pytest
from celery import Celery, chain
from pamqp.commands import Basic

from mutirao import Job, Mutirao, Retry
from mutirao.client.transports import examine_transports
from mutirao.errors import ConfigurationError, TransportMismatch
from mutirao.model.brokers.message import Ack, Delivery
from mutirao.transports.decoding import celery, json_arguments, kombu
from mutirao.transports.rabbitmq import RabbitMQ
from tests.support.rabbitmq import RabbitServer, emptied, publish_raw
from tests.support.waiting import until

THEIRS = "theirs"


class Nameless(Basic.Properties):
    """Properties without an id, which aiormq adds otherwise."""

    def marshal(self) -> bytes:
        """Return them as they travel."""
        return Basic.Properties(headers=self.headers).marshal()


def none_lost(lost: Sequence[Delivery]) -> None:
    """Fail if a delivery is lost."""
    assert not lost


@pytest.fixture
async def broker(rabbit: RabbitServer) -> AsyncIterator[RabbitMQ]:
    """A classic queue of other programs, and ours beside it, with nothing in them."""
    broker = RabbitMQ(rabbit.url(), prefix="foreign", queue=THEIRS)
    async with aiormq.connect(rabbit.url()) as connection:
        channel = await connection.channel()
        await channel.queue_declare(THEIRS, durable=True)
        await channel.queue_purge(THEIRS)
    async with emptied(broker, rabbit, THEIRS):
        yield broker


async def test_tasks_of_celery(broker: RabbitMQ, rabbit: RabbitServer) -> None:
    """With their names, ids, arguments of all kinds, countdowns, expiries and limits of time."""
    app, ran = Mutirao(), dict[str, Any]()
    moment, id = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), uuid4()

    @app.consumer(broker, decode=celery, name="shop.order")
    async def order(job: Job, number: int, at: datetime, *, price: Decimal, of: UUID) -> None:
        ran[str(job.id)] = (number, at, price, of, job.timeout)

    @app.consumer(broker, decode=celery, name="shop.later", max_attempts=1)
    async def later(name: str) -> None:
        ran[name] = datetime.now(UTC)

    def publish() -> tuple[str, datetime]:
        with Celery(broker=rabbit.url()) as shop:
            said: dict[str, Any] = {"queue": THEIRS}
            named = {"price": Decimal("1.20"), "of": id}
            sent = shop.send_task("shop.order", (7, moment), named, soft_time_limit=9, **said)
            asked = datetime.now(UTC)
            shop.send_task("shop.later", ("counted down",), countdown=1, **said)
            shop.send_task("shop.later", ("expired",), expires=asked, **said)
            after = shop.signature("shop.later", ("after",))
            shop.send_task("shop.later", ("linked",), link=after, **said)
            first = shop.signature("shop.later", ("chained",), queue=THEIRS)
            chain(first, after, app=shop).apply_async()
            return str(sent.id).replace("-", ""), asked

    sent, asked = await asyncio.to_thread(publish)
    async with app.worker(queues=[THEIRS]):
        await until(lambda: len(ran) == 2)

        async def buried() -> bool:
            return len(await broker.dead(THEIRS, 10)) == 2

        await until(buried)
    assert ran[sent] == (7, moment, Decimal("1.20"), id, 9.0)
    assert (ran["counted down"] - asked).total_seconds() >= 1
    text = " ".join(each.cause.error for each in await broker.dead(THEIRS, 10))
    assert "it has callbacks, which only Celery" in text
    assert "it has chain, which only Celery" in text
    await app.aclose()


async def test_what_kombu_publishes(broker: RabbitMQ, rabbit: RabbitServer) -> None:
    """Its JSON is read, and its pickles are dead."""
    app, ran = Mutirao(), list[tuple[Any, ...]]()

    @app.consumer(broker, decode=kombu)
    async def stored(path: str, at: datetime, content: bytes) -> None:
        ran.append((path, at, content))

    moment = datetime(2026, 1, 2, tzinfo=UTC)
    values = {"path": "a", "at": moment, "content": b"\xff"}

    def publish() -> None:
        shop = Celery(broker=rabbit.url())
        with shop.connection_for_write() as kombu, kombu.SimpleQueue(THEIRS) as queue:
            queue.put(values)
            queue.put(values, serializer="pickle")

    await asyncio.to_thread(publish)
    async with app.worker(queues=[THEIRS]):
        await until(lambda: ran)

        async def buried() -> bool:
            return len(await broker.dead(THEIRS, 10)) == 1

        await until(buried)
    assert ran == [("a", moment, b"\xff")]
    (pickle,) = await broker.dead(THEIRS, 10)
    assert "serializer json" in pickle.cause.error
    await app.aclose()


async def test_it_stays_as_it_came(broker: RabbitMQ, rabbit: RabbitServer) -> None:
    """At each attempt and among the dead; their queue is left alone, and what is returned runs."""
    app, met = Mutirao(), list[tuple[int, int, str]]()

    @app.consumer(broker, decode=lambda told: json_arguments(seen(told)),
                  retry=Retry.fixed(2, interval=0.01))  # fmt: skip
    async def order(job: Job, number: int) -> None:
        met.append((number, job.attempt, str(job.id)))
        if len(met) < 3:
            raise OSError("no")

    headers: list[Any] = []

    def seen(told: Any) -> Any:
        headers.append((dict(told.headers), told.exchange, told.routing_key, told.digest))
        return told

    said: dict[str, Any] = {"x-shop": "é", "n": 1}
    await publish_raw(rabbit, "", THEIRS, b'{"number": 1}', Nameless(headers=said))
    async with app.worker(queues=[THEIRS]):

        async def buried() -> bool:
            return len(await broker.dead(THEIRS, 10)) == 1

        await until(buried)
        (dead,) = await broker.dead(THEIRS, 10)
        assert (dead.raw, dead.cause.error_type, dead.cause.attempts) == (
            b'{"number": 1}', "OSError", 2
        )  # fmt: skip
        assert (dead.id, dead.exchange, dead.routing_key) == (met[0][2], "", THEIRS)
        assert await broker.return_dead(THEIRS, [dead.id]) == 1
        await until(lambda: len(met) == 3)
    assert [(number, attempt) for number, attempt, _ in met] == [(1, 1), (1, 2), (1, 1)]
    assert len({id for *_, id in met}) == 1
    assert headers == [(said, "", THEIRS, headers[0][3])] * 3
    await app.aclose()


async def test_larger_than_is_read(
    broker: RabbitMQ, rabbit: RabbitServer, caplog: pytest.LogCaptureFixture
) -> None:
    """They are dead without being decoded, told once, and run when more is allowed."""
    app, ran = Mutirao(), list[int]()
    small = RabbitMQ(rabbit.url(), prefix="foreign", queue=THEIRS, max_size=20)

    async def order(number: int, note: str = "") -> None:
        ran.append(number)

    app.consumer(small, decode=json_arguments)(order)
    for n in range(3):
        large = b'{"number": %d, "note": "a long one"}' % n
        await publish_raw(rabbit, "", THEIRS, large, Nameless())
    await publish_raw(rabbit, "", THEIRS, b'{"number": 3}')

    async def buried() -> bool:
        return len(await broker.dead(THEIRS, 10)) == 3

    async with app.worker(queues=[THEIRS]):
        await until(buried)
        await until(lambda: ran == [3])
    await app.aclose()
    assert sum("more than 20 bytes" in line for line in caplog.messages) == 1
    assert await broker.return_dead(THEIRS, None) == 3
    app = Mutirao()
    app.consumer(broker, decode=json_arguments)(order)
    async with app.worker(queues=[THEIRS]):
        await until(lambda: sorted(ran) == [0, 1, 2, 3])
    await app.aclose()


async def test_consumers_that_vanish_are_counted(broker: RabbitMQ, rabbit: RabbitServer) -> None:
    """Their classic queue does not count; what comes again goes to ours, as a suspect."""
    await publish_raw(rabbit, "", THEIRS, b"{}")
    async with broker.consumer(THEIRS, 1, none_lost) as consumer:
        (first,) = await consumer.receive(1)
        assert first.foreign is not None
        assert (first.foreign.suspect, first.returned) == (False, 0)
    for returned in (0, 1):
        async with broker.consumer(THEIRS, 1, none_lost) as consumer:
            (again,) = await consumer.receive(1)
            assert again.foreign is not None
            assert (again.foreign.suspect, again.foreign.noted) == (True, False)
            assert (again.foreign.lost, again.returned) == (0, returned)
            if returned:
                assert await consumer.settle([Ack(again)]) == [None]


async def test_their_queue_is_missing(rabbit: RabbitServer) -> None:
    """It is theirs to make: told by whoever compares, and by workers."""
    broker = RabbitMQ(rabbit.url(), prefix="foreign", queue="of nobody")
    await broker.declare(["of nobody"])
    [found] = await examine_transports({"of nobody": broker}, {"of nobody"})
    assert found.advice == "correct queue=, or have them make it"
    (missing,) = await broker.compare(["of nobody"])
    assert str(missing) == (
        "queue 'of nobody' of other programs is missing; expected a queue that they have made"
    )
    with pytest.raises(TransportMismatch, match="of other programs, which are to make it"):
        async with broker.consumer("of nobody", 1, none_lost):
            raise AssertionError
    await broker.aclose()


WRONG: list[dict[str, Any]] = [{"queue": ""}, {"queue": "a'"}, {"queue": "a", "mode": "carried"}]


@pytest.mark.parametrize("wrong", WRONG)
def test_no_queue_of_theirs(wrong: dict[str, Any]) -> None:
    """No name, one that the client cannot say, one whose jobs are in a database."""
    with pytest.raises(ConfigurationError, match="of other programs"):
        RabbitMQ("amqp://localhost/", **wrong)
