"""Keeps several processes of one command running until it is asked to stop."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from time import monotonic

from mutirao.cli.unfit import STATUSES, VARIABLE, UnfitLine
from mutirao.workers import READY, STOPPING, ServiceManager

log = logging.getLogger("mutirao")

FIRST_WAIT, MAX_WAIT = 0.5, 30.0  # seconds before a dead process is started again
# Seconds after which a process counts as healthy, and its next death as the first.
HEALTHY_AFTER = 60.0
# Of a process that was asked to stop.
STATUSES_OF_OBEYED_STOP = (0, -signal.SIGTERM, -signal.SIGINT)

# Returns the next changes of code, in words, until the event is set.
Watch = Callable[[asyncio.Event], AsyncIterator[str]]


class Supervisor:
    """A supervisor of `count` processes of `command`.

    A process that dies is started again, after a wait that doubles; one that ends by itself (status
    0) is not. SIGTERM and SIGINT are passed on. The processes have a process group of their own, so
    that a Ctrl-C at the terminal reaches them only once, through the supervisor.

    `own`: the words that only the command of one place has, counted from 0.

    Systemd is notified of this process, and not of its children.

    With a `watch`, all processes are ended with SIGTERM and started again when code changes, also
    those that found it unfit. An ending process is not signalled again, as it would end at once.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        watch: Watch | None = None,
        own: Callable[[int], Sequence[str]] = lambda place: (),
    ) -> None:
        self._command, self._own = command, own
        self._count = count
        self._watch = watch
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._asked: set[int] = set()  # pids of running processes that were asked to end
        self._signalled = False  # by SIGTERM or SIGINT: another one ends all at once
        self._stopping = asyncio.Event()
        self._manager = ServiceManager.of_this_process()
        self._version = 0  # of the code: the number of changes
        self._news = asyncio.Event()  # a change, or the end; replaced after each change

    async def run(self) -> int:
        """Run until all processes have ended; return 0, or the greatest exit status.

        If watching fails, that is logged, the processes are stopped, and its error is raised.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._pass_on, number)
        watching = asyncio.create_task(self._follow())
        living = asyncio.create_task(self._manager.live(lambda: True))
        try:
            statuses = await asyncio.gather(*(self._keep(place) for place in range(self._count)))
        finally:
            self._stopping.set()
            living.cancel()
            await watching
        return max(statuses)

    async def _follow(self) -> None:
        if self._watch is None:
            return
        try:
            async for changed in self._watch(self._stopping):
                self._restart(changed)
        except Exception as error:
            log.error("%s: stopping the worker processes", error)
            self._stop(signal.SIGTERM)
            raise

    def _restart(self, changed: str) -> None:
        log.warning("%s: starting the worker processes again", changed)
        self._version += 1
        self._news.set()
        self._news = asyncio.Event()
        for process in self._running.values():
            self._end(process, signal.SIGTERM)

    async def _keep(self, place: int) -> int:
        wait = FIRST_WAIT
        while True:
            began, version = monotonic(), self._version
            status, unfit = await self._run_once(place)
            if self._stopping.is_set():
                return 0 if status in STATUSES_OF_OBEYED_STOP else 1
            if version != self._version:
                wait = FIRST_WAIT
                continue
            hopeless = unfit and self._watch is not None
            if status == 0 or (unfit and not hopeless):
                return status
            if monotonic() - began > HEALTHY_AFTER:
                wait = FIRST_WAIT
            when = "after a change" if hopeless else f"in {wait:.1f} s"
            log.warning("worker process %d %s; again %s", place, _ended(status), when)
            if await self._stopped_within(None if hopeless else wait):
                return 0
            wait = min(2 * wait, MAX_WAIT)

    async def _run_once(self, place: int) -> tuple[int, bool]:
        """Run a process; return its exit status, and whether a restart cannot help."""
        version, line = self._version, UnfitLine()
        environment = {**os.environ, VARIABLE: str(line.writing)}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *self._own(place),
                process_group=0,
                pass_fds=(line.writing,),
                env=environment,
            )
        finally:
            line.started()
        log.info("worker process %d has pid %d", place, process.pid)
        self._running[place] = process
        if len(self._running) == self._count:
            self._manager.send(READY)
        if self._stopping.is_set() or version != self._version:
            self._end(process, signal.SIGTERM)
        try:
            status = await process.wait()
            return status, status in STATUSES and line.unfit()
        finally:
            line.close()
            del self._running[place]
            self._asked.discard(process.pid)

    async def _stopped_within(self, seconds: float | None) -> bool:
        """Wait for `seconds`, or for the end or a change of code; return whether it is the end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)
        return self._stopping.is_set()

    def _pass_on(self, number: signal.Signals) -> None:
        log.info("%s: passed on to %d worker processes", number.name, len(self._running))
        if self._signalled:
            self._asked.clear()
        self._signalled = True
        self._stop(number)

    def _stop(self, number: signal.Signals) -> None:
        self._stopping.set()
        self._manager.send(STOPPING)
        self._news.set()
        for process in self._running.values():
            self._end(process, number)

    def _end(self, process: asyncio.subprocess.Process, number: signal.Signals) -> None:
        if process.pid in self._asked:
            return
        self._asked.add(process.pid)
        with suppress(ProcessLookupError):  # the process has ended meanwhile
            process.send_signal(number)


def _ended(status: int) -> str:
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"
