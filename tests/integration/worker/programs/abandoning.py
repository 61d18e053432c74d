"""A program that abandons its child process: `abandoning HOW PATH`.

It ends without closing what it has; or it forks, says the fork's id, and waits to be killed; or a
handler of it starts processes, and it waits to be killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from typing import Any

from mutirao import Task
from mutirao.engine.calls.attempt import Running
from mutirao.engine.calls.processes import Processes
from mutirao.engine.calls.threads import Threads
from mutirao.model.jobs.job import Claim
from tests.integration.worker import unruly

processes = Processes(Threads())


async def serve(task: Task[..., Any], args: str) -> None:
    """Run a handler in a child."""
    nothing: list[Any] = [None] * 9
    now = datetime.now(UTC)
    begin, *rest = nothing
    claim = Claim(1, 1, 1, task.name, args, "default", 0, now, now, *rest)
    await processes.run(task, claim, Running(claim, begin))


def say_fork() -> None:
    """Fork; the fork stays until it is killed."""
    if fork := os.fork():
        sys.stdout.write(f"{fork}\n")
        sys.stdout.flush()
        return
    while True:
        signal.pause()


if __name__ == "__main__":
    if sys.argv[1] == "forget":
        asyncio.run(serve(unruly.pid, "{}"))
    elif sys.argv[1] == "use a pool":
        held = json.dumps({"method": sys.argv[2], "path": sys.argv[3]})
        asyncio.run(serve(unruly.hold_pool, held))
    else:
        held = f'{{"path": "{sys.argv[2]}"}}'
        threading.Thread(target=asyncio.run, args=[serve(unruly.hold, held)], daemon=True).start()
        with open(sys.argv[2]):
            say_fork()
        threading.Event().wait()
