"""A worker as a whole process: signals, exit statuses, and an end in every case."""

import asyncio
import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from mutirao.engine.calls.resources import mend_standard_streams
from mutirao.engine.workers.alarm import Alarm
from mutirao.engine.workers.fleet import Serving
from mutirao.errors import (
    ConfigurationError,
    HandlersCannotStart,
    SchemaError,
    TransportDenied,
    TransportMismatch,
    WorkerStuck,
)
from mutirao.log import log

# Exit statuses of a worker; 1 to 4 are common to all commands.
ENDED, MISUSED, SCHEMA, UNREACHABLE = 0, 2, 3, 4
FAILED, STUCK, FORCED, STARTLESS = 5, 6, 7, 8
HURRIED_STOP_LIMIT = 5.0  # seconds that a hurried stop may take before the process ends anyway
STOP_MARGIN = 15.0  # seconds after the grace period before the process ends anyway
STOP_TIMED_OUT = "handlers, or what they started, did not end in time"


def run(make: Callable[[], Serving]) -> int:
    """Run a worker until SIGTERM or SIGINT; return the process's exit status.

    The first signal stops gracefully, at the latest 15 seconds after the grace period. The second
    one interrupts running handlers, releases their jobs and ends, within five seconds whatever the
    database and the handlers do.
    """
    mend_standard_streams()  # before anything else is opened under their numbers
    alarm = Alarm()
    try:
        # Ending the loop waits for work that handlers gave to the loop's own threads.
        return asyncio.run(_serve(make, alarm))
    finally:
        alarm.clear()


async def _serve(make: Callable[[], Serving], alarm: Alarm) -> int:
    worker = make()
    worker.on_blocked = lambda: alarm.ring(STUCK, "the event loop is lost")
    stopping = asyncio.Event()

    def heed(name: str, times: int) -> None:
        if times == 1:
            worker.stop_claiming()
            log.info("%s: stopping; once more to end at once", name)
            stopping.set()
        else:
            log.warning("%s again: ending at once", name)
            # The signal may have come while `_serve` set an alarm.
            alarm.set(HURRIED_STOP_LIMIT, FORCED, STOP_TIMED_OUT)
            worker.end_grace()

    with _signals(heed, alarm):
        await worker.start()
        await until_ending(worker, stopping)
        grace = worker.settings.grace
        if worker.failure is not None:
            alarm.set(
                max(HURRIED_STOP_LIMIT, min(grace, STOP_MARGIN)), _status(worker), STOP_TIMED_OUT
            )
        else:
            alarm.set(grace + STOP_MARGIN, FORCED, STOP_TIMED_OUT)
        await worker.stop()
    return _status(worker)


async def until_ending(worker: Serving, asked: asyncio.Event) -> None:
    """Wait until a worker has ended, or somebody asks it to.

    If it is outdated it takes no more meanwhile, and ends once what runs has, however long that
    takes; who asks then gives it the grace period from that moment on.
    """
    await _first_of(worker.failed, worker.ended, worker.outdated, asked)
    if worker.outdated.is_set() and not (worker.failed.is_set() or asked.is_set()):
        draining = asyncio.create_task(worker.stop(inf))
        await _first_of(worker.failed, worker.ended, asked)
        asyncio.get_running_loop().call_later(worker.settings.grace, worker.end_grace)
        if worker.ended.is_set():
            await draining


async def _first_of(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


def _status(worker: Serving) -> int:
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

    def on_signal(number: int, frame: object) -> None:
        times = next(signals)  # atomic: another signal may come between two steps
        if times > 1:
            alarm.set(HURRIED_STOP_LIMIT, FORCED, STOP_TIMED_OUT)
        loop.call_soon_threadsafe(heed, signal.Signals(number).name, times)

    before = {each: signal.signal(each, on_signal) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
