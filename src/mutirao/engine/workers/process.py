"""Runs a worker as a whole process: signals, exit statuses, and an alarm that ends it in time."""

import asyncio
import faulthandler
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from math import inf
from time import monotonic

from mutirao.aio import first_of
from mutirao.engine.calls.handler_damage import mend_standard_streams, write_whole_lines
from mutirao.engine.workers.lifecycle import Service
from mutirao.engine.workers.service_manager import STOPPING, ServiceManager
from mutirao.errors import (
    ConfigurationError,
    HandlersCannotStart,
    SchemaError,
    TransportDenied,
    TransportMismatch,
    WorkerStuck,
)
from mutirao.log import log

# Further seconds, after which the process ends even if no Python code can run any more.
HARD_EXIT_MARGIN = 2.0
STANDARD_ERROR = 2  # leads to /dev/null then


class Alarm:
    """The one alarm of a process; setting it again can only make it earlier."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._at = inf  # monotonic

    def set(self, seconds: float, status: int, why: str) -> None:
        """End the process in `seconds` with this exit status, and log why."""
        if monotonic() + seconds >= self._at:
            return
        self.clear()
        self._at = monotonic() + seconds
        self._timer = threading.Timer(seconds, self.ring, (status, why))
        self._timer.daemon = True
        self._timer.start()
        # The timer cannot run while a thread never releases the GIL. The status is 1 then.
        faulthandler.dump_traceback_later(seconds + HARD_EXIT_MARGIN, exit=True, file=_where())

    def clear(self) -> None:
        """Cancel the alarm, so that the process continues."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._at = None, inf
            faulthandler.cancel_dump_traceback_later()

    def ring(self, status: int, why: str) -> None:
        """End the process now; print the stacks of all its threads."""
        log.critical("%s; ending with status %s", why, status)
        with suppress(Exception):  # standard error may be closed
            faulthandler.dump_traceback(_where(), all_threads=True)
            sys.stderr.flush()
        os._exit(status)


def _where() -> int:
    """Return the descriptor of standard error; Python has none if it was started without."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, ValueError, OSError):
        return STANDARD_ERROR


# Exit statuses of a worker; 1 to 4 are common to all commands.
ENDED, MISUSED, SCHEMA, UNREACHABLE = 0, 2, 3, 4
FAILED, STUCK, FORCED, STARTLESS = 5, 6, 7, 8
HURRIED_STOP_LIMIT = 5.0  # seconds that a hurried stop may take before the process ends anyway
STOP_MARGIN = 15.0  # seconds after the grace period before the process ends anyway
STOP_TIMED_OUT = "handlers, or what they started, did not end in time"


def run(make: Callable[[], Service]) -> int:
    """Run a worker until SIGTERM or SIGINT; return the process's exit status.

    The first signal stops gracefully, at the latest 15 seconds after the grace period. The second
    one interrupts running handlers, releases their jobs and ends, within five seconds whatever the
    database and the handlers do.
    """
    mend_standard_streams()  # before anything else is opened under their numbers
    write_whole_lines()
    alarm, manager = Alarm(), ServiceManager.of_this_process()
    try:
        # Ending the loop waits for work that handlers gave to the loop's own threads.
        return asyncio.run(_serve(make, alarm, manager))
    finally:
        alarm.clear()


async def _serve(make: Callable[[], Service], alarm: Alarm, manager: ServiceManager) -> int:
    worker = make()
    worker.on_blocked = lambda: alarm.ring(STUCK, "the event loop is lost")
    stopping = asyncio.Event()

    def heed(name: str, times: int) -> None:
        if times == 1:
            worker.stop_claiming()
            manager.send(STOPPING)
            log.info("%s: stopping; once more to end at once", name)
            stopping.set()
        else:
            log.warning("%s again: ending at once", name)
            # The signal may have come while `_serve` set an alarm.
            alarm.set(HURRIED_STOP_LIMIT, FORCED, STOP_TIMED_OUT)
            worker.end_grace()

    with _signals(heed, alarm):
        await worker.start()
        following = asyncio.create_task(manager.follow(worker))
        await until_ending(worker, stopping)
        grace = worker.settings.grace
        if worker.failure is not None:
            alarm.set(
                max(HURRIED_STOP_LIMIT, min(grace, STOP_MARGIN)), _status(worker), STOP_TIMED_OUT
            )
        else:
            alarm.set(grace + STOP_MARGIN, FORCED, STOP_TIMED_OUT)
        await worker.stop()
        following.cancel()
        await asyncio.wait((following,))
    return _status(worker)


async def until_ending(worker: Service, asked: asyncio.Event) -> None:
    """Wait until a worker has ended, or a stop was asked for.

    An outdated worker claims no more meanwhile, and ends after its running attempts, however long
    these take; a stop that is asked for then gives them the grace period from that moment on.
    """
    await first_of(worker.failed, worker.ended, worker.outdated, asked)
    if worker.outdated.is_set() and not (worker.failed.is_set() or asked.is_set()):
        draining = asyncio.create_task(worker.stop(inf))
        await first_of(worker.failed, worker.ended, asked)
        asyncio.get_running_loop().call_later(worker.settings.grace, worker.end_grace)
        if worker.ended.is_set():
            await draining


def _status(worker: Service) -> int:
    match worker.failure:
        case None:
            return ENDED
        case WorkerStuck():
            return STUCK
        case HandlersCannotStart():
            return STARTLESS
        case SchemaError() | TransportMismatch():
            return SCHEMA
        case TransportDenied():
            return UNREACHABLE
        case ConfigurationError():
            return MISUSED
    return FAILED


@contextmanager
def _signals(heed: Callable[[str, int], None], alarm: Alarm) -> Iterator[None]:
    """Pass every stop signal to `heed` in the event loop, with its name and the count.

    The event loop's own signal handlers would wait for a handler that blocks the loop. After the
    second signal the process ends even then, and prints where its threads were.
    """
    loop, signals = asyncio.get_running_loop(), itertools.count(1)
    context = copy_context()  # otherwise that of the handler which a signal interrupts

    def on_signal(number: int, frame: object) -> None:
        times = next(signals)  # atomic: another signal may come between two steps
        if times > 1:
            alarm.set(HURRIED_STOP_LIMIT, FORCED, STOP_TIMED_OUT)
        loop.call_soon_threadsafe(heed, signal.Signals(number).name, times, context=context)

    before = {each: signal.signal(each, on_signal) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
