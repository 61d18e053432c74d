"""Schedules that RabbitMQ keeps: on time, one phase at a time, whatever vanishes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import aiormq
import pytest

from mutirao import Cancel, Job, Mutirao, Retry
from mutirao.client.kept_schedules import look_at_schedules
from mutirao.client.transports import drop_schedule, examine_transports
from mutirao.errors import (
    ConfigurationError,
    InvalidSchedule,
    TransportMismatch,
    UnknownSchedule,
)
from mutirao.model.findings import Level
from mutirao.model.schedules import token as steps
from mutirao.model.schedules.token import Token
from mutirao.ports.tokens import Queued
from mutirao.transports.rabbitmq import RabbitMQ, tokens
from mutirao.transports.rabbitmq.tokens import RabbitTokens
from tests.support.engine import schedule_tokens
from tests.support.rabbitmq import RabbitServer
from tests.support.waiting import soon, until

EVERY = 0.2  # seconds


class Shop:
    """An application, and the brokers of others like it."""

    def __init__(self, server: RabbitServer) -> None:
        self._server, self._prefix = server, f"kept-{uuid4().hex[:8]}"
        self.app, self.broker = self.another()

    def another(self) -> tuple[Mutirao, RabbitMQ]:
        """Return one more application with the same queues."""
        broker = RabbitMQ(self._server.url(), prefix=self._prefix)
        return Mutirao(transports={"feeds": broker}), broker

    async def purge(self, schedule: str) -> None:
        """Delete all that waits in a schedule's queue."""
        async with aiormq.connect(self._server.url()) as connection:
            channel = await connection.channel()
            await channel.queue_purge(f"{self._prefix}-schedules.{schedule}")

    async def put(self, schedule: str, token: Token) -> None:
        """Put a token into a schedule's queue."""
        async with aiormq.connect(self._server.url()) as connection:
            channel = await connection.channel()
            await channel.basic_publish(
                token.body(), exchange=f"{self._prefix}-schedules", routing_key=schedule
            )

    async def waits(self, schedule: str) -> bool:
        """Return whether a token is in a schedule's queue, and in nobody's hands."""
        async with aiormq.connect(self._server.url()) as connection:
            channel = await connection.channel()
            name = f"{self._prefix}-schedules.{schedule}"
            return bool((await channel.queue_declare(name, passive=True)).message_count)


@pytest.fixture
async def shop(rabbit: RabbitServer) -> AsyncIterator[Shop]:
    """An application without a database, and with a queue by RabbitMQ alone."""
    shop = Shop(rabbit)
    await shop.broker.declare(["feeds"])
    await shop.broker.declare_schedules(["pull", "beat"])
    yield shop
    await shop.app.aclose()


async def test_two_workers_take_turns(shop: Shop) -> None:
    """Phases do not overlap, start on time whatever they take, and each has a number of its own."""
    phases: list[tuple[str, float, float, int, object]] = []

    def declare(app: Mutirao, who: str) -> None:
        @app.schedule(every=EVERY)
        @app.task(queue="feeds")
        async def pull(job: Job) -> None:
            began = time.time()
            await asyncio.sleep(EVERY / 2)
            phases.append((who, began, time.time(), job.id, job.metadata["tick"]))

    other, _ = shop.another()
    declare(shop.app, "one")
    declare(other, "other")
    async with shop.app.worker(queues=["feeds"]), other.worker(queues=["feeds"]):
        # The one that started first may have had any number of them before the other came.
        await until(lambda: len(phases) >= 8 and len({who for who, *_ in phases}) == 2)
    assert all(end <= began for (_, _, end, *_), (_, began, *_) in pairwise(phases))
    assert len({id for *_, id, _ in phases}) == len(phases)
    ticks = [str(tick) for *_, tick in phases]
    assert ticks == sorted({*ticks})
    await other.aclose()


async def test_phases_that_fail(shop: Shop) -> None:
    """Transient: again, as another attempt. Cancelled: no more, until somebody starts it."""
    met: list[tuple[int, int]] = []

    @shop.app.schedule(every=EVERY)
    @shop.app.task(queue="feeds", retry=Retry.fixed(3, interval=0.05))
    async def pull(job: Job) -> None:
        met.append((job.id, job.attempt))
        if job.attempt == 1:
            raise OSError("not yet")
        if len(met) == 4:
            raise Cancel("the feed is gone")

    beats: list[None] = []

    @shop.app.schedule(every=EVERY)
    @shop.app.task(queue="feeds")
    async def beat() -> None:
        beats.append(None)

    async with shop.app.worker(queues=["feeds"]):
        await until(lambda: len(met) == 4)
    assert [attempt for _, attempt in met] == [1, 2, 1, 2]
    assert met[0][0] == met[1][0] != met[2][0] == met[3][0]
    before = len(beats)
    async with shop.app.worker(queues=["feeds"]):
        await until(lambda: len(beats) >= before + 4)
        assert len(met) == 4
        await shop.broker.start_schedule("pull")
        await until(lambda: len(met) >= 6)


async def test_what_has_stopped(shop: Shop) -> None:
    """It is told with its reason, whether a worker holds the token or nobody does."""
    began, go_on = asyncio.Event(), asyncio.Event()

    @shop.app.schedule(every=EVERY)
    @shop.app.task(queue="feeds")
    async def pull() -> None:
        raise Cancel("the feed is gone")

    @shop.app.schedule(every=EVERY)
    @shop.app.task(queue="feeds")
    async def beat() -> None:
        began.set()
        await go_on.wait()

    async def look() -> dict[str, str]:
        found = await look_at_schedules(shop.app.schedules.declared(), shop.app.transports)
        return {each.name: f"{each.state}: {each.stopped}" for each in found}

    stopped = "stopped: a phase cancelled it"
    async with shop.app.worker(queues=["feeds"]):
        await began.wait()
        await until(lambda: _is(look, {"pull": stopped, "beat": "running: None"}))
        go_on.set()
    assert await look() == {"pull": stopped, "beat": "waiting: None"}


async def _is(look: Callable[[], Awaitable[object]], wanted: object) -> bool:
    return await look() == wanted


async def test_who_never_ran(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no token, and nobody to answer: it is unknown."""
    monkeypatch.setattr(tokens, "ASKED_EVERY", 0.05)

    @shop.app.schedule(every=EVERY)
    @shop.app.task(queue="feeds")
    async def pull() -> None: ...

    found, left = await look_at_schedules(shop.app.schedules.declared(), shop.app.transports)
    assert (found.name, found.state, found.due) == ("pull", "unknown", None)
    assert (left.name, left.state) == ("beat", "left")
    assert not await shop.waits("pull")


async def test_doctor(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names what has stopped, what no worker has begun, and what left the code; until mended."""
    monkeypatch.setattr(tokens, "ASKED_EVERY", 0.05)

    @shop.app.schedule(every=EVERY)
    @shop.app.task(queue="feeds")
    async def pull() -> None: ...

    async def found() -> list[str]:
        transports, kept = shop.app.transports, shop.app.schedules.declared()
        seen = await examine_transports(transports, {"feeds"}, kept)
        return [f"{each.found}: {each.advice}" for each in seen if each.level is Level.WARNING]

    unbegun, left = await found()
    assert "schedule pull has had no worker yet" in unbegun
    assert "schedule beat is not in the code any more" in left
    assert "drop-schedule beat" in left
    seeded = steps.seeded(shop.app.schedules.declared()[0], datetime.now(UTC))
    await shop.put("pull", steps.stopped(replace(seeded, serial=1), "the feed is gone"))
    stopped, _ = await found()
    assert "schedule pull has stopped: the feed is gone" in stopped
    assert "start-schedule pull" in stopped
    declared = shop.app.schedules.declared()
    with pytest.raises(ConfigurationError, match="take it out first"):
        await drop_schedule(shop.app.transports, declared, "pull")
    async with shop.broker.tokens(["beat"]):
        with pytest.raises(TransportMismatch, match="1 workers stand in line"):
            await drop_schedule(shop.app.transports, declared, "beat")
    await drop_schedule(shop.app.transports, declared, "beat")
    assert len(await found()) == 1
    with pytest.raises(UnknownSchedule, match="lists them"):
        await drop_schedule(shop.app.transports, declared, "beat")


async def test_declared_again_and_again(shop: Shop, rabbit: RabbitServer) -> None:
    """What was declared is one message, whoever declares what; nobody else's body breaks it."""
    await shop.broker.declare_schedules(["pull", "é"])
    await shop.put("", Token(loop="no list", tick=0.0, due=0.0))
    await shop.broker.declare_schedules(["pull"])
    assert await shop.broker.left_schedules(["pull"]) == ["beat", "é"]
    async with aiormq.connect(rabbit.url()) as connection:
        channel = await connection.channel()
        name = shop.broker._topology.schedules
        assert (await channel.queue_declare(name, passive=True)).message_count == 1


async def test_poison(shop: Shop) -> None:
    """Out of attempts it is among the dead, and stopped; who returns it starts it."""
    met: list[int] = []

    @shop.app.schedule(every=EVERY)
    @shop.app.task(queue="feeds", max_attempts=1)
    async def pull(job: Job) -> None:
        met.append(job.id)
        if len(met) == 1:
            raise ValueError("a broken feed")

    async def dead() -> bool:
        return len(await shop.broker.dead("feeds", 10)) == 1

    async with shop.app.worker(queues=["feeds"]):
        await until(dead)
        (found,) = await shop.broker.dead("feeds", 10)
        assert (found.task, found.cause.error_type) == ("pull", "ValueError")
        assert await shop.broker.return_dead("feeds", None) == 1
        await until(lambda: len(met) >= 3)
        assert await shop.broker.dead("feeds", 10) == []


async def test_a_token_that_is_lost(shop: Shop) -> None:
    """Nobody has it: a worker that starts makes another. Two of them are one loop."""
    ticks: list[datetime] = []

    @shop.app.schedule(every=EVERY)
    @shop.app.task(queue="feeds")
    async def pull(job: Job) -> None:
        ticks.append(datetime.fromisoformat(str(job.metadata["tick"])))

    async with shop.app.worker(queues=["feeds"]):
        await until(lambda: ticks)
    await shop.purge("pull")
    ticks.clear()
    async with shop.app.worker(queues=["feeds"]):
        for _ in range(3):
            await shop.broker.start_schedule("pull")
        await until(lambda: len(ticks) >= 4)
    period = timedelta(seconds=EVERY)
    assert all(later - earlier > period * 0.99 for earlier, later in pairwise(ticks))


async def test_a_consumer_that_the_broker_has_forgotten(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not cancelled, and no token comes: whoever stands in line does so anew."""
    monkeypatch.setattr(schedule_tokens, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(schedule_tokens, "CARE_EVERY", 0.05)
    forgotten: list[str] = []
    line_up = RabbitTokens.line_up

    async def forget(self: RabbitTokens, schedule: str) -> None:
        await line_up(self, schedule)
        if not forgotten:
            forgotten.append(schedule)
            await self._channel.basic_cancel(self._tags[schedule] or "")

    monkeypatch.setattr(RabbitTokens, "line_up", forget)
    ran: list[int] = []

    @shop.app.schedule(every=EVERY)
    @shop.app.task(queue="feeds")
    async def pull(job: Job) -> None:
        ran.append(job.id)

    async with shop.app.worker(queues=["feeds"]):
        await until(lambda: len(ran) >= 2)
    assert forgotten == ["pull"]


async def test_a_first_token_beside_the_real_one(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was made in vain runs no phase, nor does it make one that has stopped run."""
    monkeypatch.setattr(schedule_tokens, "FIRST_AFTER", 100.0)
    met: list[int] = []

    @shop.app.schedule(every=EVERY)
    @shop.app.task(queue="feeds")
    async def pull(job: Job) -> None:
        met.append(job.id)

    async def taken() -> bool:
        return not await shop.waits("pull")

    first, real = (Token(loop=uuid4().hex, tick=1.0, due=1.0) for _ in range(2))
    await shop.put("pull", first)
    async with shop.app.worker(queues=["feeds"]):
        await until(taken)
        await shop.put("pull", replace(real, serial=2, stopped="for this test"))
        await shop.broker.start_schedule("pull")
        await until(lambda: met)
    assert not {int(first.id), int(real.id)} & {*met}


async def test_a_full_worker_leaves_it_to_another(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose slots are busy passes a phase on that is due."""
    monkeypatch.setattr(schedule_tokens, "PATIENCE", 0.1)
    busy, ran = asyncio.Event(), asyncio.Event()

    def declare(app: Mutirao, then: asyncio.Event | None) -> None:
        @app.task(queue="feeds")
        async def block() -> None:
            busy.set()
            await asyncio.Event().wait()

        @app.schedule(every=1)
        @app.task(queue="feeds")
        async def pull() -> None:
            assert then is not None
            then.set()

    other, _ = shop.another()
    declare(shop.app, None)
    declare(other, ran)
    async with shop.app.worker(queues=["feeds"], concurrency=1, grace=0):
        await shop.app.tasks["block"].aenqueue()
        await until(busy.is_set)
        async with other.worker(queues=["feeds"]):
            await until(ran.is_set)
    await other.aclose()


async def test_a_stopped_worker_leaves_it_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it holds is the next one's, which does not have to look for it again later."""
    monkeypatch.setattr(schedule_tokens, "LOOK_EVERY", 3600.0)
    old, new = asyncio.Event(), asyncio.Event()

    def declare(app: Mutirao, began: asyncio.Event) -> None:
        @app.schedule(every=EVERY)
        @app.task(queue="feeds")
        async def pull() -> None:
            began.set()

    other, _ = shop.another()
    declare(shop.app, old)
    declare(other, new)
    async with shop.app.worker(queues=["feeds"]):
        await soon(old.wait())
    async with other.worker(queues=["feeds"]):
        await soon(new.wait())
    await other.aclose()


async def test_a_stopped_worker_ends_its_phase_first(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others, who see no token then, make one: it comes to the worker that runs the phase."""
    monkeypatch.setattr(schedule_tokens, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(schedule_tokens, "CARE_EVERY", 0.05)
    old, new, release = asyncio.Event(), asyncio.Event(), asyncio.Event()
    looks: list[str] = []

    def declare(app: Mutirao, began: asyncio.Event) -> None:
        @app.schedule(every=EVERY)
        @app.task(queue="feeds")
        async def pull() -> None:
            began.set()
            await release.wait()

    async def look(self: RabbitTokens, schedule: str) -> Queued:
        looks.append(schedule)
        return await looking(self, schedule)

    async def stopping() -> None:
        async with shop.app.worker(queues=["feeds"]):
            await until(old.is_set)

    other, _ = shop.another()
    declare(shop.app, old)
    declare(other, new)
    stopped = asyncio.create_task(stopping())
    await until(old.is_set)
    looking = RabbitTokens.look
    monkeypatch.setattr(RabbitTokens, "look", look)
    async with other.worker(queues=["feeds"]):
        await until(lambda: len(looks) >= 10 or new.is_set())
        assert not new.is_set()
        release.set()
        await stopped
        await until(new.is_set)
    await other.aclose()


async def test_what_only_a_database_keeps(shop: Shop) -> None:
    """It is refused where a worker starts."""
    shop.app.schedule("* * * * *", catch_up="all")(shop.app.task(queue="feeds")(nothing))
    with pytest.raises(InvalidSchedule, match="catch_up='all'"):
        async with shop.app.worker(queues=["feeds"]):
            raise AssertionError


async def nothing() -> None:
    """Do nothing."""
