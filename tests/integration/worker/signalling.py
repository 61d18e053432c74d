"""A worker in a process of its own, to send signals to: the program `signalled`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mutirao import Mutirao, NewJob
from tests.support.waiting import DEADLINE, soon

ROOT = Path(__file__).parents[3]
PROGRAM = "tests.integration.worker.programs.signalled"


class Running:
    """A worker in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def says(self, *lines: str) -> None:
        """Wait until it has printed lines that begin so, in any order."""
        assert self._process.stdout is not None
        wanted = set(lines)
        while wanted:
            line = (await soon(self._process.stdout.readline())).decode()
            assert line, f"it ended without saying {wanted}"
            wanted -= {each for each in wanted if line.startswith(each)}

    async def logs(self, *texts: str) -> str:
        """Wait until it has logged lines with these texts in them, in this order."""
        assert self._process.stderr is not None
        for text in texts:
            line = ""
            while text not in line:
                line = (await soon(self._process.stderr.readline())).decode()
                assert line, f"it ended without logging {text!r}"
        return line

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def let_go(self) -> None:
        """Let its handlers end."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def ends(self, deadline: float = DEADLINE) -> int:
        """Wait until it has ended; return its status."""
        return await soon(self._process.wait(), deadline=deadline)


@asynccontextmanager
async def running(app: Mutirao, **settings: float) -> AsyncIterator[Running]:
    """Run the program on the application's database; it does not outlive the test."""
    usual: dict[str, float] = {"heartbeat": 0.2, "expiry": 2.0}
    options = [f"{name}={value}" for name, value in {**usual, **settings}.items()]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", PROGRAM, str(app.url), *options),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        process_group=0,
    )
    try:
        yield Running(process)
    except BaseException as failure:
        failure.add_note(f"the worker had logged:\n{await _ended(process)}")
        raise
    finally:
        await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> str:
    """Kill it if it runs; return what it has logged that nobody has read."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
    return (await process.communicate())[1].decode()


def enqueue(app: Mutirao, *tasks: str, args: str = "{}") -> list[int]:
    """Enqueue a job of each task; return the ids."""
    return app.store.enqueue([NewJob(task=task, args=args) for task in tasks])
