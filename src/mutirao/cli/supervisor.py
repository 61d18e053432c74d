"""A supervisor that keeps several processes of one command running until it is told to stop."""

import asyncio
import logging
import signal
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

log = logging.getLogger("mutirao")

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds before a dead process is started again
STEADY = 60.0  # seconds after which a process counts as healthy, and its next death as the first
HEEDED = (0, -signal.SIGTERM, -signal.SIGINT)  # of a process that was told to stop
HOPELESS = (2, 3)  # misuse, configuration or schema errors: a restart does not help


class Supervisor:
    """A supervisor of `count` processes of `command`.

    A process that dies is started again, after a wait that doubles; one that ends by itself (status
    0) is not. SIGTERM and SIGINT are passed on. The processes have a process group of their own, so
    that a Ctrl-C at the terminal reaches them only once, through the supervisor.
    """

    def __init__(self, command: Sequence[str], count: int) -> None:
        self._command = command
        self._count = count
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        """Run until all processes have ended; return 0, or the greatest exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._pass_on, number)
        statuses = await asyncio.gather(*(self._keep(place) for place in range(self._count)))
        return max(statuses)

    async def _keep(self, place: int) -> int:
        wait = FIRST_WAIT
        while True:
            began = monotonic()
            status = await self._run_once(place)
            if self._stopping.is_set():
                return 0 if status in HEEDED else 1
            if status == 0 or status in HOPELESS:
                return status
            if monotonic() - began > STEADY:
                wait = FIRST_WAIT
            log.warning("worker process %d %s; again in %.1f s", place, _ended(status), wait)
            if await self._stopped_within(wait):
                return 0
            wait = min(2 * wait, LONGEST_WAIT)

    async def _run_once(self, place: int) -> int:
        process = await asyncio.create_subprocess_exec(*self._command, process_group=0)
        log.info("worker process %d has pid %d", place, process.pid)
        self._running[place] = process
        if self._stopping.is_set():
            _send(process, signal.SIGTERM)
        try:
            return await process.wait()
        finally:
            del self._running[place]

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _pass_on(self, number: signal.Signals) -> None:
        self._stopping.set()
        log.info("%s: passed on to %d worker processes", number.name, len(self._running))
        for process in self._running.values():
            _send(process, number)


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # the process has ended meanwhile
        process.send_signal(number)


def _ended(status: int) -> str:
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"
