"""A worker to send signals to: `signalled URL [setting=value …]`.

Says on standard output what its handlers do. A line on standard input lets them go on. `margin` are
the seconds after the grace period before the process ends anyway.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from mutirao import Job, Mutirao
from mutirao.engine.workers import process
from tests.support.waiting import until

app = Mutirao(sys.argv[1] if len(sys.argv) > 1 else "sqlite:///never-opened.db")
go = threading.Event()


def say(*words: object) -> None:
    """Print a line at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


@app.task
async def hold(job: Job) -> None:
    """Wait as a coroutine."""
    say("begun", job.id)
    await until(go.is_set, deadline=3_600)


@app.task
def hold_thread(job: Job) -> None:
    """Wait in a thread."""
    say("begun", job.id)
    go.wait()


@app.task
async def hold_elsewhere(job: Job) -> None:
    """Wait in a thread that is not the worker's."""
    say("begun", job.id)
    await asyncio.to_thread(go.wait)


@app.task(timeout=0.2, max_attempts=1)
def overstay(job: Job) -> None:
    """Wait in a thread for longer than there is time."""
    say("begun", job.id)
    go.wait()


@app.task(process=True)
def hold_process(job: Job, path: str) -> None:
    """Wait in a process, for a file to appear."""
    say("begun", job.id, os.getpid())
    while not Path(path).exists():
        time.sleep(0.01)


@app.task
async def ignore(job: Job) -> None:
    """Never end, whoever asks for it."""
    say("begun", job.id)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


@app.task
async def block(job: Job) -> None:
    """Keep the event loop to itself."""
    say("begun", job.id)
    while not go.is_set():
        sum(range(1_000))


@app.task(max_attempts=1)
async def leave() -> None:
    """End the program, or so it thinks."""
    sys.exit(3)


@app.task(max_attempts=1)
def leave_thread() -> None:
    """The same from a thread."""
    sys.exit(3)


@app.task(max_attempts=1, process=True)
def leave_process() -> None:
    """The same from a child."""
    sys.exit(3)


@app.task
async def quick(job: Job) -> None:
    """Do hardly anything."""
    say("quick", job.id)


def listen() -> None:
    """Take the line on standard input."""
    if sys.stdin.readline():
        go.set()


def main() -> int:
    """Run the worker until a signal."""
    settings = dict(each.split("=") for each in sys.argv[2:])
    process.STOP_MARGIN = float(settings.pop("margin", process.STOP_MARGIN))
    logging.basicConfig(level=logging.INFO)
    threading.Thread(target=listen, daemon=True).start()
    whole = {"concurrency": int}
    given: Any = {name: whole.get(name, float)(value) for name, value in settings.items()}
    return app.run_worker(**given)


if __name__ == "__main__":
    # Children find the tasks in the module, not in the program.
    from tests.integration.worker.programs import signalled

    sys.exit(signalled.main())
