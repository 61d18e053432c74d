"""Handlers for child processes that leave something behind, or say what makes no sense.

Like `children`, with an application that has no database of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mutirao import Job, Mutirao, Retry
from mutirao.engine.calls import child_protocol
from mutirao.errors import WrongState
from tests.support.waiting import wait_until

app = Mutirao("sqlite:///never-opened.db")

BABBLE: dict[str, Callable[[int], bytes]] = {
    "words": lambda order: b"hello, is anybody there?",
    "of another order": lambda order: child_protocol.packed(child_protocol.ENDED, order + 1, b"{}"),
    "no outcome": lambda order: child_protocol.packed(
        child_protocol.ENDED, order, b'{"kind": "fine"}'
    ),
    "no progress": lambda order: child_protocol.packed(
        child_protocol.PROGRESS, order, b"[null, null, null]"
    ),
}
TOLD: dict[str, tuple[Any, Any, Any]] = {
    "nan": (float("nan"), None, None),
    "infinite": (1, float("inf"), None),
    "too large": (10**400, None, None),
    "a word": ("many", None, None),
    "nothing": (None, None, None),
    "number as note": (1, None, 7),
    "bytes as note": (1, None, b"seven"),
    "surrogate": (1, None, "half \ud800 and nul \x00"),
    "huge": (1, None, "\ud800" * 5_000_000),
}


@app.task(process=True, keep_result=True)
def pid() -> int:
    """Return this process's id."""
    return os.getpid()


@app.task(process=True, keep_result=True)
def use_pool(method: str) -> list[int]:
    """Compute something in processes of this one."""
    with multiprocessing.get_context(method).Pool(2) as pool:
        return pool.map(abs, [-1, -2])


@app.task(process=True)
def hold_pool(method: str, path: str) -> None:
    """Leave the ids of this process and of those that it has started, and wait for ever."""
    with multiprocessing.get_context(method).Pool(2):
        started = [each.pid for each in multiprocessing.active_children()]
        _write(path, " ".join(map(str, [os.getpid(), *started])))
        threading.Event().wait()


@app.task(process=True, keep_result=True)
def echo(text: str) -> str:
    """Return what is given."""
    return text


@app.task(process=True, keep_result=True)
def spoil(path: str) -> int:
    """Close the standard streams, and leave a working directory that is gone."""
    os.closerange(0, 3)
    os.chdir(path)
    Path(path).rmdir()
    return os.getpid()


@app.task(process=True, keep_result=True)
def surroundings() -> tuple[int, list[bool], str]:
    """Return this process's id, whether each standard stream is open, and the directory."""
    opened = [os.path.exists(f"/proc/self/fd/{number}") for number in range(3)]
    return os.getpid(), opened, os.getcwd()


@app.task(process=True)
def wait(path: str) -> None:
    """Leave this process's id in a file, and wait for ever."""
    _write(path, os.getpid())
    threading.Event().wait()


@app.task(process=True)
def hold(path: str) -> None:
    """Have a named pipe open, for ever."""
    with Path(path).open("w"):
        threading.Event().wait()


@app.task(process=True, keep_result=True)
def leave_thread(job: Job, path: str) -> int:
    """Leave a thread that tells of progress when a file appears, and leaves another one then."""

    def late() -> None:
        wait_until(Path(path).exists)
        for _ in range(3):
            job.progress(7, of=7, note="late")
        Path(path + ".told").touch()

    threading.Thread(target=late, daemon=True).start()
    return os.getpid()


@app.task(process=True, keep_result=True)
def let_tell(path: str) -> int:
    """Have the thread that was left tell, while this one runs."""
    Path(path).touch()
    wait_until(Path(path + ".told").exists)
    return os.getpid()


@app.task(process=True, max_attempts=2, retry=Retry.fixed(interval=0))
def babble(job: Job, kind: str, path: str) -> None:
    """Say what makes no sense, once, and wait for ever."""
    if not Path(path).exists():
        _write(path, os.getpid())
        _voice(job)._socket.sendall(BABBLE[kind](_voice(job)._number))
        threading.Event().wait()


@app.task(process=True)
def babble_later(job: Job, path: str) -> None:
    """Leave a thread that says what makes no sense when a file appears."""
    voice = _voice(job)

    def late() -> None:
        wait_until(Path(path).exists)
        voice._socket.sendall(b"hello, is anybody there?")
        Path(path + ".told").touch()

    threading.Thread(target=late, daemon=True).start()


@app.task(process=True)
def fork_and_die(path: str) -> None:
    """Leave a fork in a session of its own that has all that this process has open; be killed."""
    if not os.fork():
        os.setsid()
        _write(path, os.getpid())
        _wait_to_be_killed()
    wait_until(Path(path).exists)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(process=True, keep_result=True)
def signal_fork(number: int) -> int:
    """Send a signal to a fork at once, and to this process too; return how the fork ended."""
    with _fork(_wait_to_be_killed) as fork:
        os.kill(fork, number)
        os.kill(os.getpid(), number)
        return _ending(fork)


@app.task(process=True, keep_result=True)
def signal_fork_of_thread(number: int) -> int:
    """Do so in a thread."""
    with ThreadPoolExecutor(1) as threads:
        status: int = threads.submit(signal_fork.function, number).result()
        return status


@app.task(process=True, keep_result=True)
def fork_that_tells(job: Job) -> int:
    """Tell of progress in a fork; return its exit status."""

    def tell() -> None:
        try:
            job.progress(1, note="in a fork")
        except WrongState:
            os._exit(5)

    with _fork(tell) as fork:
        return _ending(fork)


@app.task(process=True, keep_result=True)
def fork_that_comes_out(how: str) -> int:
    """Have a fork end like a handler; return its exit status."""
    if fork := os.fork():
        return _ending(fork)
    if how == "exits":
        sys.exit(3)
    if how == "raises":
        raise ValueError("in a fork")
    return 7


@app.task(process=True, max_attempts=1)
def tell(job: Job, kind: str) -> None:
    """Tell of progress that nobody can store."""
    done, of, note = TOLD[kind]
    job.progress(done, of=of, note=note)


def _voice(job: Job) -> Any:
    return job._report._voice  # type: ignore[union-attr]


def _write(path: str, number: int | str) -> None:
    Path(path + ".new").write_text(str(number))
    Path(path + ".new").rename(path)


def _wait_to_be_killed() -> None:
    while True:
        signal.pause()


@contextmanager
def _fork(work: Callable[[], object]) -> Iterator[int]:
    """Have a fork do something, and nothing after that. It does not stay."""
    if not (fork := os.fork()):
        try:
            work()
        finally:
            os._exit(0)
    try:
        yield fork
    finally:
        os.kill(fork, signal.SIGKILL)
        os.waitid(os.P_PID, fork, os.WEXITED)


def _ending(fork: int) -> int:
    """Wait until a fork has ended; return its exit status, or minus the signal that ended it."""

    def over() -> os.waitid_result | None:
        return os.waitid(os.P_PID, fork, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    ended = wait_until(over, deadline=20)
    assert ended is not None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
