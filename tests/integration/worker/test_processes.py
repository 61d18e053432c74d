"""Child processes that fail in every way: at worst the attempt ends, and never what runs it."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.context import SpawnProcess
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from mutirao import Mutirao, Task
from mutirao.model.jobs.job import Claim, OutcomeKind
from mutirao.model.jobs.outcome import Outcome
from tests.integration.worker import unruly
from tests.integration.worker.children import is_gone
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.engine import (
    NotStarted,
    ProcessDied,
    Processes,
    ProcessFailed,
    Running,
    Threads,
    processes as engine,
)
from tests.support.waiting import DEADLINE, soon, until

ROOT = Path(__file__).parents[3]
NOW = datetime.now(UTC)
Told = tuple[float, float | None, str | None]


class Shop:
    """Child processes without a worker or a database."""

    def __init__(self) -> None:
        self.returned: list[int] = []  # how many were stuck when a stuck thread returned
        self.told: list[tuple[int, Told]] = []  # by which job
        self.threads = Threads(lambda: self.returned.append(self.threads.stuck))
        self.processes = Processes(self.threads)
        self._last = 0

    async def run(self, task: Task[..., Any], **args: object) -> Outcome:
        """Run a task's handler once."""
        self._last += 1
        return await self.serve(task, claim(self._last, task, json.dumps(args)))

    async def serve(self, task: Task[..., Any], claim: Claim) -> Outcome:
        """Run a handler for a claim."""

        def report(claim: Claim, *told: Any) -> None:
            self.told.append((claim.id, told))

        begin: Any = None
        return await soon(self.processes.run(task, claim, Running(claim, begin), report))

    async def pid(self) -> int:
        """Return the id of the process that serves next."""
        return int(result(await self.run(unruly.pid)))


def claim(id: int, task: Task[..., Any], args: str = "{}") -> Claim:
    """Return a claim of a job, at its first attempt."""
    nothing: list[Any] = [None] * 8
    return Claim(id, 1, 1, task.name, args, "default", 0, NOW, NOW, *nothing)


def result(outcome: Outcome) -> Any:
    """Return what the handler returned."""
    assert outcome.kind is OutcomeKind.SUCCEEDED, outcome
    assert outcome.result is not None
    return json.loads(outcome.result.json)


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    """No child yet."""
    shop = Shop()
    yield shop
    shop.processes.close()
    shop.threads.close()


@pytest.mark.parametrize("when", ["between two calls", "during the next call"])
async def test_a_thread_that_tells_too_late(shop: Shop, tmp_path: Path, when: str) -> None:
    """Nobody hears it: neither is its child lost, nor is the next job said to have come so far."""
    path = tmp_path / "go"
    first = result(await shop.run(unruly.leave_thread, path=str(path)))
    if when == "between two calls":
        path.touch()
        await until(Path(f"{path}.told").exists)
    assert result(await shop.run(unruly.let_tell, path=str(path))) == first
    assert [await shop.pid() for _ in range(2)] == [first] * 2
    assert shop.told == []


@pytest.mark.parametrize("kind", unruly.BABBLE)
async def test_a_process_that_speaks_nonsense(shop: Shop, tmp_path: Path, kind: str) -> None:
    """Fails its attempt, and is killed."""
    path = tmp_path / "pid"
    with pytest.raises(ProcessFailed, match="its process spoke nonsense: "):
        await shop.run(unruly.babble, kind=kind, path=str(path))
    assert is_gone(int(path.read_text()))
    assert shop.told == []


async def test_a_child_is_mended_for_its_next_handler(shop: Shop, tmp_path: Path) -> None:
    """It keeps serving, where one before has closed its streams and lost its directory."""
    gone = tmp_path / "gone"
    gone.mkdir()
    child = result(await shop.run(unruly.spoil, path=str(gone)))
    found = result(await shop.run(unruly.surroundings))
    assert found == [child, [True] * 3, str(Path.cwd())]


async def test_nonsense_in_history(pg_app: Mutirao, tmp_path: Path) -> None:
    """The attempt says what was wrong, and the job runs again."""
    pg_app.register(unruly.babble)
    async with working(pg_app, concurrency=1):
        call = unruly.babble.job(kind="words", path=str(tmp_path / "pid"))
        job = await ended(pg_app, pg_app.submit(call).id)
    assert outcomes(job) == ["retried", "succeeded"]
    assert job.attempts[0].error_type == "mutirao.engine.calls.processes.ProcessFailed"
    assert "spoke nonsense: b'hello" in (job.attempts[0].error or "")


async def test_nonsense_of_an_idle_process(shop: Shop, tmp_path: Path) -> None:
    """Costs the next call nothing: it has another process."""
    path = tmp_path / "go"
    first = await shop.pid()
    await shop.run(unruly.babble_later, path=str(path))
    path.touch()
    await until(Path(f"{path}.told").exists)
    assert await shop.pid() != first
    await until(lambda: is_gone(first))


def kill_and_wait(pid: int) -> None:
    """Kill a child of ours, and take its exit status away from whoever started it."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


async def test_somebody_else_waited_for_it(shop: Shop) -> None:
    """As a handler of the worker may: its exit status is lost, and nothing else."""
    first = await shop.pid()
    kill_and_wait(first)
    second = await shop.pid()
    assert second != first
    kill_and_wait(second)
    await soon(asyncio.to_thread(shop.processes.close), deadline=engine.REAP_TIMEOUT / 2)


async def test_killed_while_a_fork_of_it_lives(shop: Shop, tmp_path: Path) -> None:
    """The attempt fails at once, though the fork has the ends of all pipes.

    It is not killed with the child, as it has left its group.
    """
    path = tmp_path / "fork"
    try:
        with pytest.raises(ProcessDied, match="its process ended with exit code -9"):
            await shop.run(unruly.fork_and_die, path=str(path))
        assert not is_gone(int(path.read_text()))
    finally:
        os.kill(int(path.read_text()), signal.SIGKILL)


async def test_without_descriptors_of_processes(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system has none, the same."""
    monkeypatch.setattr(engine, "end_of", lambda pid: None)
    await test_killed_while_a_fork_of_it_lives(shop, tmp_path)


async def test_a_signal_to_a_fork(shop: Shop) -> None:
    """Does what it does by default, though the child itself does not heed it."""
    for task in (unruly.signal_fork, unruly.signal_fork_of_thread):
        for number in (signal.SIGTERM, signal.SIGINT):
            assert result(await shop.run(task, number=number)) == -number


async def test_a_fork_that_tells(shop: Shop) -> None:
    """Is told that it cannot."""
    assert result(await shop.run(unruly.fork_that_tells)) == 5
    assert shop.told == []


async def test_a_fork_that_comes_out_of_the_handler(shop: Shop) -> None:
    """Ends as a program ends, and gives no answer in its parent's stead."""
    statuses = {"exits": 3, "raises": 1, "returns": 0}
    for how, status in statuses.items():
        assert result(await shop.run(unruly.fork_that_comes_out, how=how)) == status


async def test_progress_that_cannot_be_stored(shop: Shop) -> None:
    """Numbers that are none fail the attempt; notes are made fit; the child lives on."""
    errors, first = {}, await shop.pid()
    for kind in unruly.TOLD:
        errors[kind] = (await shop.run(unruly.tell, kind=kind)).error_type
    assert await shop.pid() == first
    assert errors == {
        "nan": "InvalidProgress",
        "infinite": "InvalidProgress",
        "too large": "InvalidProgress",
        "a word": "InvalidProgress",
        "nothing": "InvalidProgress",
        "number as note": "InvalidProgress",
        "bytes as note": "InvalidProgress",
        "surrogate": None,
        "huge": None,
    }
    notes = [note for _, (_, _, note) in shop.told]
    assert notes == ["half \\ud800 and nul \\x00", ("\\ud800" * 100)[:500]]


async def test_more_than_sockets_hold(shop: Shop) -> None:
    """A megabyte there, to a process that does not read yet, and back."""
    text = '"' * 500_000
    for _ in range(2):
        assert result(await shop.run(unruly.echo, text=text)) == text


async def test_an_order_that_the_child_cannot_read(shop: Shop) -> None:
    """Is a failed attempt that says why."""
    strange: Any = "high"
    with pytest.raises(ProcessFailed, match=r"could not run it: .*Expected `int`, got `str`"):
        await shop.serve(unruly.pid, claim(1, unruly.pid)._replace(priority=strange))
    await shop.pid()


MODULE = """
import multiprocessing, os, sys, threading
from mutirao import Mutirao

if multiprocessing.parent_process() is not None:
    {action}

app = Mutirao("sqlite:///never-opened.db")

@app.task(process=True)
def work() -> None: ...
"""


@pytest.mark.parametrize(
    ("action", "error", "said"),
    [
        ("raise LookupError('no such setting')", ProcessFailed, "LookupError: no such setting"),
        ("sys.exit('not here')", ProcessFailed, "SystemExit: not here"),
        ("os._exit(7)", ProcessDied, "exit code 7 while it started"),
        ("threading.Event().wait()", ProcessFailed, "did not start within 2 s"),
    ],
)
async def test_a_module_that_cannot_be_imported(
    shop: Shop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
    error: type[Exception],
    said: str,
) -> None:
    """By the child, now: the attempt fails with the reason, and the child is no more."""
    (tmp_path / "fickle.py").write_text(MODULE.format(action=action))
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        patch.setattr(engine, "START_TIMEOUT", 2.0 if "wait" in action else engine.START_TIMEOUT)
        module = importlib.import_module("fickle")
        with pytest.raises(error, match=said):
            await shop.run(module.work)
        del sys.modules["fickle"]
    assert shop.processes._all == set()


async def test_no_process_can_be_started(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler is not called; the error says what the system said, the next may be luckier."""

    def start(process: SpawnProcess) -> None:
        raise BlockingIOError("no more processes")

    with monkeypatch.context() as patch:
        patch.setattr(SpawnProcess, "start", start)
        with pytest.raises(NotStarted, match="no more processes"):
            await shop.run(unruly.pid)
    await shop.pid()


async def test_no_thread_can_be_started(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(NotStarted, match="can't start new thread"):
            await shop.run(unruly.pid)
    await shop.pid()


async def test_a_burial_that_takes_long(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does not keep the event loop from other work; no thread is said to be stuck meanwhile."""
    path, dead = tmp_path / "pid", threading.Event()
    lives = engine._Child._lives
    attempt = asyncio.create_task(shop.run(unruly.wait, path=str(path)))
    await until(path.exists)
    monkeypatch.setattr(engine, "REAP_TIMEOUT", 100.0)
    monkeypatch.setattr(engine._Child, "_lives", lambda self: not dead.is_set() or lives(self))
    attempt.cancel()
    await until(lambda: is_zombie(int(path.read_text())))
    assert not attempt.done()
    dead.set()
    with pytest.raises(asyncio.CancelledError):
        await soon(attempt)
    assert is_gone(int(path.read_text()))
    assert (shop.threads.stuck, shop.returned) == (0, [])


def is_zombie(pid: int) -> bool:
    """Tell whether a process is dead and not buried."""
    how = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, pid, how) is not None


@contextmanager
def abandoning(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program; it does not stay."""
    command = [sys.executable, "-m", "tests.integration.worker.programs.abandoning", *arguments]
    there = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    with subprocess.Popen(command, cwd=ROOT, stdout=PIPE, text=True, env=there) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_program_that_forgets_its_child() -> None:
    """Ends all the same, and the child with it."""
    with abandoning("forget") as program:
        assert program.wait(DEADLINE) == 0


def test_a_program_killed_while_a_fork_of_it_lives(tmp_path: Path) -> None:
    """Its child ends, though the fork has the ends of all pipes."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with abandoning("be killed", str(path)) as program:
        assert program.stdout is not None
        fork = int(program.stdout.readline())
        try:
            with path.open() as pipe:
                program.kill()
                assert select.select([pipe], [], [], DEADLINE)[0] == [pipe]
                assert pipe.read() == ""
        finally:
            os.kill(fork, signal.SIGKILL)
