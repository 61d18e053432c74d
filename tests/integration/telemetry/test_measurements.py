"""What a worker reports to those who measure it agrees with what the database says."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mutirao import Job, Mutirao, Retry
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import ConfigurationError
from mutirao.ports.measurements import EndedAttempt, MeasuredWorker
from mutirao.transports.memory import MemoryTransport
from tests.integration.worker.kit import ended, working
from tests.support.engine import Housekeeping, Listeners
from tests.support.waiting import until


class Recorder:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.workers: list[MeasuredWorker] = []
        self.gone: list[MeasuredWorker] = []
        self.claims: list[int] = []
        self.settlements: list[int] = []
        self.attempts: list[EndedAttempt] = []
        self.dropped = self.saved = 0

    def begin(self, worker: MeasuredWorker) -> None:
        """Keep it."""
        self.workers.append(worker)

    def end(self, worker: MeasuredWorker) -> None:
        """Keep it."""
        self.gone.append(worker)

    def claimed(self, jobs: int, seconds: float) -> None:
        """Keep it."""
        assert seconds >= 0
        self.claims.append(jobs)

    def settled(self, jobs: int, seconds: float) -> None:
        """Keep it."""
        assert seconds >= 0
        self.settlements.append(jobs)

    def ended(self, attempts: Sequence[EndedAttempt]) -> None:
        """Keep it."""
        self.attempts += attempts

    def fenced(self, jobs: int) -> None:
        """Count it."""
        self.dropped += jobs

    def rescued(self, jobs: int) -> None:
        """Count it."""
        self.saved += jobs


class Broken(Recorder):
    """A listener that fails whenever it is told anything but the start."""

    def claimed(self, jobs: int, seconds: float) -> None:
        """Fail."""
        raise RuntimeError("the collector is away")

    settled = claimed

    def ended(self, attempts: Sequence[EndedAttempt]) -> None:
        """Fail."""
        raise RuntimeError("the collector is away")

    def end(self, worker: MeasuredWorker) -> None:
        """Fail."""
        raise RuntimeError("the collector is away")


@pytest.fixture
def url(pg_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return pg_url


async def test_each_attempt_comes_once(app: Mutirao) -> None:
    """Of coroutines, threads and own transactions; first tries and retries, and deaths."""
    recorder = Recorder()
    app.measure(recorder)

    @app.task(queue="mail")
    async def send(number: int) -> None:
        pass

    @app.task
    def resize(number: int) -> None:
        pass

    @app.task(retry=Retry.fixed(2, interval=0.05))
    async def fails() -> None:
        raise ValueError("no")

    @app.task
    async def books(job: Job) -> None:
        async with job.transaction():
            pass

    jobs = [each.job(number) for number in range(20) for each in (send, resize)]
    ids = await app.aenqueue_many([*jobs, fails.job(), books.job()])
    async with working(app) as worker:
        for id in ids:
            await ended(app, id)
        await until(lambda: len(recorder.attempts) == 43)
        [measured] = recorder.workers
        load, told = measured.load(), measured.condition()
        assert (load.slots, load.running, load.waiting, load.stuck) == (20, 0, 0, 0)
        assert load.beat_age is not None
        assert 0 <= load.beat_age < 60
        assert (told.live, told.ready, told.reason) == (True, True, None)
        assert worker.health().alive
    seen = Counter((each.queue, each.task, str(each.outcome)) for each in recorder.attempts)
    assert seen == {
        ("mail", "send", "succeeded"): 20,
        ("default", "resize", "succeeded"): 20,
        ("default", "fails", "retried"): 1,
        ("default", "fails", "dead"): 1,
        ("default", "books", "succeeded"): 1,
    }
    assert sum(recorder.claims) == 43
    assert sum(recorder.settlements) == 42
    assert [each.attempt for each in recorder.attempts if each.task == "fails"] == [1, 2]
    assert {each.error_type for each in recorder.attempts if each.task == "fails"} == {"ValueError"}
    assert all(0 <= each.wait < 100 and 0 <= each.seconds < 100 for each in recorder.attempts)
    queues, tasks = measured.served
    assert list(queues) == ["default", "mail"]
    assert ("mail", "send") in tasks
    assert len(tasks) == 4
    assert recorder.gone == [measured]
    stopped = measured.condition()
    assert stopped.live
    assert not stopped.ready
    assert stopped.reason == "it has been stopped"


async def test_a_wait_is_counted_from_when_a_job_is_due(app: Mutirao) -> None:
    """Not from when it was enqueued: the delay was asked for."""
    recorder = Recorder()
    app.measure(recorder)

    @app.task
    async def send() -> None:
        pass

    job = await send.using(delay=0.5).aenqueue()
    async with working(app):
        await ended(app, job.id)
        await until(lambda: recorder.attempts)
    record = await app.ajob(job.id)
    [attempt], [wrote] = recorder.attempts, record.attempts
    assert wrote.started_at is not None
    waited = (wrote.started_at - record.run_at).total_seconds()
    assert attempt.wait == pytest.approx(max(0.0, waited), abs=0.25)


async def test_what_is_fenced_off_is_no_attempt(app: Mutirao) -> None:
    """Its outcome is not written, and those who have the job now report theirs."""
    recorder = Recorder()
    app.measure(recorder)

    @app.task
    async def slow(job: Job) -> None:
        if job.run == 1:  # it is taken from this worker meanwhile
            await app.store.release([(job.id, job.run)])
        else:  # both in one batch would be told apart by nobody
            await until(lambda: recorder.dropped)

    job = await slow.aenqueue()
    async with working(app):
        await ended(app, job.id)
        await until(lambda: recorder.attempts and recorder.dropped)
    assert recorder.dropped == 1
    assert len(recorder.attempts) == 1


async def test_a_listener_that_raises_ends_nothing(
    app: Mutirao, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, not for each job, and the others are told."""
    recorder = Recorder()
    app.measure(Broken())
    app.measure(recorder)

    @app.task
    async def send() -> None:
        pass

    ids = await app.aenqueue_many([send.job() for _ in range(5)])
    async with working(app) as worker:
        for id in ids:
            await ended(app, id)
        await until(lambda: len(recorder.attempts) == 5)
        assert worker.health().alive
    failed = [each for each in caplog.records if "listener of measurements" in each.message]
    assert len(failed) == 1
    assert "the collector is away" in str(failed[0].exc_info)


async def test_who_cannot_be_measured_does_not_start(app: Mutirao) -> None:
    """The listeners that have begun are told that it has ended."""
    recorder = Recorder()

    class Refuses(Recorder):
        def begin(self, worker: MeasuredWorker) -> None:
            raise ConfigurationError("the port is taken")

    app.measure(recorder)
    app.measure(Refuses())
    with pytest.raises(ConfigurationError, match="the port is taken"):
        async with working(app):
            pass
    assert recorder.gone == recorder.workers
    assert len(recorder.gone) == 1


async def test_a_queue_by_broker_alone(lite_url: str) -> None:
    """Its attempts are reported once the broker has their outcome; and it has no heartbeat."""
    recorder = Recorder()
    broker = MemoryTransport()
    await broker.declare(["mail"])
    app = Mutirao(lite_url, transports={"mail": broker})
    app.measure(recorder)

    @app.task(queue="mail", retry=Retry.fixed(2, interval=0.05))
    async def send(number: int) -> None:
        if not number:
            raise ValueError("no")

    await app.aenqueue_many(send.job(number) for number in range(10))
    async with working(app, queues=["mail"]):
        await until(lambda: len(recorder.attempts) == 11)
        [measured] = recorder.workers
        assert measured.load().beat_age is None
        assert measured.condition().ready
    seen = Counter(str(each.outcome) for each in recorder.attempts)
    assert seen == {"succeeded": 9, "retried": 1, "dead": 1}
    assert sum(recorder.settlements) == 11
    await app.aclose()


async def test_several_databases(tmp_path: Path, migrated_file: Path) -> None:
    """One listener is told of all, once of the worker as a whole, and of the oldest heartbeat."""
    recorder = Recorder()
    urls = [f"sqlite:///{shutil.copy(migrated_file, tmp_path / name)}" for name in ("a.db", "b.db")]
    app = Mutirao(urls[0])
    app.databases(lambda: urls)
    app.measure(recorder)

    @app.task
    async def send() -> None:
        pass

    for url in urls:
        other = Mutirao(url)
        await other.store.aenqueue([send.job()], None)
        await other.aclose()
    async with working(app):
        await until(lambda: len(recorder.attempts) == 2)
        [measured] = recorder.workers
        assert measured.load().beat_age is not None
        assert measured.load().slots == 20
    assert recorder.gone == [measured]
    await app.aclose()


async def test_rescues_are_counted() -> None:
    """By the worker whose duty it was."""
    recorder = Recorder()

    class Store:
        async def rescue(self, **_: object) -> list[tuple[int, int]]:
            return [(1, 1), (2, 1)]

    store: Any = Store()
    house = Housekeeping(store, WorkerSettings(), lambda: True, Listeners([recorder]))
    await house.rescue()
    assert recorder.saved == 2
