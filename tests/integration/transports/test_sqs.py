"""SQS with its faults, each ordered from the fake; time is injected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from mutirao.errors import (
    ConfigurationError,
    DeliveryLost,
    MessageTooLarge,
    TransportError,
    TransportMismatch,
    TransportRefused,
    TransportUnavailable,
)
from mutirao.model.brokers.message import Ack, Again, Bury, Cause
from mutirao.transports.sqs import SQS, consumer as consuming, polling
from mutirao.transports.sqs.bodies import message_in
from tests.support.sqs_world import VISIBILITY, World, id_of, message, receive
from tests.support.waiting import soon, until

CHANGE, DELETE = "change_message_visibility_batch", "delete_message_batch"
Lines = Callable[[], list[str]]


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
        assert (again.message.id, again.message.attempt, again.returned) == ("a", 1, 1)
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
        failure = await consumer.settle([Ack(each) for each in came])
        assert [type(each) for each in failure] == [DeliveryLost] * 2
    assert world.broker.requests[DELETE] == 0
    assert len(world.visible_in()) == 2
    assert any(
        each.startswith("message a of q is lost to this worker: SQS says") for each in lines()
    )


async def test_a_deletion_with_a_stale_handle(world: World) -> None:
    """A standard queue says that it is done, and may not delete: the message comes again."""
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        world.broker.steal("q")
        assert await consumer.settle([Ack(held)]) == [None]
        world.wait(VISIBILITY)
        assert [id_of(each) for each in await receive(consumer)] == ["a"]


@pytest.mark.parametrize("rate", [0.7, 1.4])
async def test_another_clock(rate: float) -> None:
    """SQS may have another time, which runs slower or faster than ours: what we hold stays ours."""
    world = World(rate, ahead=7_200)
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        for _ in range(20):
            world.wait(VISIBILITY * 2 / 3)
            assert min(world.visible_in()) > 0
            world.beat()
        assert await consumer.settle([Ack(held)]) == [None]
    assert (world.lost, world.visible_in()) == ([], [])
    await world.transport.aclose()


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
        [failure] = await consumer.settle([Ack(held)])
        assert isinstance(failure, DeliveryLost)
        assert "held for its longest time, 43140 s" in str(failure)


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


async def test_an_extension_that_is_refused_too_late(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is tried again for less than no time: the message is lost, and said to be."""
    await world.publish(message("m"))
    async with world.consuming() as consumer:
        await receive(consumer)
        world.wait(VISIBILITY * 0.9)
        answer = world.broker.change_message_visibility_batch

        def late(**asked: Any) -> Any:
            world.wait(VISIBILITY * 0.2)
            return answer(**asked)

        world.broker.change_message_visibility_batch = late  # type: ignore[assignment,method-assign]
        world.broker.refuse_entries(CHANGE, "InternalError", times=99)
        world.beat()
        await until(lambda: world.lost == ["m"])
    assert "tried again" not in caplog.text


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
async def test_what_failed_is_soon_back(ordered: World, after: float, seen: float) -> None:
    """At once, or after its back-off, as far as SQS allows from the receipt: in its place."""
    await ordered.publish(message("a"))
    async with ordered.consuming() as consumer:
        [held] = await receive(consumer)
        ordered.wait(20)
        ordered.beat()
        ordered.wait(81)  # late: its handler was slow to end
        ordered.broker.queues["q.fifo"].messages[0].visible_at = ordered.now + 1
        assert held.message is not None
        await consumer.stop()
        assert await consumer.settle([Again(held, held.message, after)]) == [None]
        assert ordered.visible_in() == [pytest.approx(seen, abs=1)]


async def test_a_long_wait_goes_in_steps(world: World) -> None:
    """SQS delays for 900 s: what waits for longer is sent on, and keeps what it was told."""
    await world.publish(message("a", attempt=2))
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        assert held.message is not None
        found = replace(held.message, attempt=3)
        assert await consumer.settle([Again(held, found, 2_000.0)]) == [None]
        for left in (1_100.0, 200.0, 0.0):
            assert world.visible_in() == [pytest.approx(min(900.0, left + 900.0), abs=1)]
            world.wait(900)
            [held] = await receive(consumer)
            assert held.message is not None
            assert (held.message.delay, held.message.attempt) == (left, 3)
            if left:
                wait = min(left, world.transport.longest_delay)
                assert await consumer.settle([Again(held, held.message, wait)]) == [None]
                if left < 900:
                    world.wait(left - 900)
        assert await consumer.settle([Ack(held)]) == [None]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("RequestThrottled", "cannot be used now"),
        ("OverLimit", "cannot be used now"),
        ("ExpiredToken", "renew them"),
        ("RequestExpired", "or this machine's clock"),
        ("AWS.SimpleQueueService.NonExistentQueue", "transports declare"),
        ("AccessDenied", "policy"),
    ],
)
async def test_trouble_of_one_queue(world: World, lines: Lines, code: str, advice: str) -> None:
    """Is told once, and waited out there and nowhere else; what is held stays."""
    await world.publish(message("a"))
    await world.transport.declare(["other"])
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        world.broker.refused["q"] = code
        async with world.transport.consumer("other", 1, print) as other:
            await until(lambda: world.broker.refusals > 2)
            assert advice in str(consumer.paused)
            assert other.paused is None
            await world.transport.publish([message("o", queue="other"), message("b")])
            assert [id_of(each) for each in await receive(other)] == ["o"]
        assert await consumer.settle([Ack(held)]) == [None]
        world.broker.refused.clear()
        assert [id_of(each) for each in await receive(consumer)] == ["b"]
        assert consumer.paused is None
    [values] = (each for each in lines() if "is paused" in each)
    assert advice in values
    assert "q goes on" in lines()


@pytest.mark.parametrize(
    ("code", "level"),
    [("RequestThrottled", "WARNING"), ("ExpiredToken", "ERROR"), ("AccessDenied", "ERROR")],
)
async def test_what_people_have_to_mend(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, code: str,
    level: str,
) -> None:  # fmt: skip
    """Is an error, and told again in a while; what passes is a warning, and told once."""
    monkeypatch.setattr(polling, "REPEAT_EVERY", 0.0)
    await world.transport.declare(["q"])
    async with world.consuming():
        world.broker.refused["q"] = code
        await until(lambda: world.broker.refusals > 4)
    logged = [each.levelname for each in caplog.records if "is paused" in each.getMessage()]
    assert {*logged} == {level}
    assert (len(logged) > 1) is (level == "ERROR")


async def test_an_error_of_ours(world: World, lines: Lines) -> None:
    """Ends the receiving: whoever consumes is told, and begins anew."""
    await world.publish()
    async with world.consuming() as consumer:
        world.broker.fail("receive_message", KeyError("Messages"))
        with pytest.raises(TransportUnavailable, match="an error of ours: KeyError"):
            await soon(consumer.receive(1))
    assert "receiving from q failed" in lines()


@pytest.mark.parametrize("body", ["[" * 60_000, '{"id": "a", "task": "t", "args": ' + "[" * 60_000])
async def test_what_nobody_can_read(world: World, body: str) -> None:
    """It is one delivery, and keeps nobody from the others."""
    await world.publish()
    world.broker.send_message_batch("q", [{"Id": "0", "MessageBody": body}])
    async with world.consuming() as consumer:
        [odd] = await receive(consumer)
        assert odd.message is None
        assert "no message of Mutir" in str(odd.problem)
        assert await consumer.settle([Bury(odd, Cause(error_type="x", error=""))]) == [None]
    assert await world.transport.return_dead("q", None) == 1


@pytest.mark.parametrize("code", ["AWS.SimpleQueueService.NonExistentQueue", "AccessDenied"])
async def test_what_cannot_be_sent(world: World, code: str) -> None:
    """Is told of each message."""
    await world.publish()
    world.broker.refuse("send_message_batch", code)
    failure = await world.transport.publish([message("a"), message("b")])
    assert [type(each) for each in failure] == [TransportMismatch] * 2


async def test_a_queue_that_is_gone(world: World) -> None:
    """What was held of it is lost."""
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        await receive(consumer)
        world.broker.refuse(CHANGE, "AWS.SimpleQueueService.NonExistentQueue")
        world.wait(VISIBILITY * 2 / 3)
        world.beat()
        await until(lambda: world.lost == ["a"])


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


@pytest.mark.parametrize(
    ("code", "kind"),
    [("InternalError", TransportUnavailable), ("AccessDenied", TransportMismatch)],
)
async def test_deletes_that_do_not_pass(
    world: World, code: str, kind: type[TransportError]
) -> None:
    """What is done stays ours, so that it is done once: until they pass, or its time is over."""
    await world.publish(message("a"), message("b"))
    async with world.consuming() as consumer:
        a, b = await receive(consumer, 2)
        world.broker.refuse_entries(DELETE, code, most=2, times=99)
        assert [type(each) for each in await consumer.settle([Ack(a), Ack(b)])] == [kind] * 2
        for _ in range(3):
            world.beat()
            assert world.visible_in() == pytest.approx([VISIBILITY] * 2)
            world.wait(VISIBILITY * 2 / 3)
        world.broker.mend(DELETE)
        assert await consumer.settle([Ack(a)]) == [None]
        world.wait(VISIBILITY)
        world.beat()
        await until(lambda: world.lost == ["b"])
        [failure] = await consumer.settle([Ack(b)])
        assert isinstance(failure, DeliveryLost)


async def test_a_burial_that_is_not_finished(world: World) -> None:
    """A copy among the dead is enough: only the deletion is tried again."""
    await world.publish(message("a"))
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        world.broker.refuse_entries(DELETE, "AccessDenied")
        burial = Bury(held, Cause(error_type="ValueError", error="no"))
        assert [type(each) for each in await consumer.settle([burial])] == [TransportMismatch]
        assert await consumer.settle([burial]) == [None]
    assert len(await world.transport.dead("q", 5)) == 1
    assert world.visible_in() == []


async def test_what_is_dead_is_kept_first(world: World) -> None:
    """A message is deleted once its copy is confirmed, not before."""
    await world.publish(message("a"))
    cause = Cause(error_type="ValueError", error="no\x00 é\ufffe")
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        world.broker.refuse_entries("send_message_batch", "InvalidMessageContents", sender=True)
        [failure] = await consumer.settle([Bury(held, cause)])
        assert isinstance(failure, TransportRefused)
        assert world.broker.requests[DELETE] == 0
        assert await consumer.settle([Bury(held, cause)]) == [None]
    assert [each.cause for each in await world.transport.dead("q", 5)] == [cause]


async def test_the_largest_that_is_dead(world: World) -> None:
    """There is room for its cause, whatever characters that has."""
    sizes = range(1 << 20, 0, -100)
    await world.publish()
    for size in sizes:
        args = '{"a": "%s"}' % ("x" * size)
        [refused] = await world.transport.publish([message("a", args=args)])
        if refused is None:
            break
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        cause = Cause(error_type="ValueError", error="é\ufffe" * 4_000)
        assert await consumer.settle([Bury(held, cause)]) == [None]
    [dead] = await world.transport.dead("q", 5)
    assert dead.cause.error.startswith("é\ufffe" * 100)


async def test_what_is_told_anew(world: World) -> None:
    """It comes as it is told, with no attempt more, and is sent before it is deleted."""
    await world.publish(message("a", headers={"tenant": "acme"}))
    async with world.consuming() as consumer:
        [held] = await receive(consumer)
        assert held.message is not None
        found = replace(held.message, headers={"tenant": "acme", "unknown-here": 1})
        again = Again(held, found, 5, anew=True)
        world.broker.refuse("send_message_batch", "AccessDenied")
        assert [type(each) for each in await consumer.settle([again])] == [TransportMismatch]
        world.broker.refuse_entries(DELETE, "AccessDenied")
        assert [type(each) for each in await consumer.settle([again])] == [TransportMismatch]
        assert await consumer.settle([again]) == [None]
        assert world.visible_in() == [5]
        world.wait(5)
        assert [each.message for each in await receive(consumer)] == [found]
    assert [each.group for each in world.broker.queues["q"].messages] == ["acme"]


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


async def test_a_group_that_somebody_works_on(ordered: World) -> None:
    """Is locked to others until that is settled."""
    await ordered.publish(message("a1", ordering_key="a"))
    async with ordered.consuming(prefetch=1) as one:
        [a1] = await receive(one)
        async with ordered.consuming() as other:
            await ordered.publish(*(message(id, ordering_key=id[0]) for id in ("a2", "b1")))
            assert [id_of(each) for each in await receive(other)] == ["b1"]
        await one.stop()
        assert await one.settle([Ack(a1)]) == [None]
    async with ordered.consuming() as other:
        assert [id_of(each) for each in await receive(other, 2)] == ["a2", "b1"]


async def test_the_dead_of_a_group(ordered: World) -> None:
    """Is returned into its group, behind what is there."""
    await ordered.publish(message("a1", ordering_key="a"), message("a2", ordering_key="a"))
    async with ordered.consuming() as consumer:
        [a1] = await receive(consumer)
        assert await consumer.settle([Bury(a1, Cause(error_type="ValueError", error=""))]) == [None]
        assert await ordered.transport.return_dead("q", ["a1"]) == 1
        [a2] = await receive(consumer)
        assert {each.group for each in ordered.broker.queues["q.fifo"].messages} == {"a"}
        assert await consumer.settle([Ack(a2)]) == [None]
        [a1] = await receive(consumer)
        assert [id_of(a1), id_of(a2)] == ["a1", "a2"]


async def test_arguments_of_a_group_that_cannot_be_had(
    ordered: World, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    """Keep what is behind them waiting, and no other group."""
    await ordered.publish(*(message(id, ordering_key=id[0]) for id in ("a1", "a2", "b1")))
    away = [True]

    def read(body: str, *how: Any) -> Any:
        if away[0] and '"a1"' in body:
            raise TransportUnavailable("S3 is away")
        return message_in(body, *how)

    monkeypatch.setattr(consuming, "message_in", read)
    async with ordered.consuming() as consumer:
        assert [id_of(each) for each in await receive(consumer)] == ["b1"]
        away.clear()
        away.append(False)
        ordered.wait(VISIBILITY)
        assert [id_of(each) for each in await receive(consumer)] == ["a1"]
    assert sum("is left, and comes again: S3 is away" in each for each in lines()) == 1


async def test_a_stale_handle_of_a_group(ordered: World) -> None:
    """FIFO queues say so when deleting, and what waited behind it is given back."""
    await ordered.publish(message("a1", ordering_key="a"), message("a2", ordering_key="a"))
    async with ordered.consuming() as consumer:
        [a1] = await receive(consumer)
        ordered.broker.steal("q.fifo")
        [failure] = await consumer.settle([Ack(a1)])
        assert isinstance(failure, DeliveryLost)
    assert len(ordered.visible_in()) == 2


async def test_what_is_refused_at_the_caller(world: World, ordered: World) -> None:
    """Delays past SQS's, sizes, arguments that are no text; others of the call pass."""
    await world.publish()
    bad = [
        message("late", delay=901), message("large", args='{"a": "%s"}' % ("é" * (1 << 19))),
        message("odd", args='{"a": "\ud800"}'), message("broken", args="{"),
    ]  # fmt: skip
    failure = await world.transport.publish([*bad, message("good", args='{"a": "\ufffe"}')])
    refused = [TransportRefused, MessageTooLarge, *[TransportRefused] * 2]
    assert [type(each) for each in failure] == [*refused, type(None)]
    assert "into the store" in str(failure[0])
    assert "a bucket of S3" in str(failure[1])
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
        "got message a of q (hand-out 1)",
        "message a of q started",
        "message a of q done",
    ]
