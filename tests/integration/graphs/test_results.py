"""Waiting for results, and what is seen of progress."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from mutirao import (
    Cancel,
    Dead,
    Handle,
    Job,
    JobCancelled,
    JobDied,
    JobState,
    Mutirao,
    ResultMissing,
    ResultTimeout,
)
from mutirao.client import results as endings
from mutirao.errors import InvalidResult, InvalidTask, UnknownJob, WrongState
from mutirao.model.jobs.job import Wake
from mutirao.model.jobs.records import Progress
from mutirao.tasks.handle import MAX_RESULT
from mutirao.testing import MemoryStore, drain
from tests.integration.graphs import shop
from tests.integration.worker.kit import ended, never_polling
from tests.support.engine import LoopHealth, ProgressWriter
from tests.support.waiting import DEADLINE, soon, until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/results.py"
)


@dataclass
class Page:
    """What a handler may return."""

    title: str
    words: int


async def test_a_result_is_told(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, by the notifier: nobody looks again meanwhile."""
    monkeypatch.setattr(endings, "CHECK_EVERY", 3_600.0)
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task(keep_result=True)
    async def read(title: str) -> Page:
        begun.set()
        await go.wait()
        return Page(title, len(title.split()))

    async with never_polling(app):
        handle = await read.aenqueue("a b c")
        await begun.wait()
        looks = counted(app, monkeypatch)
        waiting = asyncio.create_task(handle.aresult())
        await until(lambda: len(looks) >= 2)
        assert not waiting.done()
        go.set()
        assert await soon(waiting) == Page("a b c", 3)
        assert await handle.aresult(timeout=0.0) == Page("a b c", 3)


async def test_the_task_of_a_result(app: Mutirao) -> None:
    """It gives the result its type, and another one is refused."""

    @app.task(keep_result=True)
    def measure(path: str) -> int:
        return len(path)

    @app.task(keep_result=True)
    def other() -> str:
        return ""

    handle = await measure.aenqueue("a.png")
    await asyncio.to_thread(drain, app)
    assert await app.aresult(handle.id, of=measure) == 5
    with pytest.raises(WrongState, match=r"is of task .*measure, and not of .*other"):
        await app.aresult(handle.id, of=other)


def counted(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that grows with every look at the ends of jobs."""
    looks: list[Any] = []
    look = app.store.endings

    async def endings(jobs: Collection[int]) -> Any:
        looks.append(jobs)
        return await look(jobs)

    monkeypatch.setattr(app.store, "endings", endings)
    return looks


async def test_many_wait_by_one_listener(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many handles are waited for in a program."""
    monkeypatch.setattr(endings, "CHECK_EVERY", 3_600.0)
    listeners: list[None] = []
    there = app.store.ends_notifier()  # type: ignore[attr-defined]
    assert there is not None
    listen = there.listen

    class Counting:
        async def listen(self) -> AsyncIterator[Wake]:
            listeners.append(None)
            async for wake in listen():
                yield wake

    monkeypatch.setattr(app._endings, "_notifier", Counting())
    go = asyncio.Event()

    @app.task(keep_result=60)
    async def double(n: int) -> int:
        await go.wait()
        return 2 * n

    handles = [await double.aenqueue(n) for n in range(40)]
    waiting = [asyncio.create_task(handle.aresult()) for handle in handles]
    async with never_polling(app, concurrency=40):
        await until(lambda: listeners)
        go.set()
        found = await soon(asyncio.gather(*waiting))
    assert found == [2 * n for n in range(40)]
    assert len(listeners) == 1


def test_plain_callers_wait_too(app: Mutirao) -> None:
    """With a worker in a thread of this program, or of any other."""

    @app.task(keep_result=timedelta(hours=1))
    def double(n: int) -> int:
        return 2 * n

    with app.worker(poll=3_600.0):
        assert [double.enqueue(n).result(timeout=DEADLINE) for n in range(5)] == [0, 2, 4, 6, 8]
    handle = double.enqueue(7)
    with pytest.raises(ResultTimeout, match=f"job {handle.id} has not finished within 0.1 s"):
        handle.result(timeout=0.1)
    drain(app)
    assert app.result(handle.id) == 14


async def test_what_ended_otherwise(app: Mutirao) -> None:
    """Who waits is told at once, and why there is no result."""

    @app.task(keep_result=True)
    async def fail(error: str) -> None:
        raise Dead("no such page") if error == "dead" else Cancel("not wanted")

    async def waits() -> None:
        pass

    plain = app.task(waits)
    async with never_polling(app):
        with pytest.raises(JobDied, match=r"is dead; redrive it .*Dead: no such page") as died:
            await (await fail.aenqueue("dead")).aresult(timeout=DEADLINE)
        with pytest.raises(JobCancelled, match=r"was cancelled \(Cancel: not wanted\)"):
            await (await fail.aenqueue("cancel")).aresult(timeout=DEADLINE)
        with pytest.raises(ResultMissing, match=r"@app.task\(keep_result=True\)"):
            await (await plain.aenqueue()).aresult(timeout=DEADLINE)
    assert (await app.ajob(died.value.id)).state is JobState.DEAD
    later = await fail.using(delay=3_600).aenqueue("dead")
    waiting = asyncio.create_task(later.aresult())
    await app.acancel(later.id)
    with pytest.raises(JobCancelled, match=r"was cancelled$"):
        await soon(waiting)


async def test_what_is_not_there(app: Mutirao) -> None:
    """Waiting for it would be for ever."""
    with pytest.raises(UnknownJob, match="not committed yet, or it was pruned"):
        await app.aresult(999, timeout=DEADLINE)
    with pytest.raises(WrongState, match=r"ask app\.result"):
        await Handle(1, "t", "q").aresult()


@pytest.mark.parametrize("value", ["x" * (MAX_RESULT - 2), "é" * (MAX_RESULT // 2)])
async def test_the_size_of_a_result(app: Mutirao, value: str) -> None:
    """Up to a mebibyte; one more fails the attempt, and nothing is written of it."""

    @app.task(keep_result=True, max_attempts=1)
    async def write(more: str = "") -> str:
        return value + more

    fits, large = await write.aenqueue(), await write.aenqueue("xx")
    async with never_polling(app):
        failed = await ended(app, large.id)
        assert (failed.state, failed.error_type) == (
            (JobState.DEAD, "InvalidResult")
        )  # fmt: skip
        assert "at most 1,048,576 are kept" in (failed.error or "")
        if value[0] == "x":
            assert len(await fits.aresult(timeout=DEADLINE)) == len(value)
    assert [each.result for each in await app.store.endings([large.id])] == [None]


async def test_results_that_json_cannot_carry(app: Mutirao) -> None:
    """They fail where they are returned, or where the task is registered."""

    @app.task(keep_result=True, max_attempts=1)
    async def give() -> Any:
        return object()

    @app.task(keep_result=True)
    async def odd() -> int:
        return "x"  # type: ignore[return-value]

    handle, other = await give.aenqueue(), await odd.aenqueue()
    async with never_polling(app):
        failed = await ended(app, handle.id)
        assert failed.error_type == "InvalidResult"
        with pytest.raises(InvalidResult, match="Expected `int`, got `str`"):
            await other.aresult(timeout=DEADLINE)

    with pytest.raises(InvalidTask, match="task 'lock': the result, which is kept, has"):

        @app.task(keep_result=True)
        async def lock() -> asyncio.Event | int:
            return 1


async def test_from_another_process(app: Mutirao) -> None:
    """A child's result and its progress cross over."""
    app.register(shop.work)
    handle = await app.asubmit(shop.work.job(many=1_000))
    async with never_polling(app):
        assert await handle.aresult(timeout=60.0) == {"many": 1_000}
    job = await app.ajob(handle.id)
    assert (job.progress, job.progress_of, job.progress_note) == (1_000, 1_000, "working")


async def test_progress_is_seen_while_it_runs(app: Mutirao) -> None:
    """By coroutines and threads; the last word lands, as databases can hold it."""
    go = threading.Event()

    @app.task
    def work(job: Job) -> None:
        for done in range(1_000):
            job.progress(done, of=1_000)
        go.wait(100)
        job.progress(1_000, of=1_000, note="ready\x00\ud800" + "!" * 1_000)

    handle = await work.aenqueue()
    async with never_polling(app):

        async def far() -> bool:
            return (await app.ajob(handle.id)).progress == 999

        await until(far)
        go.set()
        await ended(app, handle.id)
    job = await app.ajob(handle.id)
    assert (job.progress, job.progress_note) == (1_000, ("ready\\x00\\ud800" + "!" * 1_000)[:500])


async def test_progress_is_throttled() -> None:
    """Thousands of words are a few writes, of the last one each."""
    store, writes = MemoryStore(), list[list[Progress]]()

    async def report(told: Collection[Progress], **_: Any) -> None:
        writes.append(list(told))

    store.report = report  # type: ignore[method-assign]
    board = ProgressWriter(store, pace=0.05)
    writing = asyncio.create_task(board.run(LoopHealth("progress", 60)))
    claim: Any = type("Claim", (), {"id": 1, "run": 2})
    for done in range(5_000):
        board.report(claim, done, None, None)
        if done % 50 == 0:
            await asyncio.sleep(0)
    await until(lambda: writes and writes[-1][0].done == 4_999)
    writing.cancel()
    assert len(writes) < 100
    assert {(each.job, each.run) for told in writes for each in told} == {(1, 2)}
