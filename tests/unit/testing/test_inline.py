"""`inline`: jobs run the moment they are enqueued, and fail there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import pytest

from mutirao import Dead, Job, JobState, Outcome, OutcomeKind, Retry, Snooze
from mutirao.errors import WrongState
from mutirao.model.trace import hand_trace, trace_headers
from mutirao.tasks.around.middleware import AttemptSteps
from mutirao.telemetry.logs import job_fields
from mutirao.testing import inline
from tests.unit.testing.shop import Address, Broken, Shop

FRUIT: ContextVar[str] = ContextVar("fruit", default="none")


def where() -> tuple[bool, bool]:
    """Return whether this is the main thread, and whether an event loop runs in it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return threading.current_thread() is threading.main_thread(), False
    return threading.current_thread() is threading.main_thread(), True


def test_what_has_expired_is_not_run(shop: Shop) -> None:
    """It ends as in a worker, and raises nothing."""
    with inline(shop.app):
        handle = shop.send.using(expires=datetime(2001, 1, 1, tzinfo=UTC)).enqueue(7)
        shop.send.using(expires=60).enqueue(8)
        record = shop.app.job(handle.id)
    assert (record.state, record.error_type) == (JobState.CANCELLED, "Expired")
    assert [each[1] for each in shop.done] == [8]


class TestWhere:
    """Functions and coroutines, enqueued by functions and coroutines."""

    def test_whose_records_they_are(self, shop: Shop) -> None:
        """Those of the handler are of its job, and those of the caller are not."""
        seen: list[Any] = []
        task = shop.task(lambda: seen.append(job_fields()), name="t")
        with inline(shop.app):
            task.enqueue()
        assert [each["task"] for each in seen] == ["t"]
        assert job_fields() == {}

    def test_whose_trace_it_is(self, shop: Shop) -> None:
        """What an attempt hands on ends with it."""
        seen: list[Any] = []
        task = shop.task(lambda: seen.append(dict(trace_headers())), name="t")

        @shop.app.around_attempt
        def traced(job: Job) -> AttemptSteps:
            hand_trace({"traceparent": "00-1-2-01"})
            yield

        with inline(shop.app):
            task.enqueue()
        assert seen == [{"traceparent": "00-1-2-01"}]
        assert trace_headers() == {}

    def test_a_function_by_a_function(self, shop: Shop) -> None:
        """In the caller's thread, where it may use what belongs to that, and no loop runs."""
        seen: list[Any] = []
        task = shop.task(lambda: seen.append((where(), FRUIT.get())), name="t")
        FRUIT.set("jaca")
        with inline(shop.app):
            task.enqueue()
        assert seen == [((True, False), "jaca")]

    def test_a_coroutine_by_a_function(self, shop: Shop) -> None:
        """In a loop of its own."""
        with inline(shop.app):
            shop.send.enqueue(7)
            assert shop.done == [("send", 7, "thanks")]

    async def test_a_coroutine_by_a_coroutine(self, shop: Shop) -> None:
        """In the caller's loop."""
        loops: list[object] = []

        async def handler() -> None:
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())

        with inline(shop.app):
            await shop.task(handler).aenqueue()
        assert loops == [asyncio.get_running_loop()]

    async def test_a_function_by_a_coroutine(self, shop: Shop) -> None:
        """In a thread, as a worker would, with the caller's context."""
        seen: list[Any] = []
        task = shop.task(lambda: seen.append((where(), FRUIT.get())), name="t")
        FRUIT.set("caju")
        with inline(shop.app):
            await task.aenqueue()
        assert seen == [((False, False), "caju")]

    async def test_a_coroutine_by_a_function_inside_a_loop(self, shop: Shop) -> None:
        """`enqueue` in a coroutine returns when the handler has, without a deadlock."""
        seen: list[Any] = []

        async def handler() -> None:
            await asyncio.sleep(0)
            seen.append((where(), FRUIT.get()))

        task = shop.task(handler)
        FRUIT.set("umbu")
        with inline(shop.app):
            task.enqueue()
        assert seen == [((False, True), "umbu")]


def test_everything_runs_at_once(shop: Shop) -> None:
    """Whatever the connection and the delay, one by one and many; the job is given."""
    with inline(shop.app) as jobs:
        shop.send.using(delay=3_600, conn=object()).enqueue(1)
        ids = shop.app.enqueue_many(shop.resize.job(f"{n}.png") for n in range(2))
        handle = shop.ship.enqueue(Address("Rua A"))
    assert shop.done == [
        ("send", 1, "thanks"),
        ("resize", "0.png", 800),
        ("resize", "1.png", 800),
        ("ship", handle.id, Address("Rua A"), None),
    ]
    assert [job.state for job in jobs] == [JobState.SUCCEEDED] * 4
    assert [job.id for job in jobs[1:3]] == ids


def test_children_run_inside_their_parents(shop: Shop) -> None:
    """At their enqueue, before the parent goes on."""

    def parent() -> None:
        shop.done.append("before")
        shop.send.enqueue(1)
        shop.done.append("after")

    with inline(shop.app):
        shop.task(parent).enqueue()
    assert shop.done == ["before", ("send", 1, "thanks"), "after"]


@pytest.mark.parametrize(
    ("how", "error", "state"),
    [
        ("error", Broken, JobState.DEAD),
        ("dead", Dead, JobState.DEAD),
        ("snooze", Snooze, JobState.SCHEDULED),
        ("at once", Retry, JobState.DEAD),
    ],
)
def test_errors_reach_the_caller(
    shop: Shop, how: str, error: type[Exception], state: JobState
) -> None:
    """As they were raised; there are no retries and no `on_dead` handlers."""
    buried = shop.bury()
    with inline(shop.app) as jobs:
        with pytest.raises(error) as raised:
            shop.fail.enqueue(how)
        assert raised.traceback[-1].name == "fail"
        record = jobs.assert_enqueued(shop.fail, how=how)
    assert (record.state, record.error_type) == (state, error.__qualname__.replace(
        "Broken", "tests.unit.testing.shop.Broken"))  # fmt: skip
    assert shop.done == [("fail", how)]
    assert buried == []


async def test_errors_reach_coroutines(shop: Shop) -> None:
    """The same, through `aenqueue`."""
    with inline(shop.app):
        with pytest.raises(Broken):
            await shop.fail.aenqueue()
        with pytest.raises(Broken):
            shop.fail.enqueue()


def test_jobs_behind_a_failed_one_are_left(shop: Shop) -> None:
    """They wait, and are not run by what is enqueued later."""
    with inline(shop.app) as jobs:
        with pytest.raises(Broken):
            shop.app.enqueue_many([shop.send.job(1), shop.fail.job(), shop.send.job(2)])
        shop.send.enqueue(3)
    assert [job.state for job in jobs] == [
        JobState.SUCCEEDED, JobState.DEAD, JobState.READY, JobState.SUCCEEDED,
    ]  # fmt: skip
    assert [entry[1] for entry in shop.done] == [1, "error", 3]


def test_a_child_s_error_reaches_the_parent(shop: Shop) -> None:
    """Which may catch it, or die of it."""

    def parent(careful: bool) -> None:
        try:
            shop.fail.enqueue()
        except Broken:
            if not careful:
                raise

    task = shop.task(parent)
    with inline(shop.app) as jobs:
        task.enqueue(careful=True)
        with pytest.raises(Broken):
            task.enqueue(careful=False)
    assert [job.state for job in jobs.of(task)] == [JobState.SUCCEEDED, JobState.DEAD]


class TestMiddleware:
    """What goes around attempts goes around these too."""

    def test_of_both_kinds(self, shop: Shop) -> None:
        """Asynchronous ones as well, around functions and coroutines; they see the outcome."""
        seen: list[Any] = []

        @shop.app.around_attempt
        async def slow(job: Job) -> AsyncGenerator[None, Outcome]:
            await asyncio.sleep(0)
            outcome = yield
            seen.append((job.task, outcome.kind))

        @shop.app.around_attempt
        def quick(job: Job) -> Generator[None, Outcome, None]:
            outcome = yield
            seen.append(outcome.kind)

        with inline(shop.app):
            shop.resize.enqueue("a.png")
            with pytest.raises(Broken):
                shop.fail.enqueue()
        ok, dead = OutcomeKind.SUCCEEDED, OutcomeKind.DEAD
        assert seen == [ok, ("resize", ok), dead, ("fail", dead)]

    def test_its_errors_reach_the_caller(self, shop: Shop) -> None:
        """As if the handler had raised them; the handler does not run."""

        @shop.app.around_attempt
        def refuse(job: Job) -> Generator[None, Outcome, None]:
            if job.task == "resize":
                raise Dead("not today")
            yield

        with inline(shop.app) as jobs, pytest.raises(Dead, match="not today"):
            shop.resize.enqueue("a.png")
        assert [job.state for job in jobs] == [JobState.DEAD]
        assert shop.done == []


class TestTransactions:
    """`job.transaction()` while jobs run inline."""

    @pytest.mark.parametrize("handler", ["function", "coroutine"])
    def test_with_sessions(self, shop: Shop, handler: str) -> None:
        """The block completes the job; what was enqueued through it runs after it."""

        def plain(job: Job) -> None:
            with job.transaction() as session:
                shop.send.using(conn=session).enqueue(1)
                shop.done.append(session)

        async def coroutine(job: Job) -> None:
            async with job.transaction() as session:
                await shop.send.using(conn=session).aenqueue(1)
                shop.done.append(session)

        task = shop.task(plain if handler == "function" else coroutine)
        with inline(shop.app, session_factory=lambda: nullcontext("a session")) as jobs:
            task.enqueue()
        assert shop.done == ["a session", ("send", 1, "thanks")]
        assert [job.state for job in jobs] == [JobState.SUCCEEDED] * 2

    async def test_in_a_loop(self, shop: Shop) -> None:
        """The same, through `aenqueue`."""

        async def parent(job: Job) -> None:
            async with job.transaction() as session:
                await shop.send.using(conn=session).aenqueue(1)

        with inline(shop.app, session_factory=lambda: nullcontext("a session")):
            await shop.task(parent).aenqueue()
        assert shop.done == [("send", 1, "thanks")]

    def test_a_block_that_fails(self, shop: Shop) -> None:
        """What was enqueued through it never was."""

        def handler(job: Job) -> None:
            with job.transaction() as session:
                shop.send.using(conn=session).enqueue(1)
                shop.resize.enqueue("a.png")
                raise Broken

        with inline(shop.app, session_factory=lambda: nullcontext("a session")) as jobs:
            with pytest.raises(Broken):
                shop.task(handler).enqueue()
            jobs.assert_not_enqueued(shop.send)
        assert shop.done == [("resize", "a.png", 800)]

    def test_without_sessions(self, shop: Shop) -> None:
        """Raises, and says what to give."""

        def handler(job: Job) -> None:
            with job.transaction():
                raise AssertionError("not reached")

        with inline(shop.app), pytest.raises(WrongState, match="session_factory"):
            shop.task(handler).enqueue()
