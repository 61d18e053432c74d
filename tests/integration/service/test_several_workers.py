"""Equal workers on one database: each job goes to one of them, in the order of the lanes."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import pytest

from mutirao import Job, JobState, Mutirao
from tests.integration.service.kit import Tables, program, wait_for_all
from tests.integration.worker.kit import ended, until_state, working
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/concurrency.py"
)

MANY = 2_000


def test_each_job_runs_once(url: str) -> None:
    """Of 2,000, in three workers, each in a thread with a loop of its own."""
    tables = Tables(url)
    calls: Counter[int] = Counter()
    lock, gate = threading.Lock(), threading.Event()
    apps = [Mutirao(url) for _ in range(3)]

    async def step(job: Job) -> None:
        await until(gate.is_set)
        with lock:
            calls[job.id] += 1

    for app in apps:
        app.task(step)
    apps[0].enqueue_many([apps[0].task_named("step").job() for _ in range(MANY)])
    with ExitStack() as stack:
        for app in apps:
            stack.enter_context(working(app, concurrency=10))
        wait_until(lambda: tables.number_holding() == 3)
        gate.set()
        wait_for_all(tables, MANY)
    assert len(tables.workers_of_attempts()) == 3
    assert len(calls) == MANY
    assert set(calls.values()) == {1}
    for app in apps:
        app.close()


@pytest.mark.repeats(decided="tests/faults/chaos/test_chaos.py")
def test_each_job_runs_once_in_processes(pg_url: str, tmp_path: Path) -> None:
    """As above, in three processes."""
    tables = Tables(pg_url)
    app = Mutirao(pg_url)
    gate = tmp_path / "gate"

    @app.task
    def step(gate: str) -> None: ...

    app.enqueue_many([step.job(gate=str(gate)) for _ in range(MANY)])
    with ExitStack() as stack:
        workers = [stack.enter_context(program("works", pg_url)) for _ in range(3)]
        wait_until(lambda: tables.number_holding() == 3)
        gate.touch()
        wait_for_all(tables, MANY)
        for worker in workers:
            worker.terminate()
        assert [worker.wait(100) for worker in workers] == [0, 0, 0]
    assert len(tables.workers_of_attempts()) >= 3  # more where one was slow and taken for gone
    assert tables.outcomes() == {"succeeded"}
    app.close()


async def test_smaller_priorities_first(app: Mutirao) -> None:
    """Whatever the order in which jobs were enqueued, and in which queue; then the oldest first."""
    order: list[tuple[int, int]] = []

    @app.task
    async def note(job: Job) -> None:
        order.append((job.priority, job.id))

    wanted = [5, -5, 0, 32767, -32768, 0, 5, -5]
    jobs = [
        note.using(priority=priority, queue=f"queue-{n % 3}").job()
        for n, priority in enumerate(wanted)
    ]
    await app.aenqueue_many(jobs)
    async with working(app, concurrency=1):
        await until(lambda: len(order) == len(wanted))
    assert [priority for priority, _ in order] == sorted(wanted)


async def test_queues_of_equal_priority_take_turns(app: Mutirao) -> None:
    """A long queue does not keep the others waiting."""
    order: list[str] = []

    @app.task
    async def note(job: Job) -> None:
        order.append(job.queue)

    await app.aenqueue_many(
        [note.using(queue=queue).job() for queue in ("long", "short") for _ in range(30)]
    )
    async with working(app, concurrency=1, batch=2):
        await until(lambda: len(order) == 60)
    assert max(len(list(same)) for _, same in groupby(order)) <= 6


async def test_only_the_queues_it_was_given(app: Mutirao) -> None:
    """The jobs of others stay for others, whatever their priority."""

    @app.task
    async def note() -> None: ...

    async with working(app, queues=["mail", "slow"]) as _:
        other = (await note.using(queue="other", priority=-9).aenqueue()).id
        mine = [(await note.using(queue=queue).aenqueue()).id for queue in ("slow", "mail")]
        for id in mine:
            await ended(app, id)
        assert (await app.ajob(other)).state is JobState.READY
        async with working(app, queues=["other"]):
            await ended(app, other)


async def test_long_jobs_are_not_hoarded(app: Mutirao) -> None:
    """A worker that has slots for two takes no more than it can start soon."""
    running: set[int] = set()
    finish = asyncio.Event()

    @app.task
    async def long(job: Job) -> None:
        running.add(job.id)
        await finish.wait()

    @app.task
    async def short() -> None: ...

    async with working(app, concurrency=2, heartbeat=0.1):
        for _ in range(5):  # it has seen short ones, and would claim many of them
            await ended(app, (await short.aenqueue()).id)
        ids = await app.aenqueue_many([long.job() for _ in range(10)])
        await until(lambda: len(running) == 2)
        async with working(app, concurrency=8, heartbeat=0.1):
            await until(lambda: running == set(ids))
            finish.set()
            await until_all(app, ids)


async def until_all(app: Mutirao, ids: list[int]) -> None:
    """Wait until these jobs have succeeded."""
    for id in ids:
        await until_state(app, id, JobState.SUCCEEDED)


@pytest.mark.repeats("3", decided="tests/integration/service/test_several_workers.py")
@pytest.mark.parametrize("concurrency", [1, 3])
def test_behind_a_blocked_loop(url: str, concurrency: int) -> None:
    """A coroutine that never awaits holds the jobs up that wait behind it; others get them."""
    blocked, unblock, done = threading.Event(), threading.Event(), Counter[str]()
    apps = {"first": Mutirao(url), "second": Mutirao(url)}

    def tasks_of(name: str) -> None:
        @apps[name].task(name="block")
        async def block() -> None:
            blocked.set()
            assert unblock.wait(100)

        @apps[name].task(name="step")
        async def step() -> None:
            done[name] += 1

    for name in apps:
        tasks_of(name)
    first = apps["first"]
    jobs = [first.task_named(name).job() for name in ["block"] + ["step"] * (2 * concurrency)]
    first.enqueue_many(jobs)
    quick = {"heartbeat": 0.1, "expiry": 5.0, "concurrency": concurrency}
    with working(first, **quick):
        assert blocked.wait(100)
        with working(apps["second"], **quick):
            # Those that have a slot are not given back, though Python 3.11 has not begun them.
            wait_until(lambda: sum(done.values()) >= 2 * concurrency + 1 - concurrency)
            assert not unblock.is_set()
            unblock.set()
            wait_for_all(Tables(url), len(jobs))
    assert done["second"] > 0
    assert Tables(url).outcomes() == {"succeeded"}
    for app in apps.values():
        app.close()
