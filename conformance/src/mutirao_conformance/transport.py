"""Brokers: what a transport must do, whatever it is made of."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest

from mutirao.errors import (
    DeliveryLost,
    TransportMismatch,
    TransportRefused,
    TransportUnavailable,
)
from mutirao.model.brokers.message import Ack, Again, Bury, Cause, Delivery, Message
from mutirao.ports import Consumer, Transport
from mutirao_conformance.kit import deadline

QUEUE, OTHER, MISSING = "mail é", "video", "nobody made this one"
MOMENT = datetime(2026, 2, 28, 23, 59, 58, tzinfo=UTC)
CAUSE = Cause(error_type="ValueError", error="no é\nand more", attempts=3,
              first_at=MOMENT, last_at=MOMENT)  # fmt: skip
PublishForeign = Callable[[str, bytes], Awaitable[None]]


def letter(**options: Any) -> Message:
    """Return a message with an id of its own."""
    return Message(**{"id": uuid4().hex, "task": "greet", "queue": QUEUE, **options})


@asynccontextmanager
async def consuming(
    transport: Transport, queue: str = QUEUE, prefetch: int = 100
) -> AsyncIterator[Consumer]:
    """Consume a queue; nothing may be lost meanwhile."""
    lost: list[Delivery] = []
    async with deadline(), transport.consumer(queue, prefetch, lost.extend) as consumer:
        yield consumer
    assert not lost


async def publish(transport: Transport, *messages: Message) -> None:
    """Publish messages that all pass."""
    assert await transport.publish(messages) == [None] * len(messages)


async def receive(consumer: Consumer, number: int = 1) -> list[Delivery]:
    """Receive so many deliveries."""
    found: list[Delivery] = []
    async with deadline():
        while len(found) < number:
            came = await consumer.receive(number - len(found))
            assert came, "nothing more comes"
            found += came
    return found


async def settle(consumer: Consumer, *settlings: Ack | Again | Bury) -> None:
    """Settle deliveries, each of which can be settled."""
    assert await consumer.settle(settlings) == [None] * len(settlings)


def read(delivery: Delivery) -> Message:
    """Return the message of a delivery that can be read."""
    assert delivery.message is not None, delivery.problem
    return delivery.message


@pytest.mark.asyncio
class TransportContract:
    """What every transport must do. A backend gives three fixtures.

    `transport`: one of its kind, with QUEUE and OTHER declared and empty. `unreachable`: one of its
    kind whose broker is away. `publish_foreign`: publishes a body to a queue, as a program would
    that does not know Mutirão: `foreign`, where a broker cannot carry any bytes at all.
    """

    foreign = b"\xff not for us"

    async def test_everything_arrives(self, transport: Transport) -> None:
        """As it was published."""
        sent = letter(
            args='{"name": "é\\u0000😀", "n": 1}', attempt=2, run=7, ordering_key="k é",
            headers={"a": "é", "b": 2, "c": 0.5},
        )  # fmt: skip
        await publish(transport, sent)
        async with consuming(transport) as consumer:
            (delivery,) = await receive(consumer)
            assert read(delivery) == sent
            assert delivery.raw == sent.args.encode()
            await settle(consumer, Ack(delivery))

    async def test_many_at_once(self, transport: Transport) -> None:
        """All of them, each in its queue."""
        mail, video = [letter() for _ in range(150)], [letter(queue=OTHER) for _ in range(50)]
        await publish(transport, *mail, *video)
        for queue, sent in ((QUEUE, mail), (OTHER, video)):
            async with consuming(transport, queue) as consumer:
                found: list[Delivery] = []
                while len(found) < len(sent):
                    came = await receive(consumer)
                    await settle(consumer, *map(Ack, came))
                    found += came
                assert {read(each).id for each in found} == {each.id for each in sent}

    async def test_closed_beside_a_consumer(self, transport: Transport) -> None:
        """One worker of two in an event loop has ended: the other one keeps what it holds."""
        await publish(transport, letter())
        async with consuming(transport) as consumer:
            (held,) = await receive(consumer)
            await transport.aclose()
            await settle(consumer, Ack(held))
            await publish(transport, letter(id="next"))
            (came,) = await receive(consumer)
            assert read(came).id == "next"
            await settle(consumer, Ack(came))

    async def test_from_another_event_loop(self, transport: Transport) -> None:
        """Programs publish in threads, while a worker consumes."""

        async def from_there() -> None:
            await publish(transport, letter(id="from there"))
            await transport.aclose()

        async with consuming(transport) as consumer:
            await asyncio.to_thread(asyncio.run, from_there())
            (delivery,) = await receive(consumer)
            assert read(delivery).id == "from there"
            await settle(consumer, Ack(delivery))

    async def test_no_more_than_the_prefetch(self, transport: Transport) -> None:
        """The next one comes when one is settled."""
        await publish(transport, *(letter() for _ in range(4)))
        async with consuming(transport, prefetch=2) as consumer:
            first, second = await receive(consumer, 2)
            third = asyncio.create_task(receive(consumer))
            await settle(consumer, Ack(first))
            (delivery,) = await third
            await consumer.resize(3)
            (last,) = await receive(consumer)
            await settle(consumer, *map(Ack, (second, delivery, last)))

    async def test_how_many_wait(self, transport: Transport) -> None:
        """Without what a consumer holds; the number may come late."""
        assert await transport.waiting(QUEUE) == 0
        await publish(transport, letter(), letter(), letter(queue=OTHER))
        async with deadline():
            while await transport.waiting(QUEUE) != 2:
                pass  # it is asked again
            async with consuming(transport, prefetch=1) as consumer:
                held = await receive(consumer)
                while await transport.waiting(QUEUE) != 1:
                    pass
                await settle(consumer, *map(Ack, held))
        with pytest.raises(TransportMismatch):
            await transport.waiting(MISSING)
        with pytest.raises(TransportMismatch):
            await transport.dead_count(MISSING)

    async def test_what_is_not_settled_comes_again(self, transport: Transport) -> None:
        """And what is settled does not."""
        done, left = letter(), letter()
        await publish(transport, done, left)
        async with consuming(transport) as consumer:
            for each in await receive(consumer, 2):
                if read(each).id == done.id:
                    await settle(consumer, Ack(each))
        async with consuming(transport) as consumer:
            (delivery,) = await receive(consumer)
            assert read(delivery).id == left.id
            assert delivery.returned == 1
            marked = replace(read(delivery), lost=1, suspect=True, noted=True)
            await settle(consumer, Again(delivery, marked, anew=True))
            (delivery,) = await receive(consumer)
            assert (delivery.returned, read(delivery)) == (0, marked)
            await settle(consumer, Ack(delivery))

    async def test_each_goes_to_one_of_several(self, transport: Transport) -> None:
        """Two consumers share what comes, and a slow one keeps only its prefetch."""
        await publish(transport, *(letter() for _ in range(10)))
        async with (
            consuming(transport, prefetch=1) as slow,
            consuming(transport, prefetch=1) as quick,
        ):
            (kept,) = await receive(slow)
            seen = {read(kept).id}
            for _ in range(9):
                (delivery,) = await receive(quick)
                seen.add(read(delivery).id)
                await settle(quick, Ack(delivery))
            assert len(seen) == 10
            await settle(slow, Ack(kept))

    async def test_again_at_once_and_later(self, transport: Transport) -> None:
        """It comes in its new form, and not before its time."""
        await publish(transport, letter(args='{"n": 1}'))
        async with consuming(transport) as consumer:
            (delivery,) = await receive(consumer)
            message = read(delivery)
            for attempt, after in ((2, 0.0), (3, 0.3)):
                message = _next(message, attempt)
                asked = monotonic()
                await settle(consumer, Again(delivery, message, after))
                (delivery,) = await receive(consumer)
                assert monotonic() - asked >= after
                if transport.rewrites:
                    assert read(delivery) == message
                assert read(delivery).attempt == attempt
                assert delivery.raw == b'{"n": 1}'
            await settle(consumer, Ack(delivery))

    async def test_delays_do_not_hold_up_others(self, transport: Transport) -> None:
        """A short one is not behind a long one."""
        later, soon = letter(delay=30.0), letter(delay=0.2)
        await publish(transport, later, soon)
        async with consuming(transport) as consumer:
            (delivery,) = await receive(consumer)
            assert read(delivery).id == soon.id
            assert read(delivery).delay == 0.0
            await settle(consumer, Ack(delivery))

    async def test_the_dead_are_kept(self, transport: Transport) -> None:
        """With their cause, until a user returns or drops them."""
        sent = [letter(args=f'{{"n": {n}}}', attempt=3) for n in range(3)]
        await publish(transport, *sent)
        async with consuming(transport) as consumer:
            came = await receive(consumer, 3)
            await settle(consumer, *(Bury(each, CAUSE) for each in came))
            found = await transport.dead(QUEUE, 10)
            assert {each.id: each.raw.decode() for each in found} == {
                each.id: each.args for each in sent
            }
            assert {(each.task, each.queue, each.cause) for each in found} == {
                ("greet", QUEUE, CAUSE)
            }
            assert len(await transport.dead(QUEUE, 2)) == 2
            async with deadline():  # the number may come late
                while await transport.dead_count(QUEUE) != 3:
                    pass
            assert await transport.return_dead(QUEUE, [sent[0].id, "unknown"]) == 1
            (back,) = await receive(consumer)
            assert (read(back).id, read(back).attempt) == (sent[0].id, 1)
            assert back.raw.decode() == sent[0].args
            await settle(consumer, Ack(back))
            assert await transport.drop_dead(QUEUE, [sent[1].id]) == 1
            assert [each.id for each in await transport.dead(QUEUE, 10)] == [sent[2].id]
            assert await transport.drop_dead(QUEUE, None) == 1
            assert await transport.dead(QUEUE, 10) == []

    async def test_the_dead_of_one_queue(self, transport: Transport) -> None:
        """Nobody sees, returns or drops those of another."""
        await publish(transport, letter())
        async with consuming(transport) as consumer:
            (delivery,) = await receive(consumer)
            await settle(consumer, Bury(delivery, CAUSE))
        assert await transport.dead(OTHER, 10) == []
        assert await transport.drop_dead(OTHER, None) == 0
        assert await transport.drop_dead(QUEUE, None) == 1

    async def test_what_others_published(
        self, transport: Transport, publish_foreign: PublishForeign
    ) -> None:
        """It is delivered with its problem, can be buried, and goes back as it came."""
        await publish_foreign(QUEUE, self.foreign)
        async with consuming(transport) as consumer:
            for _ in range(2):
                (delivery,) = await receive(consumer)
                assert delivery.message is None
                assert delivery.problem
                assert delivery.raw == self.foreign
                await settle(consumer, Bury(delivery, CAUSE))
                (dead,) = await transport.dead(QUEUE, 10)
                assert (dead.task, dead.raw, dead.cause) == (None, self.foreign, CAUSE)
                assert dead.id
                assert await transport.return_dead(QUEUE, [dead.id]) == 1
            (delivery,) = await receive(consumer)
            await settle(consumer, Ack(delivery))

    async def test_settled_twice(self, transport: Transport) -> None:
        """The second time it is not this consumer's any more, and others do not suffer."""
        await publish(transport, letter(), letter())
        async with consuming(transport) as consumer:
            one, other = await receive(consumer, 2)
            await settle(consumer, Ack(one))
            lost, done = await consumer.settle([Again(one, read(one)), Ack(other)])
            assert isinstance(lost, DeliveryLost)
            assert done is None

    async def test_stopping(self, transport: Transport) -> None:
        """What was handed out can be received and settled; then nothing comes."""
        await publish(transport, *(letter() for _ in range(3)))
        async with consuming(transport, prefetch=2) as consumer:
            (one,) = await receive(consumer)
            await consumer.stop()
            await consumer.stop()
            await settle(consumer, Ack(one))
            rest = []
            while came := await consumer.receive(10):
                rest += came
            await settle(consumer, *map(Ack, rest))
        async with consuming(transport) as consumer:
            left = await receive(consumer, 2 - len(rest))
            assert all(each.returned == 0 for each in left)
            await settle(consumer, *map(Ack, left))

    async def test_a_cancelled_wait(self, transport: Transport) -> None:
        """It ends, and loses nothing."""
        async with consuming(transport) as consumer:
            waiting = asyncio.create_task(consumer.receive(1))
            await asyncio.sleep(0)
            await publish(transport, letter())
            waiting.cancel()
            (came,) = await asyncio.gather(waiting, return_exceptions=True)
            delivery = came[0] if isinstance(came, list) else (await receive(consumer))[0]
            await settle(consumer, Ack(delivery))

    async def test_a_queue_that_nobody_made(self, transport: Transport) -> None:
        """It is said of the message that is for it, of no other, and by everything else."""
        missing, passed = await transport.publish([letter(queue=MISSING), letter()])
        assert isinstance(missing, TransportMismatch)
        assert passed is None
        async with deadline():
            with pytest.raises(TransportMismatch, match="transports declare"):
                async with transport.consumer(MISSING, 1, _none_lost) as consumer:
                    await consumer.receive(1)
        found = await transport.compare([QUEUE, MISSING])
        assert any(MISSING in each.what and each.found is None for each in found)
        assert await transport.compare([QUEUE, OTHER]) == []
        async with consuming(transport) as consumer:
            await settle(consumer, Ack((await receive(consumer))[0]))

    async def test_declared_twice(self, transport: Transport) -> None:
        """Nothing changes, and what waits is kept."""
        await publish(transport, letter())
        assert await transport.declare([QUEUE]) == await transport.declare([QUEUE])
        async with consuming(transport) as consumer:
            await settle(consumer, Ack((await receive(consumer))[0]))

    async def test_too_long_a_delay(self, transport: Transport) -> None:
        """It is refused, and others of the same call are not."""
        refused, passed = await transport.publish(
            [letter(delay=transport.longest_delay + 1), letter()]
        )
        assert isinstance(refused, TransportRefused)
        assert passed is None

    async def test_out_of_reach(self, unreachable: Transport) -> None:
        """It is said of each message; all else raises."""
        async with deadline():
            failed = await unreachable.publish([letter(), letter()])
            assert [type(each) for each in failed] == [TransportUnavailable] * 2
            with pytest.raises(TransportUnavailable):
                async with unreachable.consumer(QUEUE, 1, _none_lost):
                    pass
            with pytest.raises(TransportUnavailable):
                await unreachable.declare([QUEUE])
            with pytest.raises(TransportUnavailable):
                await unreachable.compare([QUEUE])


def _next(message: Message, attempt: int) -> Message:
    return replace(message, attempt=attempt, headers={"tries": attempt})


def _none_lost(lost: Sequence[Delivery]) -> None:
    raise AssertionError(f"lost: {lost}")
