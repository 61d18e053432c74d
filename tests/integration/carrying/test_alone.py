"""A worker on queues that are by broker alone, beside the lanes of its database."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mutirao import Cancel, Dead, DeadJob, Job, Mutirao, Retry, Snooze
from mutirao.client import broker_publishing
from mutirao.errors import (
    ConfigurationError,
    InvalidJob,
    StoreUnavailable,
    TransportMismatch,
    TransportUnavailable,
    WorkerStuck,
    WrongState,
)
from mutirao.model.brokers.message import DeadMessage, Message
from mutirao.model.findings import Finding, Level
from mutirao.model.jobs.job import NewJob
from mutirao.ports.transport import OnLost
from mutirao.sql.drivers import steps
from mutirao.testing import capture, drain
from mutirao.transports import memory
from mutirao.transports.memory import MemoryTransport
from tests.integration.worker import children
from tests.support.engine import MAX_LOST_RUNS, broker_queues
from tests.support.log_records import ours
from tests.support.waiting import soon, until, wait_until

ALL_WELL = 0.05  # seconds between attempts


@pytest.fixture
async def broker() -> MemoryTransport:
    """A broker with one queue."""
    broker = MemoryTransport()
    await broker.declare(["mail"])
    return broker


@pytest.fixture
async def app(lite_url: str, broker: MemoryTransport) -> AsyncIterator[Mutirao]:
    """An application with a queue by broker alone, and a database."""
    app = Mutirao(lite_url, transports={"mail": broker})
    yield app
    await app.aclose()
    app.close()


async def dead(broker: MemoryTransport, number: int = 1) -> list[DeadMessage]:
    """Wait until so many messages are dead; return them."""

    async def found() -> list[DeadMessage] | None:
        there = await broker.dead("mail", 100)
        return there if len(there) >= number else None

    return await until(found)


async def test_all_kinds_of_handlers_beside_a_database(app: Mutirao) -> None:
    """Coroutines, threads, jobs of the database and of the broker: one worker runs them."""
    ran: list[tuple[str, Any]] = []

    @app.task(queue="mail")
    async def coroutine(job: Job, n: int) -> None:
        ran.append(("coroutine", (n, job.attempt, job.tenant, job.metadata, job.tags)))

    @app.task(queue="mail")
    def thread(at: datetime) -> None:
        ran.append(("thread", at))

    @app.task
    async def in_database() -> None:
        ran.append(("database", None))

    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    async with app.worker():
        call = coroutine.using(tenant="acme", metadata={"a": [1]}, tags=["t"])
        handle = await call.aenqueue(1)
        await asyncio.to_thread(thread.enqueue, at=moment)
        in_database.enqueue()
        await until(lambda: len(ran) == 3)
    assert sorted(ran, key=lambda each: each[0]) == [
        ("coroutine", (1, 1, "acme", {"a": [1]}, ("t",))),
        ("database", None),
        ("thread", moment),
    ]
    assert len(str(handle.id)) == 32
    with pytest.raises(WrongState, match="no results"):
        handle.result()
    assert [job.task for job in app.jobs()] == ["in_database"]


async def test_what_has_expired_is_not_started(app: Mutirao, broker: MemoryTransport) -> None:
    """The message brings its moment, also when it comes again; nobody is told of a death."""
    tried: list[int] = []

    @app.task(queue="mail", retry=Retry.fixed(9, interval=ALL_WELL))
    async def attempt(job: Job) -> None:
        tried.append(job.attempt)
        raise OSError("no")

    @app.task(queue="mail")
    async def work(name: str) -> None:
        tried.append(0)

    soon_over = datetime.now(UTC) + timedelta(seconds=3 * ALL_WELL)
    await work.using(expires=datetime.now(UTC) - timedelta(seconds=1)).aenqueue("late")
    await attempt.using(expires=soon_over).aenqueue()
    async with app.worker():
        await until(lambda: datetime.now(UTC) > soon_over)
        await work.using(expires=3600).aenqueue("last")
        await until(lambda: 0 in tried)
        await wait_until_empty(broker)
    assert tried.count(0) == 1
    assert len(tried) <= 5
    assert await broker.dead("mail", 10) == []


async def wait_until_empty(broker: MemoryTransport) -> None:
    """Wait until nothing is left in the queue, and nothing comes again."""

    async def empty() -> bool:
        return await broker.waiting("mail") == 0

    await until(empty)


async def test_outcomes(app: Mutirao, broker: MemoryTransport) -> None:
    """Retried with back-off, snoozed without an attempt, cancelled, dead, and mourned."""
    tries: list[tuple[str, int]] = []
    mourned: list[DeadJob] = []

    @app.task(queue="mail", retry=Retry.fixed(3, interval=ALL_WELL))
    async def attempt(job: Job, how: str) -> None:
        tries.append((how, job.attempt))
        match how:
            case "fails":
                raise OSError("no")
            case "recovers" if job.attempt == 1:
                raise OSError("not yet")
            case "snoozes" if tries.count(("snoozes", 1)) == 1:
                raise Snooze(ALL_WELL)
            case "refuses":
                raise Dead("never")
            case "cancels":
                raise Cancel("no more")

    @attempt.on_dead
    async def mourn(dead: DeadJob) -> None:
        mourned.append(dead)

    async with app.worker(queues=["mail"]):
        for how in ("fails", "recovers", "snoozes", "refuses", "cancels"):
            attempt.enqueue(how)
        found = await dead(broker, 2)
        await until(lambda: len(mourned) == 2)
        await until(lambda: len(tries) == 9)
    assert sorted(tries) == [
        ("cancels", 1), ("fails", 1), ("fails", 2), ("fails", 3), ("recovers", 1), ("recovers", 2),
        ("refuses", 1), ("snoozes", 1), ("snoozes", 1),
    ]  # fmt: skip
    causes = {each.cause.error_type: each.cause for each in found}
    assert causes.keys() == {"OSError", "Dead"}
    assert causes["OSError"].attempts == 3
    first, last = causes["OSError"].first_at, causes["OSError"].last_at
    assert first is not None
    assert last is not None
    assert first < last
    assert {each.args["how"] for each in mourned} == {"fails", "refuses"}
    assert {f"{each.id:032x}" for each in mourned} == {each.id for each in found}


async def test_what_a_broker_cannot_hold(app: Mutirao, broker: MemoryTransport) -> None:
    """Is in the database until it is due, or at once if it is too large; others are published."""
    ran: list[int] = []

    @app.task(queue="mail")
    async def send(text: str) -> None:
        ran.append(len(text))

    late = datetime.now(UTC) + timedelta(hours=1)
    broker.longest_delay, broker._max_size = 0.1, 100
    jobs = [send.job("short"), send.using(run_at=late).job("later"), send.job("x" * 200)]
    ids = app.enqueue_many(jobs)
    stored = [job.id for job in app.jobs()]
    assert [each in stored for each in ids] == [False, True, True]
    ids.append((await send.using(run_at=late).aenqueue("as late")).id)
    assert ids[-1] in [job.id for job in app.jobs()]
    assert {*await app.aretry(ids[1], ids[3])} == {ids[1], ids[3]}
    async with app.worker():
        await until(lambda: len(ran) == 4)
    assert sorted(ran) == [5, 5, 7, 200]
    broker.available = False
    with pytest.raises(TransportUnavailable, match="1 of 2 jobs were not published"):
        app.enqueue_many([send.job("short"), send.using(delay=60).job("kept")])
    assert len(list(app.jobs())) == 4
    broker.longest_delay = 0.0
    with pytest.raises(InvalidJob, match="keeps the order"):
        send.using(delay=60).enqueue("never")


async def test_what_comes_again_too_late(app: Mutirao, broker: MemoryTransport) -> None:
    """Goes on in the database with the attempts that are left, where a worker of that runs it."""
    broker.longest_again = ALL_WELL / 2
    ran: list[tuple[str, int, str | None]] = []

    @app.task(queue="mail", retry=Retry.fixed(3, interval=ALL_WELL))
    async def send(job: Job, how: str) -> None:
        ran.append((how, job.attempt, job.tenant))
        if sum(each == how for each, *_ in ran) == 1:
            raise Snooze(ALL_WELL) if how == "snoozes" else OSError("not yet")

    async with app.worker(queues=["mail"]):
        for how in ("snoozes", "fails"):
            await send.using(tenant="acme", tags=["t"], metadata={"a": 1}).aenqueue(how)
        await until(lambda: len(list(app.jobs())) == 2)
    assert len(ran) == 2
    async with app.worker():
        await until(lambda: len(ran) == 4)
    assert sorted(ran) == [
        ("fails", 1, "acme"), ("fails", 1, "acme"), ("snoozes", 1, "acme"), ("snoozes", 1, "acme"),
    ]  # fmt: skip
    jobs = {job.args["how"]: job for job in app.jobs()}
    assert {how: job.max_attempts for how, job in jobs.items()} == {"fails": 2, "snoozes": 3}
    assert {(job.tags, job.metadata["a"]) for job in jobs.values()} == {(("t",), 1)}
    assert await broker.waiting("mail") == 0


@pytest.mark.parametrize("why", ["order", "away"])
async def test_what_comes_sooner_than_asked(
    app: Mutirao,
    broker: MemoryTransport,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    """Where order is kept, or no database takes it for long; it is told once, why."""
    broker.longest_again = ALL_WELL
    if why == "order":
        broker.longest_delay = 0.0
    attempts: list[int] = []

    @app.task(queue="mail", retry=Retry.fixed(3, interval=ALL_WELL / 2))
    async def send(job: Job) -> None:
        attempts.append(job.attempt)
        if job.attempt < 3:
            raise Retry(after=2 * ALL_WELL)

    async def away(*_: object) -> list[int]:
        raise StoreUnavailable("nobody answers")

    monkeypatch.setattr(app.store, "aenqueue", away)
    monkeypatch.setattr(broker_queues, "PATIENCE", 0.0)
    async with app.worker(queues=["mail"]):
        await send.aenqueue()
        await until(lambda: len(attempts) == 3)
    assert attempts == [1, 2, 3]
    reason = {"order": "lose their place in the queue's order", "away": "nobody answers"}[why]
    assert caplog.text.count("come again sooner") == caplog.text.count(reason) == 1


async def test_retries_that_wait_too_long_for_an_order(
    app: Mutirao, broker: MemoryTransport
) -> None:
    """They are refused when a worker starts, and in the database they would lose their place."""
    broker.longest_again, broker.longest_delay = ALL_WELL, 0.0
    app.task(queue="mail", name="by_error", retry=Retry.by(lambda _, error: error.args[0]))(len)  # type: ignore[union-attr]
    app.task(queue="mail", name="send", retry=Retry.fixed(3, interval=2 * ALL_WELL))(len)
    with pytest.raises(ConfigurationError, match=r"'send' may wait 0 s .* 'mail', which keeps"):
        await app.worker(queues=["mail"]).__aenter__()


@pytest.mark.parametrize("queue", ["mail", "default"])
async def test_many_are_read_as_they_are_handed_in(
    app: Mutirao, broker: MemoryTransport, monkeypatch: pytest.MonkeyPatch, queue: str
) -> None:
    """Some at a time are in memory; one that does not fit ends it, and nothing of its part goes."""
    monkeypatch.setattr(broker_publishing, "PUBLISHED_AT_ONCE", 10)
    monkeypatch.setattr(steps, "MAX_JOBS_IN_MEMORY", 10)
    read, most = list[weakref.ref[NewJob]](), 0

    def jobs(last: str) -> Iterator[NewJob]:
        nonlocal most
        for n in range(100):
            job = NewJob(task="t", queue=queue if n < 99 else last)
            read.append(weakref.ref(job))
            most = max(most, sum(each() is not None for each in read))
            yield job

    assert len(set(app.enqueue_many(jobs(queue)))) == 100
    assert len(set(await app.aenqueue_many(jobs(queue)))) == 100
    assert most <= 25
    other = {"mail": "default", "default": "mail"}[queue]
    with pytest.raises(InvalidJob, match="two calls"):
        app.enqueue_many(jobs(other))
    there = len(broker._queue("mail").ready), len(list(app.jobs(limit=None)))
    assert there == ((290, 0) if queue == "mail" else (0, 200))


async def test_what_cannot_be_by_broker_alone(app: Mutirao, broker: MemoryTransport) -> None:
    """Is refused where it is asked for, with what to do instead."""

    @app.task(queue="mail")
    async def send() -> None: ...

    @app.task
    async def other() -> None: ...

    for call in (
        send.using(conn=object()),
        send.using(key="k"),
        send.using(priority=1),
    ):
        with pytest.raises(InvalidJob, match="leave the queue to the database"):
            call.enqueue()
    with pytest.raises(InvalidJob, match="two calls"):
        app.enqueue_many([send.job(), other.job()])
    with pytest.raises(InvalidJob, match="keep_result"):
        app.task(queue="mail", name="kept", keep_result=True)(lambda: None)
    with pytest.raises(ConfigurationError, match="transports have"):
        Mutirao(transports={"mail": "amqp://localhost"})  # type: ignore[dict-item]
    assert await broker.drop_dead("mail", None) == 0
    strange = Mutirao(transports={"nowhere": broker})
    task = strange.task(queue="nowhere", name="t")(lambda: None)
    with pytest.raises(TransportMismatch, match="transports declare"):
        await task.aenqueue()


async def test_no_transaction(app: Mutirao, broker: MemoryTransport) -> None:
    """There is no row that it could complete: dead at the first attempt, and the inbox is named."""

    @app.task(queue="mail")
    async def send(job: Job) -> None:
        async with job.transaction():
            pass

    async with app.worker(queues=["mail"]):
        send.enqueue()
        (found,) = await dead(broker)
    assert "app.inbox" in found.cause.error
    assert found.cause.attempts == 1


async def test_messages_that_nobody_can_run(
    app: Mutirao, broker: MemoryTransport, caplog: pytest.LogCaptureFixture
) -> None:
    """They are dead, with the cause, or wait for workers that can; each is told once."""
    ran = asyncio.Event()

    @app.task(queue="mail")
    async def send(n: int) -> None:
        ran.set()

    for _ in range(3):
        broker.publish_raw("mail", b"\xff")
    unfit = Message(id="unfit", task="send", args='{"n": "x"}', queue="mail")
    unread = Message(id="unread", task="send", args="no json", queue="mail")
    unknown = Message(id="unknown", task="other", queue="mail")
    given_up = Message(id="given-up", task="other", queue="mail", headers={"unknown-here": 120})
    killer = Message(id="killer", task="send", args='{"n": 1}', queue="mail", lost=MAX_LOST_RUNS)
    said: list[dict[str, Any]] = [
        {"timeout": "soon"},
        {"timeout": 0},
        {"max-attempts": 1.5},
        {"tags": "['x']"},
        {"tenant": 7},
        {"metadata": '{"a": ' + 60_000 * "["},
    ]
    wrong = [Message(id="w", task="send", queue="mail", headers=headers) for headers in said]
    await broker.publish([unfit, unread, unknown, given_up, killer, *wrong])
    async with app.worker(queues=["mail"]):
        found = await dead(broker, 13)
        send.enqueue(1)
        await ran.wait()
    assert sorted((each.id, each.cause.error_type) for each in found if each.task) == [
        ("given-up", "UnknownTask"), ("killer", "WorkerLost"), ("unfit", "InvalidArguments"),
        ("unread", "InvalidArguments"),
        *[("w", "Unreadable")] * 6,
    ]  # fmt: skip
    assert [each.cause.error_type for each in found if not each.task] == ["Unreadable"] * 3
    seen = [each.cause.error for each in found if each.id == "w"]
    for name, text in zip(map(next, map(iter, said)), seen, strict=True):
        assert f"its header {name!r} is" in text
        assert "publish it again" in text
    lines = [each.getMessage() for each in ours(caplog) if each.levelno == logging.ERROR]
    assert sum("no message of Mutirão" in line for line in lines) == 1
    assert sum("no such task here: other" in line for line in lines) == 1


async def test_stopping_gives_back(app: Mutirao, broker: MemoryTransport) -> None:
    """What runs may end; what is interrupted or has not started comes again, none the worse."""
    started, attempts = asyncio.Event(), list[tuple[int, int]]()
    release = asyncio.Event()

    @app.task(queue="mail")
    async def work(job: Job, n: int) -> None:
        attempts.append((n, job.attempt))
        started.set()
        await release.wait()

    await app.aenqueue_many(work.job(n) for n in range(6))
    async with app.worker(queues=["mail"], concurrency=2, grace=0):
        await started.wait()
    release.set()
    before = len(attempts)
    async with app.worker(queues=["mail"]):
        await until(lambda: len(attempts) == before + 6)
    assert {attempt for _, attempt in attempts} == {1}
    assert await broker.dead("mail", 10) == []


async def test_a_connection_that_breaks(app: Mutirao, broker: MemoryTransport) -> None:
    """The attempt is given up, and the message comes again: to one that is connected again."""
    started, ran = asyncio.Event(), list[str]()

    @app.task(queue="mail")
    async def work() -> None:
        started.set()
        try:
            await asyncio.sleep(0 if ran else 3600)
            ran.append("ended")
        except asyncio.CancelledError:
            ran.append("given up")
            raise

    async with app.worker(queues=["mail"]) as worker:
        work.enqueue()
        await started.wait()
        broker.lose_consumers()
        await until(lambda: ran == ["given up", "ended"])
        assert worker.health().alive
    assert await broker.dead("mail", 10) == []


async def test_an_outage_is_told_once(
    app: Mutirao,
    broker: MemoryTransport,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though its failures say now this and now that."""
    app.task(queue="mail", name="send")(lambda: None)
    failures = iter(["", *["refused", "reset"] * 3])
    consumer = broker.consumer

    def failing(queue: str, prefetch: int, on_lost: OnLost, *, grace: float) -> Any:
        if text := next(failures, None):
            raise TransportUnavailable(text)
        return consumer(queue, prefetch, on_lost, grace=grace)

    monkeypatch.setattr(broker, "consumer", failing)
    async with app.worker(queues=["mail"]):
        await until(lambda: broker._queues["mail"].consumers)
        broker.lose_consumers()
        await until(lambda: "consuming queue 'mail' again" in caplog.text)
    for text in ("refused", "reset"):
        assert caplog.text.count(f"cannot consume queue 'mail': {text}") == 1


async def test_the_prefetch_follows_what_is_measured(
    app: Mutirao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows by steps once handlers have turned out to be short, and not before."""
    sizes: list[int] = []
    may_end, resize = asyncio.Event(), memory._Consumer.resize
    started = 0

    async def noting(self: memory._Consumer, prefetch: int) -> None:
        sizes.append(prefetch)
        await resize(self, prefetch)

    monkeypatch.setattr(memory._Consumer, "resize", noting)

    @app.task(queue="mail")
    async def work() -> None:
        nonlocal started
        started += 1
        await may_end.wait()

    def grown() -> bool:
        app.enqueue_many(work.job() for _ in range(10))
        return bool(sizes) and sizes[-1] > 500

    async with app.worker(queues=["mail"], concurrency=2):
        app.enqueue_many(work.job() for _ in range(10))
        await until(lambda: started == 2)
        assert not sizes
        may_end.set()
        await until(grown)
    assert all(after <= 4 * before for before, after in pairwise([2, *sizes]))


async def test_what_cannot_be_settled_is_told_once(
    app: Mutirao, broker: MemoryTransport, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it is tried; and that it is settled."""
    caplog.set_level(logging.DEBUG, "mutirao")
    started, release = asyncio.Event(), asyncio.Event()

    @app.task(queue="mail")
    async def work() -> None:
        started.set()
        await release.wait()

    def told(what: str) -> list[int]:
        return [each.levelno for each in caplog.records if what in each.getMessage()]

    async with app.worker(queues=["mail"]):
        await work.aenqueue()
        await started.wait()
        broker.available = False
        release.set()
        await until(lambda: len(told("cannot settle 1 jobs")) >= 3)
        broker.available = True
        await until(lambda: told("jobs are settled now"))
    assert [each for each in told("cannot settle") if each > logging.DEBUG] == [logging.WARNING]


async def test_in_a_process_of_its_own(
    broker: MemoryTransport, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A child knows the job by its id, for which JSON has no number; a silent one is killed."""
    app = Mutirao(transports={"default": broker})
    await broker.declare(["default"])
    values, said = tmp_path / "told", tmp_path / "said"
    for task in (children.tell, children.mumble):
        app.register(task)
    jobs = [children.tell.job(str(values)), children.mumble.job(str(said))]
    async with app.worker(queues=["default"]):
        id, _ = await app.aenqueue_many(jobs)
        await until(lambda: values.exists() and values.read_text())
        assert values.read_text().startswith(f"{id} 1 ")
        await until(lambda: "AttemptStalled" in caplog.text)
    assert said.read_text() == "1" * children.SIGNS


async def test_a_timeout(app: Mutirao, broker: MemoryTransport) -> None:
    """Of a call; it is an attempt like any other."""

    @app.task(queue="mail", max_attempts=1)
    async def work() -> None:
        await asyncio.sleep(3600)

    async with app.worker(queues=["mail"]):
        work.using(timeout=0.05).enqueue()
        (found,) = await dead(broker)
    assert found.cause.error_type == "AttemptTimeout"


async def test_a_coroutine_that_blocks_the_event_loop(broker: MemoryTransport) -> None:
    """Is watched from another thread, without a database as well: a broker sees no difference."""
    app = Mutirao(transports={"mail": broker})
    worker = app.worker(queues=["mail"], heartbeat=0.05, exit_when_stuck=0.1)

    @app.task(queue="mail", stall_timeout=0.1, max_attempts=1)
    async def work() -> None:
        wait_until(lambda: not worker.health().alive)

    with pytest.raises(WorkerStuck, match="blocked the event loop"):  # noqa: PT012 (the end does)
        async with worker:
            await work.aenqueue()
            await soon(worker.failed)


async def test_no_database_is_needed(broker: MemoryTransport) -> None:
    """By a worker of such queues only."""
    app = Mutirao("postgresql+psycopg://nobody@127.0.0.1:1/none", transports={"mail": broker})
    ran = asyncio.Event()

    @app.task(queue="mail")
    async def work() -> None:
        ran.set()

    async with app.worker(queues=["mail"]):
        await work.aenqueue()
        await ran.wait()


async def test_doctor(app: Mutirao, broker: MemoryTransport) -> None:
    """It names what is missing at a broker, one that is away, and a queue that no task has."""
    app.task(queue="mail")(test_doctor)

    async def found() -> list[Finding]:
        return [each for each in await app.aexamine() if each.about == "transports"]

    (fine,) = await found()
    assert (fine.level, fine.advice) == (Level.OK, None)
    app.transports = {**app.transports, "vidoe": broker}
    unused, missing = await found()
    assert "no task of this application is in queue 'vidoe'" in unused.found
    assert "'vidoe' is missing" in missing.found
    assert missing.advice == "mutirao transports declare"
    app.transports |= {f"q{n}": broker for n in range(3)}
    assert "4 things that its queues need are missing" in (await found())[-1].found
    broker.available = False
    assert "away" in (await found())[-1].found


async def test_a_broker_as_many_transports(app: Mutirao, broker: MemoryTransport) -> None:
    """It is a problem or well, not both, and what all of them lack is told once."""
    others = {f"q{n}": MemoryTransport() for n in range(4)}
    for each in others:
        app.task(queue=each, name=each)(lambda: None)
    app.task(queue="mail", name="mail")(lambda: None)
    app.transports = {"mail": broker, **others}
    found = [each for each in await app.aexamine() if each.about == "transports"]
    assert [each.level for each in found] == [Level.PROBLEM]
    assert "4 things that its queues need are missing" in found[0].found


async def test_a_worker_of_some_tasks(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """It leaves a queue to others that has a task it does not serve, and says so."""
    app.task(queue="mail", name="one")(lambda: None)
    app.task(queue="mail", name="two")(lambda: None)
    app.task(name="elsewhere")(lambda: None)
    for tasks, serves in ((["elsewhere"], False), (["one"], False), (["one", "two"], True)):
        async with app.worker(tasks=tasks) as worker:
            assert ("queue mail" in worker.health().ages) is serves
    assert [each for each in caplog.messages if "queue mail is left to other workers" in each] == [
        "queue mail is left to other workers: a broker hands out whatever comes, and two would not"
        " be served; serve all of its tasks, or give those that are served elsewhere a queue of"
        " their own"
    ]
    for tasks, why in ((["one"], "two would not be served"), (["elsewhere"], "one, two would")):
        with pytest.raises(ConfigurationError, match=f"queue 'mail' cannot be served.*{why}"):
            await app.worker(queues=["mail"], tasks=tasks).__aenter__()


async def test_it_tells_that_it_consumes(
    app: Mutirao, broker: MemoryTransport, caplog: pytest.LogCaptureFixture
) -> None:
    """Once it does, not before: first the broker is away."""
    app.task(queue="mail", name="one")(lambda: None)

    def told(text: str) -> list[str]:
        return [each for each in caplog.messages if text in each]

    broker.available = False
    with caplog.at_level(logging.INFO, "mutirao"):
        async with app.worker(queues=["mail"]):
            await until(lambda: told("cannot consume queue"))
            assert told("consuming queue") == []
            broker.available = True
            await until(lambda: told("consuming queue"))
    assert told("consuming queue") == ["consuming queue mail of memory"]


async def test_captured(app: Mutirao, broker: MemoryTransport) -> None:
    """In a test of an application nothing is sent, and jobs run like others."""
    ran: list[int] = []

    @app.task(queue="mail")
    async def work(n: int) -> None:
        ran.append(n)

    with capture(app) as jobs:
        await work.aenqueue(7)
        jobs.assert_enqueued(work, n=7)
        await asyncio.to_thread(drain, app)
    assert ran == [7]
    assert await broker.drop_dead("mail", None) == 0
