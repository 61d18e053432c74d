"""Jobs of a worker that was killed go on, and so do those that hang in a worker that lives.

In a table of one's own something looks for tasks that nobody has touched for long:

    UPDATE task SET status = 'error', error = 'hanged', delayed_to = now()
    WHERE status = 'running' AND updated < now() - interval '1 hour';

so a healthy task of two hours runs twice, and a killed one waits for an hour. Here a worker's jobs
are given to others when its heart has stopped, whatever they were to take; and a task says how long
an attempt may take.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable

from mutirao import Job, Retry
from reindex import app, ask

HEARTBEAT, EXPIRY = 0.5, 2.0  # seconds; 5 and 15 unless asked otherwise
DEADLINE = 100.0  # seconds
WORK = (sys.executable, "-m", "mutirao", "worker", "hang:app", "--tasks", "hang.killed")

RUNNING = "SELECT id FROM mutirao_jobs WHERE id = :id AND state = 'running'"
LIVE = "SELECT id FROM mutirao_jobs WHERE task LIKE 'hang.%' AND finished_at IS NULL"
ATTEMPTS = "SELECT outcome, error_type FROM mutirao_attempts WHERE task = :task ORDER BY run"


@app.task(name="hang.killed")
async def killed(job: Job) -> None:
    """Take for ever, unless the worker before was killed."""
    if job.attempt == 1:
        await asyncio.Event().wait()


@app.task(name="hang.hanging", timeout=0.5, retry=Retry.fixed(3, interval=0))
async def hanging(job: Job) -> None:
    """Hang once."""
    if job.attempt == 1:
        await asyncio.Event().wait()


def until(look: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + DEADLINE
    while not look():
        if time.monotonic() > end:
            sys.exit(f"nothing came of it within {DEADLINE:.0f} s")
        time.sleep(0.05)


if __name__ == "__main__":
    first = killed.enqueue()
    beats = ("--heartbeat", str(HEARTBEAT), "--expiry", str(EXPIRY))
    with subprocess.Popen([*WORK, *beats, "--log-level", "error"]) as worker:
        until(lambda: bool(ask(RUNNING, id=first.id)))
        worker.kill()
    hanging.enqueue()
    with app.worker(heartbeat=HEARTBEAT, expiry=EXPIRY):
        until(lambda: not ask(LIVE))
    for task in ("hang.killed", "hang.hanging"):
        print(task, *(outcome for outcome, _ in ask(ATTEMPTS, task=task)))
    print(ask(ATTEMPTS, task="hang.hanging")[0].error_type)
