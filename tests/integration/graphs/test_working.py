"""Graphs and workers: nobody polls, and every way of ending a step lets the next one go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mutirao import (
    PREVIOUS,
    Dead,
    Graph,
    GraphState,
    Job,
    JobState,
    Limit,
    Mutirao,
    chain,
    group,
    step,
)
from tests.integration.worker.kit import ended, never_polling, outcomes, until_state
from tests.support.waiting import DEADLINE, soon, until

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance")


async def test_a_long_chain_waits_for_no_poll(app: Mutirao) -> None:
    """Each step begins as soon as the one before has ended."""

    @app.task
    async def add(n: int = 0) -> int:
        return n + 1

    handle = await app.aenqueue_graph(chain(add.job(0), *(add.job(PREVIOUS) for _ in range(30))))
    async with never_polling(app):
        await soon(ended(app, handle.jobs[-1].id))
    assert (await app.ajob(handle.jobs[-1].id)).attempts[0].outcome == "succeeded"
    record = await app.agraph(handle.id)
    assert (record.state, record.succeeded) == (GraphState.SUCCEEDED, 31)


async def test_a_busy_worker_does_not_wait_either(app: Mutirao) -> None:
    """Though it has claimed later jobs of the same lane meanwhile."""

    @app.task
    async def quick() -> None:
        pass

    many = [quick.job() for _ in range(2_000)]
    await app.aenqueue_many(many[:1_000])
    handle = await app.aenqueue_graph(chain(*(quick.job() for _ in range(5))))
    await app.aenqueue_many(many[1_000:])
    async with never_polling(app):
        await soon(ended(app, handle.jobs[-1].id))


async def test_limited_steps_wait_for_no_poll(app: Mutirao) -> None:
    """Neither for the room that one of them leaves, nor for the last one of the group."""
    running, most = 0, 0

    @app.task(limit=Limit(2, by="tenant"))
    async def call(tenant: str, n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return n

    @app.task(keep_result=True)
    async def add(numbers: list[int]) -> int:
        return sum(numbers)

    composed = chain(group(call.job("a", n) for n in range(10)), add.job(PREVIOUS))
    async with never_polling(app):
        handle = await app.aenqueue_graph(composed)
        assert await handle.jobs[-1].aresult(timeout=DEADLINE) == 45
    assert most <= 2


async def test_an_idle_worker_of_another_queue_is_woken(app: Mutirao) -> None:
    """The one that settles serves another queue, and does not take what it released."""

    @app.task(queue="first")
    async def begin() -> None:
        pass

    @app.task(queue="second")
    async def end() -> None:
        pass

    async with never_polling(app, queues=["first"]), never_polling(app, queues=["second"]):

        async def both_listen() -> bool:
            workers = await app.store.workers()
            return [worker.listening for worker in workers] == [True, True]

        for _ in range(5):
            await until(both_listen)
            handle = await app.aenqueue_graph(chain(begin.job(), end.job()))
            await soon(ended(app, handle.jobs[1].id))


async def test_a_transaction_lets_the_next_go(app: Mutirao) -> None:
    """In the commit that completes the step, with the result given inside."""

    @app.task
    async def begin(job: Job) -> int:
        async with job.transaction():
            job.returns(41)
        return 0

    @app.task
    def end(job: Job, n: int) -> None:
        with job.transaction():
            assert n == 41

    handle = await app.aenqueue_graph(chain(begin.job(), end.job(PREVIOUS)))
    async with never_polling(app):
        done = await soon(ended(app, handle.jobs[1].id))
    assert (done.state, outcomes(done)) == (JobState.SUCCEEDED, ["succeeded"])


async def test_a_transaction_without_its_result(app: Mutirao) -> None:
    """Nothing is committed, and the error says what to call."""

    @app.task(keep_result=True, max_attempts=1)
    async def begin(job: Job) -> int:
        async with job.transaction():
            pass
        return 1

    handle = await begin.aenqueue()
    async with never_polling(app):
        done = await ended(app, handle.id)
    assert (done.state, done.error_type) == (JobState.DEAD, "WrongState")
    assert "give it inside: job.returns(…)" in (done.error or "")


async def test_stop_and_go_on(app: Mutirao) -> None:
    """A step dies, what follows is blocked; redriven, it brings the graph to its end."""
    broken = [True]

    @app.task(max_attempts=1)
    async def fetch(n: int) -> int:
        if n == 2 and broken[0]:
            raise ValueError("no such page")
        return n

    @app.task(keep_result=True)
    async def count(pages: list[int]) -> int:
        return len(pages)

    handle = await app.aenqueue_graph(
        chain(group(step(fetch.job(n), stage="fetch") for n in range(4)), count.job(PREVIOUS))
    )
    async with never_polling(app):
        await until_state(app, handle.jobs[2].id, JobState.DEAD)

        async def stopped() -> bool:
            return (await app.agraph(handle.id)).state is GraphState.STOPPED

        await until(stopped)
        assert (await app.agraph(handle.id)).stage == "fetch"
        broken[0] = False
        assert len(await app.aredrive(handle.jobs[2].id)) == 1
        assert await handle.jobs[4].aresult(timeout=DEADLINE) == 4


async def test_compensating(app: Mutirao) -> None:
    """What was done is undone in reverse order, with what the steps returned."""
    log: list[Any] = []

    @app.task
    async def book(what: str) -> str:
        log.append(what)
        if what == "car":
            raise Dead("sold out")
        return f"{what}-7"

    @app.task
    async def release(booking: str) -> None:
        log.append(f"release {booking}")

    trip = Graph("trip", on_dead="compensate")
    before: list[Any] = []
    for what in ("flight", "hotel", "car", "museum"):
        before = [trip.add(book.job(what), before, compensate=release.job(PREVIOUS))]
    handle = await app.aenqueue_graph(trip)
    async with never_polling(app):
        await until(lambda: len(log) == 5)

        async def over() -> bool:
            return (await app.agraph(handle.id)).state is GraphState.DEAD

        await until(over)
    assert log == ["flight", "hotel", "car", "release hotel-7", "release flight-7"]


async def test_cancelling_a_graph_that_runs(app: Mutirao) -> None:
    """The running step is told, and nothing follows it."""
    began = asyncio.Event()

    @app.task
    async def hang() -> None:
        began.set()
        await asyncio.Event().wait()

    handle = await app.aenqueue_graph(chain(hang.job(), hang.job()))
    async with never_polling(app, heartbeat=0.2, expiry=60):
        await began.wait()
        ids = [job.id for job in handle.jobs]
        assert sorted(await app.acancel_graph(handle.id)) == ids
        await until_state(app, handle.id, JobState.CANCELLED)
    assert (await app.agraph(handle.id)).state is GraphState.CANCELLED


async def test_plain_functions(app: Mutirao) -> None:
    """Results of functions in threads are kept, too."""

    @app.task(keep_result=True)
    def add(numbers: list[int]) -> int:
        return sum(numbers)

    handle = await add.aenqueue([1, 2])
    async with never_polling(app):
        assert await handle.aresult(timeout=DEADLINE) == 3
