"""Tasks that run in child processes, which must be able to import them.

Their application has no database of its own: tests register them with theirs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

from mutirao import Cancel, Dead, Job, Mutirao, Retry, Snooze

app = Mutirao("sqlite:///never-opened.db")

SIGNALS: dict[str, Callable[[], BaseException]] = {
    "retry": lambda: Retry(after=0),
    "snooze": lambda: Snooze(0),
    "dead": lambda: Dead("of no use"),
    "cancel": lambda: Cancel("not wanted"),
    "exit": lambda: SystemExit(3),
    "stop": lambda: StopIteration("over"),
    "cancelled": asyncio.CancelledError,
    "interrupt": KeyboardInterrupt,
    "error": lambda: ValueError("nul \x00 and surrogate \ud800"),
}


@app.task(process=True)
def write_pid(path: str) -> None:
    """Leave this process's id in a file."""
    Path(path).write_text(str(os.getpid()))


@app.task(process=True)
def tell(job: Job, path: str) -> None:
    """Leave in a file what the injected job says."""
    Path(path).write_text(f"{job.id} {job.attempt} {job.max_attempts} {job.timeout} {job.args}")


@app.task(process=True)
def transact(job: Job) -> None:
    """Ask for what cannot be had here."""
    job.transaction()


@app.task(process=True)
def stop() -> None:
    """End the schedule that made the job."""
    raise Cancel("all done", schedule=True)


@app.task(process=True, max_attempts=1)
def pause(job: Job) -> None:
    """Ask for what cannot be done here."""
    assert job.schedule is not None
    job.schedule.pause()


@app.task(process=True, max_attempts=2, retry=Retry.fixed(interval=0))
def fail(kind: str) -> None:
    """Raise something."""
    raise SIGNALS[kind]()


@app.task(process=True, max_attempts=2, retry=Retry.fixed(interval=0))
def die(path: str, status: int) -> None:
    """End the process at the first call, below Python."""
    if Path(path).exists():
        return
    Path(path).touch()
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


@app.task(process=True, max_attempts=2, retry=Retry.fixed(interval=0))
def hang_once(path: str) -> None:
    """Never return from the first call; the file tells the process's id."""
    if not Path(path).exists():
        Path(path + ".new").write_text(str(os.getpid()))
        Path(path + ".new").rename(path)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            sleep(60)


@app.task(process=True)
def returns_coroutine() -> Any:
    """Hand out a coroutine that nobody here can await."""
    return asyncio.sleep(0)


@app.task(process=True)
def log_and_print(text: str) -> None:
    """Say something in both ways."""
    logging.getLogger("shop").warning("%s", text)
    sys.stdout.write(text)


def register(application: Mutirao) -> Mutirao:
    """Make these tasks known to another application; return it."""
    for task in app.tasks.values():
        application.register(task)
    return application


def is_gone(pid: int) -> bool:
    """Tell whether there is no process of that id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


SIGNS = 8


@app.task(process=True, retry=Retry.fixed(2, interval=0), stall_timeout=1.5)
def mumble(job: Job, path: str) -> None:
    """Give signs of life for longer than silence may last, then fall silent; the second time end.

    How many there were is left in a file.
    """
    while job.attempt == 1:
        with open(path, "a") as said:
            said.write("1")
        if Path(path).stat().st_size == SIGNS:
            sleep(3_600)
        job.alive()
        sleep(0.3)
