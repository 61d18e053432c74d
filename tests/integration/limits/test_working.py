"""Limits and a worker that never polls: whatever frees a place brings the next job by itself."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mutirao import Job, JobState, Limit, Mutirao
from mutirao.errors import InvalidLimit, InvalidTask, UnknownLimit
from mutirao.model.limits.limits import LimitOrigin
from mutirao_conformance.kit import NOW
from tests.integration.worker.kit import ended, never_polling, until_state
from tests.support.waiting import until

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance")

MANY = 40


async def all_done(app: Mutirao, jobs: int) -> None:
    """Wait until so many jobs have succeeded."""

    async def done() -> bool:
        counts = await app.acounts()
        return sum(c.jobs for c in counts if c.state == JobState.SUCCEEDED) >= jobs

    await until(done)


@pytest.mark.parametrize("busy", [False, True])
async def test_one_after_another(app: Mutirao, busy: bool) -> None:
    """A chain of jobs behind a limit of 1 runs through, though the worker is busy elsewhere."""
    running, most, done = 0, 0, asyncio.Event()

    @app.task(limit=Limit(1), queue="chain")
    async def step() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    @app.task
    async def noise() -> None:
        if not done.is_set():
            await noise.aenqueue()

    async with never_polling(app):
        if busy:
            await app.aenqueue_many(noise.job() for _ in range(100))
        await app.aenqueue_many(step.job() for _ in range(MANY))

        async def through() -> bool:
            counts = [c for c in await app.acounts() if c.queue == "chain"]
            return [(c.state, c.jobs) for c in counts] == [(JobState.SUCCEEDED, MANY)]

        await until(through)
        done.set()
    assert most == 1


async def test_in_their_own_transactions(app: Mutirao) -> None:
    """A place that is given back by `job.transaction()` is heard of, too."""

    @app.task(limit=Limit(1, by="key"))
    async def step(job: Job, key: str) -> None:
        async with job.transaction():
            pass

    async with never_polling(app):
        await app.aenqueue_many(step.job("ab"[n % 2]) for n in range(MANY))
        await all_done(app, MANY)


async def test_a_rate(app: Mutirao) -> None:
    """The worker sleeps until there is a token, and no longer."""
    loop, starts = asyncio.get_running_loop(), list[float]()

    @app.task(limit=Limit(20, per=1, burst=2))
    async def call() -> None:
        starts.append(loop.time())

    async with never_polling(app):
        enqueued = loop.time()
        await app.aenqueue_many(call.job() for _ in range(12))
        await all_done(app, 12)
    assert starts[-1] - enqueued > 10 / 20 * 0.8


async def test_retries_and_failures(app: Mutirao) -> None:
    """However attempts end, the next one comes."""

    @app.task(limit=Limit(2), max_attempts=1)
    async def fail() -> None:
        raise ValueError("no")

    async with never_polling(app):
        ids = await app.aenqueue_many(fail.job() for _ in range(MANY))
        for id in ids:
            assert (await ended(app, id)).state == JobState.DEAD


async def test_paused_and_resumed(app: Mutirao) -> None:
    """A paused task's jobs wait, others run; when it is resumed, the idle worker hears of it."""

    @app.task(limit=Limit(3, by="tenant"))
    async def call(tenant: str) -> None: ...

    @app.task(queue="mail")
    async def send() -> None: ...

    async with never_polling(app):
        await app.apause(task="call", key="a")
        await app.apause(queue="mail")
        waits, goes = await call.aenqueue("a"), await call.aenqueue("b")
        mail = await send.aenqueue()
        await ended(app, goes.id)
        await until_state(app, waits.id, JobState.BLOCKED)
        await until_state(app, mail.id, JobState.BLOCKED)
        await app.aresume(task="call", key="a")
        await ended(app, waits.id)
        await app.aresume(queue="mail")
        await ended(app, mail.id)


async def test_limits_at_run_time(app: Mutirao) -> None:
    """Raising a limit brings the next job at once; a removed one lets all of them run."""
    begun, go = 0, asyncio.Event()

    @app.task
    async def call() -> None:
        nonlocal begun
        begun += 1
        await go.wait()

    name = await app.limits.aput(Limit(1), task="call")
    async with never_polling(app):
        await app.aenqueue_many(call.job() for _ in range(9))
        await until(lambda: begun == 1)

        async def blocked() -> bool:
            return [(r.running, r.parked) for r in await app.limits.alist()] == [(1, 8)]

        await until(blocked)
        await app.limits.aput(Limit(3), task="call")
        await until(lambda: begun == 3)
        await app.limits.aremove(name)
        await until(lambda: begun == 9)
        go.set()
        await all_done(app, 9)


async def test_what_is_in_the_code(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """A worker writes it down; one whose code lacks it says so."""

    @app.task(limit=[Limit(5), Limit(2, by="tenant")])
    async def call(tenant: str) -> None: ...

    app.limit(Limit(100, per=60, burst=20), queue="mail")
    async with never_polling(app):
        pass
    records = {r.name: (r.most, r.per, r.burst, r.in_code) for r in await app.limits.alist()}
    assert records == {
        "queue mail rate": (100, 60, 20, True),
        "task call": (5, None, None, True),
        "task call by tenant": (2, None, None, True),
    }
    other = Mutirao(app.url)

    @other.task(name="call", limit=Limit(6))
    async def call_again(tenant: str) -> None: ...

    own = Limit(50, by="endpoint").on(task="mutirao.webhook")
    await app.store.limits.put(own, origin=LimitOrigin.CODE, worker="w")
    left = ["task call by tenant", own.name]
    await app.store.limits.confirm_declared(left, "w", every=-1e9, now=NOW)
    with caplog.at_level(logging.WARNING):
        async with never_polling(other):
            pass
    assert {r.name: r.most for r in await app.limits.alist()}["task call"] == 6
    assert "limit task call by tenant was in the code of worker w until 2024-02-29" in caplog.text
    assert own.name not in caplog.text  # of workers that deliver webhooks, which need it
    assert {r.name for r in await app.limits.alist() if r.is_left} == {"task call by tenant"}
    await other.aclose()


async def test_bad_input(app: Mutirao) -> None:
    """Each is told where it is written, with what to do instead."""
    with pytest.raises(InvalidLimit, match=r"most is 0; give a whole number of 1 or more, .*; to"):
        Limit(0)
    with pytest.raises(InvalidLimit, match="per is -1"):
        Limit(1, per=-1)
    with pytest.raises(InvalidLimit, match="per is nan"):
        Limit(1, per=float("nan"))
    with pytest.raises(InvalidLimit, match="no period is given"):
        Limit(1, burst=5)
    with pytest.raises(InvalidLimit, match="burst is 0"):
        Limit(1, per=1, burst=0)
    with pytest.raises(InvalidLimit, match="name the one or the other"):
        await app.limits.aput(Limit(1))
    with pytest.raises(InvalidLimit, match="give a Limit, such as"):
        app.task(limit=5)(lambda: None)  # type: ignore[call-overload]
    with pytest.raises(UnknownLimit, match="no limit is called 'x'"):
        await app.limits.aremove("x")
    with pytest.raises(UnknownLimit, match="queue mail is not paused"):
        await app.aresume(queue="mail")
    with pytest.raises(InvalidLimit, match="count by no argument; say of which argument"):
        await app.apause(task="call", key="a")
    with pytest.raises(InvalidLimit, match="no key is given"):
        await app.apause(task="call", by="tenant")
    app.limit(Limit(1), queue="q")
    with pytest.raises(InvalidLimit, match="two limits are called 'queue q'"):
        app.limit(Limit(2), queue="q")

    async def call(tenant: str) -> None: ...

    with pytest.raises(InvalidTask, match="a limit's by of task 'call' is 'tennant'"):
        app.task(limit=Limit(1, by="tennant"))(call)
    with pytest.raises(InvalidLimit, match="two limits are called 'task call'"):
        app.task(limit=[Limit(1), Limit(2)])(call)
    assert app.tasks == {}
    app.limit(Limit(1), queue="none of this is in the way of others")


def test_plain_faces(app: Mutirao) -> None:
    """Everything that is ordered from coroutines can be ordered without."""
    assert app.limits.put(Limit(2, by="tenant"), task="call") == "task call by tenant"
    app.pause(task="call", key="a")
    app.pause(queue="q")
    assert [r.name for r in app.limits.list() if r.paused] == [
        "pause queue q",
        "pause task call tenant=a",
    ]
    app.resume(queue="q")
    app.resume(task="call", key="a")
    app.limits.remove("task call by tenant")
    assert app.limits.list() == ()
