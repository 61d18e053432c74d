"""Hooks around handlers: in the handler's own thread, loop or process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from mutirao import Job, JobRecord, Mutirao, Retry, Snooze
from mutirao.errors import ConfigurationError
from mutirao.testing import drain, inline
from tests.integration.worker import hooked
from tests.integration.worker.kit import ended, outcomes, working

tenant = ContextVar("tenant", default="none")
WHERE = [hooked.in_thread, hooked.in_process]


@pytest.fixture
def url(pg_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return pg_url


async def run(app: Mutirao, task: Any, path: Path, fails: str) -> JobRecord:
    """Run a task once; return the job."""
    app.register(task)
    async with working(app, concurrency=1):
        return await ended(app, app.submit(task.job(path=str(path), fails=fails)).id)


def said_in(path: Path) -> list[list[str]]:
    """Return who said what: process, thread, words."""
    return [line.split(maxsplit=2) for line in path.read_text().splitlines()]


class TestPlain:
    """Around plain functions, in threads and in child processes."""

    @pytest.mark.parametrize("task", WHERE, ids=["thread", "process"])
    @pytest.mark.parametrize(
        ("fails", "inside", "seen"),
        [
            ("never", ["handler"], "no error"),
            ("before", [], "before"),
            ("itself", ["handler"], "itself"),
            ("after", ["handler"], "after"),
        ],
    )
    async def test_around(
        self, app: Mutirao, tmp_path: Path, task: Any, fails: str, inside: list[str], seen: str
    ) -> None:
        """In order, all in one thread; an error passes through them, and none can swallow it."""
        job = await run(app, task, tmp_path / "said", fails)
        said = said_in(tmp_path / "said")
        expected = [f"outer {job.id} 1", "inner", *inside, f"outer saw {seen}"]
        assert [what for _, _, what in said] == expected
        assert len({(process, thread) for process, thread, _ in said}) == 1
        assert int(said[0][1]) != threading.get_ident()
        [attempt] = job.attempts
        if fails == "never":
            assert outcomes(job) == ["succeeded"]
        else:
            assert outcomes(job) == ["dead"]
            assert attempt.error_type == "ValueError"
            assert (attempt.error or "").startswith(f"{fails}\n")

    async def test_a_hook_that_no_process_finds(self, app: Mutirao) -> None:
        """Is refused when a worker starts, by name."""
        tasks = Mutirao("sqlite:///never-opened.db")

        @tasks.around_handler
        def hidden(job: Job) -> Iterator[None]:
            yield

        task: Any = tasks.task(process=True)(hooked.in_process.function)
        task.__qualname__ = "in_process"
        app.register(task)
        with pytest.raises(ConfigurationError, match=r"hidden stands around .* module level"):
            async with working(app):
                pass

    async def test_a_failing_hook_frees_the_slot(self, app: Mutirao) -> None:
        """However often it fails; a signal that it raises is one."""
        errors: list[Exception] = [Snooze(0), OSError("no connection")]

        @app.around_handler
        def connect(job: Job) -> Iterator[None]:
            if errors:
                raise errors.pop(0)
            yield

        @app.task(retry=Retry.fixed(2, interval=0))
        def handler() -> None:
            pass

        async with working(app, concurrency=1) as worker:
            job = await ended(app, handler.enqueue().id)
            assert worker.health().stuck == 0
        assert outcomes(job) == ["snoozed", "retried", "succeeded"]
        assert job.attempts[1].error_type == "OSError"

    async def test_a_hidden_coroutine(self, app: Mutirao) -> None:
        """Would run outside of the hooks, so it fails and says so."""

        @app.around_handler
        def hook(job: Job) -> Iterator[None]:
            yield

        async def work() -> None:
            pass

        def handler() -> Any:
            return work()

        task = app.task(retry=Retry.never())(handler)
        async with working(app):
            job = await ended(app, task.enqueue().id)
        assert outcomes(job) == ["dead"]
        assert "which nobody awaits here" in (job.attempts[0].error or "")


class TestAsynchronous:
    """Around coroutines, in the event loop."""

    async def test_around(self, app: Mutirao) -> None:
        """In the handler's task and context; those for plain functions are not called."""
        said: list[Any] = []

        @app.around_handler
        def plain(job: Job) -> Iterator[None]:
            said.append("plain")
            yield

        @app.around_handler
        async def outer(job: Job) -> AsyncIterator[None]:
            said.append(("outer", asyncio.current_task()))
            tenant.set("acme")
            await asyncio.sleep(0)
            try:
                yield
            finally:
                said.append("outer")

        @app.around_handler
        async def inner(job: Job) -> AsyncIterator[None]:
            try:
                yield
            except ValueError as error:
                raise LookupError("instead") from error

        @app.task(retry=Retry.never())
        async def handler() -> None:
            said.append((tenant.get(), asyncio.current_task()))
            raise ValueError("itself")

        @app.task
        def function() -> None:
            said.append(tenant.get())

        async with working(app, concurrency=1):
            job = await ended(app, handler.enqueue().id)
            await ended(app, function.enqueue().id)
        (_, task), *rest = said
        assert rest == [("acme", task), "outer", "plain", "none"]
        assert [each.error_type for each in job.attempts] == ["LookupError"]

    @pytest.mark.parametrize("swallows", [True, False])
    async def test_a_timeout(self, app: Mutirao, swallows: bool) -> None:
        """Reaches them as a cancellation, and stays one."""
        said: list[str] = []

        @app.around_handler
        async def hook(job: Job) -> AsyncIterator[None]:
            try:
                yield
            except asyncio.CancelledError:
                said.append("cancelled")
                if not swallows:
                    raise

        @app.task(retry=Retry.never(), timeout=0.05)
        async def handler() -> None:
            await asyncio.Event().wait()

        async with working(app):
            job = await ended(app, handler.enqueue().id)
        assert said == ["cancelled"]
        assert [each.error_type for each in job.attempts] == ["AttemptTimeout"]


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_yielding_wrongly(app: Mutirao, asynchronous: bool) -> None:
    """Not at all, or twice, with and without an error: the attempt fails and says which hook."""
    fails = [False, False, True]
    yields = [0, 2, 2]

    def plain(job: Job) -> Iterator[None]:
        for _ in range(yields[job.attempt - 1]):
            try:
                yield
            except ValueError:
                continue

    async def coroutine(job: Job) -> AsyncIterator[None]:
        for _ in range(yields[job.attempt - 1]):
            try:
                yield
            except ValueError:
                continue

    def function(job: Job) -> None:
        if fails[job.attempt - 1]:
            raise ValueError("itself")

    async def handler(job: Job) -> None:
        function(job)

    app.around_handler(coroutine if asynchronous else plain)
    register: Any = app.task(name="it", retry=Retry.fixed(3, interval=0))
    task = register(handler if asynchronous else function)
    async with working(app):
        job = await ended(app, task.enqueue().id)
    said = [(each.error_type, (each.error or "").split("\n")[0]) for each in job.attempts]
    assert [kind for kind, _ in said] == ["ConfigurationError"] * 3
    assert [what.partition("> ")[2].split(";")[0] for _, what in said] == [
        *("did not yield", "yielded twice", "yielded twice"),
    ]
    assert ("coroutine" if asynchronous else "plain") in said[0][1]


def test_what_is_no_hook(app: Mutirao) -> None:
    """Is refused where it is registered."""

    @contextmanager
    def manager(job: Job) -> Iterator[None]:
        yield

    def function(job: Job) -> None:
        pass

    for wrong in (manager, function):
        unfit: Any = wrong
        with pytest.raises(ConfigurationError, match="is not a generator function; define it"):
            app.around_handler(unfit)


@pytest.mark.parametrize("way", ["inline", "drain"])
def test_in_tests(app: Mutirao, way: str) -> None:
    """They stand around what tests run, too."""
    said: list[str] = []

    @app.around_handler
    def plain(job: Job) -> Iterator[None]:
        said.append("plain")
        yield

    @app.around_handler
    async def asynchronous(job: Job) -> AsyncIterator[None]:
        said.append("asynchronous")
        yield

    @app.task
    def function() -> None:
        said.append("function")

    @app.task
    async def coroutine() -> None:
        said.append("coroutine")

    if way == "inline":
        with inline(app):
            function.enqueue()
            coroutine.enqueue()
    else:
        function.enqueue()
        coroutine.enqueue()
        drain(app)
    assert said == ["plain", "function", "asynchronous", "coroutine"]
