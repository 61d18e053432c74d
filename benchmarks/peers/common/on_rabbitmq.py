"""What adapters on RabbitMQ have in common: `adapter_rabbitmq.py URL JOBS ALONE`, one process each.

Each publishes ALONE messages one by one and JOBS many at once, drains them with handlers that do
nothing, and prints the three rates in messages a second, as one line of JSON. A drain begins before
the worker is made, and ends when the last handler starts. It begins when all has arrived: a broker
that is short of memory reads nothing for a while, and who publishes without confirms does not learn
of that, nor that a message was lost.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

PATIENCE = 300.0  # seconds
STILL, LOOK_EVERY = 10.0, 0.2  # seconds without a further message, after which the rest is lost
QUEUE = "mutirao-bench-{}"  # so all that is made at the broker is recognized


class Count:
    """Counts what ran; `done` is set when all that was expected has."""

    def __init__(self) -> None:
        self._left, self.done = 0, threading.Event()

    def expect(self, jobs: int) -> None:
        """Begin to count so many."""
        self._left = jobs

    def one(self) -> None:
        """Count one."""
        self._left -= 1
        if not self._left:
            self.done.set()


def asked() -> tuple[str, int, int]:
    """Return the URL of the broker, and how many messages at once and one by one."""
    return sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def rate(number: int, work: Callable[[], object]) -> float:
    """Return how many a second, when so many take as long as `work`."""
    started = time.perf_counter()
    work()
    return number / (time.perf_counter() - started)


def arrived(published: int, waiting: Callable[[], int]) -> int:
    """Return how many messages the broker has, once it has all, or no more come."""
    found, since = waiting(), time.monotonic()
    while found < published and time.monotonic() < since + STILL:
        time.sleep(LOOK_EVERY)
        if (now := waiting()) != found:
            found, since = now, time.monotonic()
    return found


def tell(one_by_one: float, many: float, drained: float, cpu: float, lost: int = 0) -> NoReturn:
    """Print the figures and end, whatever else runs in this process, or writes where `print` does.

    `cpu`: microseconds of processor time for one that is drained; `lost`: published in vain.
    """
    rates = {"one_by_one": one_by_one, "many": many, "drained": drained, "cpu": cpu, "lost": lost}
    print(json.dumps(rates), file=sys.__stdout__, flush=True)
    os._exit(0)


def drain(
    published: int,
    waiting: Callable[[], int],
    count: Count,
    begin: Callable[[], object],
    one_by_one: float,
    many: float,
) -> None:
    """Have `begin` run a worker, in this thread, and tell all rates once the drain is over.

    `waiting`: returns how many messages the broker has.
    """
    jobs = arrived(published, waiting)
    count.expect(jobs)
    started, spent = time.perf_counter(), time.process_time()

    def wait() -> None:
        if not count.done.wait(PATIENCE):
            print(f"not all of {jobs} ran", file=sys.__stderr__, flush=True)
            os._exit(1)
        drained = jobs / (time.perf_counter() - started)
        cpu = (time.process_time() - spent) / jobs * 1e6
        tell(one_by_one, many, drained, cpu, published - jobs)

    waiter = threading.Thread(target=wait)
    waiter.start()
    begin()
    waiter.join()
