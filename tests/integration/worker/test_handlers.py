"""What runs a handler (the event loop, a thread, a process), what it is given and may raise."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from mutirao import Job, JobState, Mutirao, Retry
from tests.integration.worker import children
from tests.integration.worker.kit import ended, outcomes, working

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")
AGAIN = Retry.fixed(2, interval=0)


@pytest.fixture
def url(pg_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return pg_url


class Fatal(BaseException):
    """What no `except Exception` catches."""


class Mute(Exception):
    """Cannot even say what is wrong."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Loud(Exception):
    """Raises something that `except Exception` does not catch when asked for its text."""

    def __str__(self) -> str:
        raise Fatal


async def test_a_coroutine_runs_in_the_event_loop(app: Mutirao) -> None:
    """In the loop of whoever runs the worker."""
    seen: list[tuple[object, threading.Thread]] = []

    @app.task
    async def send(order_id: int) -> None:
        seen.append((asyncio.get_running_loop(), threading.current_thread()))

    async with working(app):
        job = await ended(app, send.enqueue(7).id)
    assert (job.state, outcomes(job)) == (JobState.SUCCEEDED, ["succeeded"])
    assert seen == [(asyncio.get_running_loop(), threading.current_thread())]


async def test_a_plain_function_runs_in_a_thread(app: Mutirao) -> None:
    """Not in the loop's, so that it may block."""
    seen: list[threading.Thread] = []

    @app.task
    def resize(path: str, width: int = 800) -> str:
        seen.append(threading.current_thread())
        return path

    async with working(app):
        job = await ended(app, resize.enqueue("a.png").id)
    assert job.state is JobState.SUCCEEDED
    assert seen[0] is not threading.current_thread()


async def test_a_process_handler_runs_in_another_process(app: Mutirao, tmp_path: Path) -> None:
    """One child serves one call after another."""
    children.register(app)
    pids = []
    async with working(app, concurrency=1):
        for name in ("a", "b"):
            path = tmp_path / name
            job = await ended(app, app.submit(children.write_pid.job(str(path))).id)
            assert job.state is JobState.SUCCEEDED
            pids.append(int(path.read_text()))
    assert pids[0] == pids[1] != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


async def test_plain_functions_run_beside_each_other(app: Mutirao) -> None:
    """As many as the worker has slots."""
    together = threading.Barrier(5)

    @app.task
    def meet() -> None:
        together.wait(100)

    async with working(app, concurrency=5):
        ids = app.enqueue_many(meet.job() for _ in range(5))
        jobs = [await ended(app, id) for id in ids]
    assert {job.state for job in jobs} == {JobState.SUCCEEDED}


async def test_the_job_is_injected(app: Mutirao) -> None:
    """Where the first parameter is annotated so; callers leave it out."""
    seen: list[Job] = []

    @app.task(timeout=60, max_attempts=4, tags=["shop"])
    async def coroutine(job: Job, order_id: int) -> None:
        seen.append(job)

    @app.task
    def plain(job: Job, order_id: int) -> None:
        seen.append(job)

    async with working(app):
        call = coroutine.using(key="k", tags=["x"], metadata={"by": "me"}, priority=3, queue="q")
        await ended(app, call.enqueue(order_id=7).id)
        await ended(app, plain.using(timeout=5, max_attempts=1).enqueue(8).id)
    one, two = seen
    assert (one.id, one.task, one.queue, one.priority) == (1, "coroutine", "q", 3)
    assert (one.run, one.attempt, one.max_attempts, one.timeout) == (1, 1, 4, 60)
    assert (one.args, one.key, one.tags) == ({"order_id": 7}, "k", ("shop", "x"))
    assert one.metadata == {"by": "me"}
    assert (two.args, two.max_attempts, two.timeout) == ({"order_id": 8}, 1, 5)


async def test_the_job_is_injected_in_a_process(app: Mutirao, tmp_path: Path) -> None:
    """It tells the limits that are in force."""
    children.register(app)
    path = tmp_path / "job"
    async with working(app):
        job = await ended(app, app.submit(children.tell.job(str(path))).id)
    assert job.state is JobState.SUCCEEDED
    assert path.read_text() == f"1 1 10 None {{'path': '{path}'}}"


async def test_no_transaction_in_a_process(app: Mutirao) -> None:
    """The error says what to do instead."""
    children.register(app)
    async with working(app):
        call = app.submit(children.transact.using(max_attempts=1).job())
        job = await ended(app, call.id)
    assert (job.state, job.error_type) == (JobState.DEAD, "WrongState")
    assert "make the work idempotent" in (job.error or "")


async def test_arguments_of_every_kind(app: Mutirao) -> None:
    """Positional, keyword, variable: they arrive as they were given."""
    seen: list[Any] = []

    @app.task
    async def mixed(a: int, /, b: str = "b", *rest: int, c: bool = False, **more: float) -> None:
        seen.append((a, b, rest, c, more))

    async with working(app):
        for handle in (mixed.enqueue(1), mixed.enqueue(1, "x", 2, 3, c=True, d=0.5)):
            await ended(app, handle.id)
    assert seen == [(1, "b", (), False, {}), (1, "x", (2, 3), True, {"d": 0.5})]


async def test_threads_keep_the_context(app: Mutirao) -> None:
    """What a middleware sets in a context variable, a plain handler finds."""
    seen: list[str] = []

    @app.around_attempt
    def tenant(job: Job) -> Any:
        TENANT.set("acme")
        yield

    @app.task
    def plain() -> None:
        seen.append(TENANT.get())

    async with working(app):
        await ended(app, plain.enqueue().id)
    assert seen == ["acme"]
    assert TENANT.get() == "nobody"


RAISED: dict[str, tuple[Callable[[], BaseException], str, str]] = {
    "error": (lambda: ValueError("no such order"), "ValueError", "no such order"),
    "no text": (KeyError, "KeyError", "KeyError"),
    "own": (lambda: children_error("x"), f"{__name__}.children_error.<locals>.Own", "x"),
    "exit": (lambda: SystemExit(2), "SystemExit", "2"),
    "interrupt": (KeyboardInterrupt, "KeyboardInterrupt", "KeyboardInterrupt"),
    "cancelled": (asyncio.CancelledError, "asyncio.exceptions.CancelledError", "CancelledError"),
    "base": (Fatal, f"{__name__}.Fatal", "Fatal"),
    "mute": (Mute, f"{__name__}.Mute", "<its __str__ raised ValueError>"),
    "loud": (Loud, f"{__name__}.Loud", "<its __str__ raised Fatal>"),
    "group": (
        lambda: ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
        "ExceptionGroup",
        "two (2 sub-exceptions)",
    ),
}


def children_error(text: str) -> Exception:
    """Return an error of a class that is hard to name."""

    class Own(Exception):
        pass

    return Own(text)


@pytest.mark.parametrize("name", RAISED)
async def test_whatever_a_coroutine_raises(app: Mutirao, name: str) -> None:
    """It is a failed attempt with type and text; the worker goes on."""
    make, error_type, text = RAISED[name]

    @app.task(retry=AGAIN)
    async def failing() -> None:
        raise make()

    @app.task
    async def other() -> None:
        pass

    async with working(app, concurrency=1):
        job = await ended(app, failing.enqueue().id)
        assert (await ended(app, other.enqueue().id)).state is JobState.SUCCEEDED
    assert (job.state, outcomes(job)) == (JobState.DEAD, ["retried", "dead"])
    assert job.error_type == error_type
    assert (job.error or "").splitlines()[0] == text


@pytest.mark.parametrize("name", RAISED)
async def test_whatever_a_plain_function_raises(app: Mutirao, name: str) -> None:
    """The same; its slot is free again."""
    make, error_type, text = RAISED[name]

    @app.task(retry=AGAIN)
    def failing() -> None:
        raise make()

    @app.task
    def other() -> None:
        pass

    async with working(app, concurrency=1):
        job = await ended(app, failing.enqueue().id)
        assert (await ended(app, other.enqueue().id)).state is JobState.SUCCEEDED
    assert (job.state, outcomes(job)) == (JobState.DEAD, ["retried", "dead"])
    assert job.error_type == error_type
    assert (job.error or "").splitlines()[0] == text


@pytest.mark.parametrize("kind", ["coroutine", "plain"])
@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration, GeneratorExit])
async def test_exceptions_that_steer_generators(
    app: Mutirao, kind: str, error: type[BaseException]
) -> None:
    """They mean something else where coroutines wait; their name and text are kept all the same."""

    @app.task(max_attempts=1)
    async def coroutine() -> None:
        raise error("over")

    @app.task(max_attempts=1)
    def plain() -> None:
        raise error("over")

    async with working(app):
        task = {"coroutine": coroutine, "plain": plain}[kind]
        job = await ended(app, task.enqueue().id)
    assert job.state is JobState.DEAD
    assert error.__name__ in f"{job.error_type} {job.error}"
    assert "over" in (job.error or "")


@pytest.mark.repeats(
    *("cancel", "cancelled", "dead", "stop"), decided="tests/integration/worker/test_handlers.py"
)
@pytest.mark.parametrize(
    ("kind", "expected", "error_type"),
    [
        ("retry", ["retried", "dead"], "Retry"),
        ("dead", ["dead"], "Dead"),
        ("cancel", ["cancelled"], "Cancel"),
        ("exit", ["retried", "dead"], "SystemExit"),
        ("stop", ["retried", "dead"], "StopIteration"),
        ("cancelled", ["retried", "dead"], "asyncio.exceptions.CancelledError"),
        ("interrupt", ["retried", "dead"], "KeyboardInterrupt"),
        ("error", ["retried", "dead"], "ValueError"),
    ],
)
async def test_whatever_a_process_handler_raises(
    pg_app: Mutirao, kind: str, expected: list[str], error_type: str
) -> None:
    """Errors and signals come back from the child, which lives on."""
    children.register(pg_app)
    async with working(pg_app):
        job = await ended(pg_app, pg_app.submit(children.fail.job(kind)).id)
    assert (outcomes(job), job.error_type) == (expected, error_type)


@pytest.mark.parametrize(
    ("status", "said"), [(3, "exit code 3"), (-signal.SIGSEGV, "exit code -11")]
)
async def test_a_process_that_dies(pg_app: Mutirao, tmp_path: Path, status: int, said: str) -> None:
    """Is a failed attempt that says how it ended; the next attempt has another child."""
    children.register(pg_app)
    async with working(pg_app):
        call = children.die.job(str(tmp_path / "once"), status)
        job = await ended(pg_app, pg_app.submit(call).id)
    assert outcomes(job) == ["retried", "succeeded"]
    assert job.attempts[0].error_type == "mutirao.engine.calls.processes.ProcessDied"
    assert said in (job.attempts[0].error or "")


def kill(pid: int) -> None:
    """Kill a child of ours, and wait until it is dead, though not buried yet."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


async def test_an_idle_process_that_died(pg_app: Mutirao, tmp_path: Path) -> None:
    """Costs the next job nothing: it gets another child."""
    children.register(pg_app)
    async with working(pg_app):
        for name in ("first", "second"):
            path = tmp_path / name
            job = await ended(pg_app, pg_app.submit(children.write_pid.job(str(path))).id)
            assert outcomes(job) == ["succeeded"]
            kill(int(path.read_text()))


@pytest.mark.parametrize("length", [1_000_000])
async def test_a_megabyte_of_error_text(app: Mutirao, length: int) -> None:
    """Is stored shortened: its head and its tail, and how much was left out."""

    @app.task(max_attempts=1)
    async def failing() -> None:
        raise ValueError("head " + "x" * length + " tail")

    async with working(app):
        job = await ended(app, failing.enqueue().id)
    error = job.error or ""
    assert error.startswith("head xxx")
    assert error.rstrip().endswith("xxx tail")
    assert "characters left out" in error
    assert len(error) <= 8_000


@pytest.mark.parametrize("kind", ["coroutine", "plain"])
async def test_text_that_databases_cannot_hold(
    app: Mutirao, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """NULs and lone surrogates are written out, in the log of the death, too."""

    class Strange(Exception):
        pass

    Strange.__qualname__ = "Str\x00ange\udcff"

    @app.task(max_attempts=1)
    async def coroutine() -> None:
        raise Strange("nul \x00, surrogate \ud800, fine: é日")

    @app.task(max_attempts=1)
    def plain() -> None:
        raise Strange("nul \x00, surrogate \ud800, fine: é日")

    async with working(app):
        task = {"coroutine": coroutine, "plain": plain}[kind]
        job = await ended(app, task.enqueue().id)
    assert job.state is JobState.DEAD
    assert (job.error or "").startswith("nul \\x00, surrogate \\ud800, fine: é日\n")
    assert job.error_type == f"{__name__}.Str\\x00ange\\udcff"
    assert "nul \\x00, surrogate \\ud800" in caplog.text
    assert caplog.text.encode()


async def test_a_plain_function_that_returns_a_coroutine(app: Mutirao) -> None:
    """A decorator that hides that a handler is one: it is awaited, not dropped."""
    done: list[int] = []

    async def send(order_id: int) -> None:
        done.append(order_id)

    @app.task(name="send")
    def decorated(order_id: int) -> Any:
        return send(order_id)

    async with working(app):
        job = await ended(app, decorated.enqueue(7).id)
    assert (job.state, done) == (JobState.SUCCEEDED, [7])


async def test_a_process_handler_that_returns_a_coroutine(pg_app: Mutirao) -> None:
    """Nobody can await it there: that is an error, and not a success."""
    children.register(pg_app)
    async with working(pg_app):
        call = children.returns_coroutine.using(max_attempts=1).job()
        job = await ended(pg_app, pg_app.submit(call).id)
    assert (job.state, job.error_type) == (JobState.DEAD, "TypeError")
    assert "coroutine" in (job.error or "")


async def test_a_child_s_arguments_are_wrong(app: Mutirao) -> None:
    """A handler that enqueues something wrongly has failed; its own payload was fine."""

    @app.task
    async def child(number: int) -> None:
        pass

    @app.task(retry=AGAIN)
    async def parent() -> None:
        child.enqueue("seven")  # type: ignore[arg-type]

    async with working(app):
        job = await ended(app, parent.enqueue().id)
    assert (outcomes(job), job.error_type) == (["retried", "dead"], "InvalidArguments")
