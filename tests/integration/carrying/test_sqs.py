"""A worker on queues of SQS: its faults, work that takes long, and stopping."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from mutirao import Job, Mutirao, Retry, Snooze, Work
from mutirao.model.brokers.message import Message, Mode
from mutirao.transports.sqs import SQS
from tests.support.engine import Service
from tests.support.sqs_faults import FakeSqs
from tests.support.sqs_world import VISIBILITY, World
from tests.support.waiting import DEADLINE, soon, until

QUEUES = ["mail", "video"]
ASKED_TO_STOP = "SQS answers the last request"
Lines = Callable[[], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    """Return the lines of the log so far."""
    with caplog.at_level(logging.INFO, "mutirao"):
        yield lambda: caplog.messages


@pytest.mark.parametrize("code", ["AWS.SimpleQueueService.NonExistentQueue", "AccessDenied"])
async def test_trouble_of_one_queue(
    code: str, lite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once with what to do, others go on, and it goes on once it is mended."""
    broker = FakeSqs()
    sqs = SQS(clients=lambda: (broker, broker), wait=1)
    await sqs.declare(QUEUES)
    app = Mutirao(lite_url, transports={"mail": sqs, "video": sqs})
    ran: list[str] = []
    tasks = {
        queue: app.task(queue=queue, name=queue)(lambda queue: ran.append(queue))
        for queue in QUEUES
    }
    broker.refused["video"] = code

    def told() -> list[str]:
        return [each for each in caplog.messages if "cannot consume queue 'video'" in each]

    with caplog.at_level(logging.INFO, "mutirao"):
        async with app.worker(queues=QUEUES) as worker:
            await until(told)
            await tasks["mail"].aenqueue("mail")
            await until(lambda: ran == ["mail"])
            tries = broker.requests["receive_message"]
            await until(lambda: broker.requests["receive_message"] > tries + 3)
            assert worker.health().alive
            broker.refused.clear()
            await tasks["video"].aenqueue("video")
            await until(lambda: ran == ["mail", "video"])
    assert len(told()) == 1
    assert ("transports declare" if "Queue" in code else "policy") in told()[0]
    app.close()


@pytest.mark.parametrize("mode", ["alone", "carried"])
async def test_a_queue_that_is_refused_later(lite_url: str, mode: Mode) -> None:
    """Health tells what is to be mended until it is; what only passes is not for people."""
    broker = FakeSqs()
    sqs = SQS(clients=lambda: (broker, broker), wait=1, mode=mode)
    await sqs.declare(QUEUES)
    app = Mutirao(lite_url, transports={"mail": sqs, "video": sqs})
    for queue in QUEUES:
        app.task(queue=queue, name=queue)(lambda: None)
    async with app.worker(queues=QUEUES) as worker:
        await until(lambda: broker.requests["receive_message"] > 5)
        for code, told in (("RequestThrottled", 0), ("AccessDenied", 1)):
            broker.refused["video"], tries = code, broker.refusals
            await until(lambda: broker.refusals > tries + 2)  # noqa: B023 (called here)
            assert len(worker.health().unmended) == told
        assert worker.health().alive
        assert "'video'" in worker.health().unmended[0]
        assert "policy" in worker.health().unmended[0]
        broker.refused.clear()
        await until(lambda: not worker.health().unmended)
    app.close()


async def test_work_that_runs_elsewhere(lite_url: str) -> None:
    """Its probe is asked, and its message stays ours meanwhile; if it is silent, it is cut."""
    world = World()
    await world.transport.declare(["q"])
    app = Mutirao(lite_url, transports={"q": world.transport})
    asked, ended = list[int](), asyncio.Event()

    @app.task(queue="q", retry=Retry.fixed(2, interval=0), stall_timeout=0.2)
    async def encode(job: Job) -> int:
        return job.attempt

    @encode.probe(every=0.01)
    async def encoding(job: Job, started: int) -> Work:
        asked.append(started)
        if started == 1:
            raise OSError("nobody knows")
        return Work.DONE if ended.is_set() else Work.RUNNING

    async with app.worker(queues=["q"]):
        await encode.aenqueue()
        await until(lambda: 2 in asked)
        for _ in range(3):
            world.wait(VISIBILITY * 2 / 3)
            world.beat()
            assert world.visible_in() == [VISIBILITY]
        ended.set()
        await until(lambda: world.visible_in() == [])
    app.close()


async def test_a_task_that_a_worker_does_not_have(lite_url: str) -> None:
    """Whoever has it runs it as if nobody had met it before."""
    world = World()
    await world.transport.declare(["q"])
    old, new = (Mutirao(lite_url, transports={"q": world.transport}) for _ in range(2))
    old.task(queue="q", name="old")(lambda: None)
    attempts: list[int] = []

    @new.task(queue="q", max_attempts=1)
    async def encode(job: Job) -> None:
        attempts.append(job.attempt)

    async with old.worker(queues=["q"]):
        await encode.aenqueue()
        await until(lambda: world.broker.requests["delete_message_batch"] == 1)
        world.wait(5)
        await until(lambda: world.broker.requests["delete_message_batch"] == 2)
    world.wait(5)
    async with new.worker(queues=["q"]):
        await until(lambda: attempts == [1])
    for each in (old, new):
        each.close()


@pytest.mark.parametrize("fifo", [False, True])
async def test_what_a_stopping_worker_gives_back(lite_url: str, fifo: bool) -> None:
    """It has used no attempt, although it began; but in a group, which keeps its order."""
    world = World(fifo=fifo)
    await world.transport.declare(["q"])
    app = Mutirao(lite_url, transports={"q": world.transport})
    began, attempts = asyncio.Event(), list[int]()

    @app.task(queue="q")
    async def encode(job: Job) -> None:
        attempts.append(job.attempt)
        if not began.is_set():
            began.set()
            await asyncio.Event().wait()

    await encode.aenqueue()
    async with app.worker(queues=["q"], grace=0.0):
        await began.wait()
    assert len(world.broker.waiting(world.name)) == 1
    async with app.worker(queues=["q"]):
        await until(lambda: len(attempts) == 2)
    assert attempts[0] == 1
    assert (attempts[1] > 1) is fifo  # also more, if the last request has received it again
    app.close()


async def test_what_waits_behind_one_that_fails(lite_url: str) -> None:
    """In a group each hand-out is an attempt: what is behind is not handed out meanwhile."""
    world = World(fifo=True)
    await world.transport.declare(["q"])
    app = Mutirao(lite_url, transports={"q": world.transport})
    tried, began = list[int](), list[int]()

    @app.task(queue="q", retry=Retry.fixed(5, interval=0))
    async def first(job: Job) -> None:
        tried.append(job.attempt)
        if job.attempt < 3:
            raise OSError("not yet")

    @app.task(queue="q", max_attempts=1)
    async def second(job: Job) -> None:
        began.append(job.attempt)

    calls = [each.using(group="a").job() for each in (first, second)]
    await app.aenqueue_many(calls)
    async with app.worker(queues=["q"]):
        await until(lambda: world.visible_in() == [])
    assert (tried, began) == ([1, 2, 3], [1])
    app.close()


async def test_what_counts_in_a_group(lite_url: str) -> None:
    """A snooze too, and a worker without the task: SQS cannot be told that they do not."""
    world = World(fifo=True)
    await world.transport.declare(["q"])
    old, new = (Mutirao(lite_url, transports={"q": world.transport}) for _ in range(2))
    old.task(queue="q", name="old")(lambda: None)
    attempts: list[int] = []

    @new.task(queue="q", max_attempts=3)
    async def encode(job: Job) -> None:
        attempts.append(job.attempt)
        if len(attempts) == 1:
            raise Snooze(1)

    async with old.worker(queues=["q"]):
        await encode.aenqueue()
        await until(lambda: world.broker.requests["change_message_visibility_batch"] == 1)
    world.wait(5)
    async with new.worker(queues=["q"]):
        await until(lambda: world.visible_in() == [1.0])
        world.wait(1)
        await until(lambda: world.visible_in() == [])
    assert attempts == [2, 3]
    for each in (old, new):
        each.close()


@pytest.mark.parametrize("plain", [True, False])
async def test_a_message_that_is_lost(lite_url: str, plain: bool) -> None:
    """A coroutine is cancelled, a thread is told, and nothing is deleted."""
    world = World()
    await world.transport.declare(["q"])
    app = Mutirao(lite_url, transports={"q": world.transport})
    began, told = threading.Event(), threading.Event()

    def work(job: Job) -> None:
        began.set()
        while not job.cancelled:
            pass
        told.set()

    async def work_in_the_loop() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    decorator = app.task(queue="q", name="work")
    task = decorator(work) if plain else decorator(work_in_the_loop)
    async with app.worker(queues=["q"]):
        await task.aenqueue()
        await until(began.is_set)
        world.broker.steal("q")
        world.wait(VISIBILITY * 2 / 3)
        world.beat()
        await until(told.is_set)
    assert world.broker.requests["delete_message_batch"] == 0
    assert world.visible_in() == [10]  # as somebody else has it
    app.close()


@pytest.mark.parametrize("mode", ["alone", "carried"])
async def test_stopping(lite_url: str, lines: Lines, mode: Mode) -> None:
    """The last answer is waited for, within the grace, and what it brings is visible at once.

    Where it is a job it was sent anew, so that its attempt is not counted.
    """
    broker = FakeSqs(long_poll=DEADLINE)
    sqs = SQS(clients=lambda: (broker, broker), mode=mode)
    await sqs.declare(["video"])
    app = Mutirao(lite_url, transports={"video": sqs})
    kept = broker.queues["video"].messages
    started, release = asyncio.Event(), asyncio.Event()

    @app.task(queue="video")
    async def encode() -> None:
        started.set()
        await release.wait()

    async def bring_another() -> None:
        await until(lambda: any(ASKED_TO_STOP in line for line in lines()))
        release.set()
        await until(lambda: not kept)  # what was done is deleted while the answer is outstanding
        await sqs.publish([Message(id="another", task="encode", queue="video")])

    async with app.worker(queues=["video"], grace=8):
        await encode.aenqueue()
        await soon(started.wait())
        await until(lambda: broker.waits[-1] == 7)
        bringing = asyncio.create_task(bring_another())
    await bringing
    [another] = kept
    assert broker.waiting("video") == [another.body]
    assert another.receives == (1 if mode == "carried" else 0)
    app.close()


async def test_stopping_in_a_hurry(lite_url: str, lines: Lines) -> None:
    """Nobody waits for the last answer then."""
    broker = FakeSqs(long_poll=DEADLINE)
    sqs = SQS(clients=lambda: (broker, broker))
    await sqs.declare(["video"])
    app = Mutirao(lite_url, transports={"video": sqs})
    app.task(queue="video", name="encode")(lambda: None)

    async def hurry(serving: Service | None) -> None:
        assert serving is not None
        await until(lambda: any(ASKED_TO_STOP in line for line in lines()))
        serving.end_grace()

    async with app.worker(queues=["video"]) as worker:
        await until(lambda: broker.waits[-1:] == [20])
        hurrying = asyncio.create_task(hurry(worker._worker))
    await hurrying
    assert "1 queues did not end; what they held comes again" in lines()
    broker.away = True  # which ends what is under way
    await until(lambda: not any("sqs-video" in each.name for each in threading.enumerate()))
    app.close()
