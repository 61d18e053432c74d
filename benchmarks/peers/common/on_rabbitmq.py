"""What adapters on RabbitMQ have in common: `adapter_rabbitmq.py URL JOBS ALONE`, one process each.

Each publishes ALONE messages one by one and JOBS many at once, drains all of them with handlers
that do nothing, and prints the three rates in messages a second, as one line of JSON. A drain
begins before the worker is made, and ends when the last handler starts.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

PATIENCE = 600.0  # seconds
QUEUE = "mutirao-bench-{}"  # so all that is made at the broker is recognized


class Count:
    """Counts what ran; `done` is set when all has."""

    def __init__(self, jobs: int) -> None:
        self._left, self.done = jobs, threading.Event()

    def one(self) -> None:
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


def tell(one_by_one: float, many: float, drained: float) -> NoReturn:
    """Print the rates and end, whatever else runs in this process, or writes where `print` does."""
    rates = {"one_by_one": one_by_one, "many": many, "drained": drained}
    print(json.dumps(rates), file=sys.__stdout__, flush=True)
    os._exit(0)


def drain(
    jobs: int, count: Count, begin: Callable[[], object], one_by_one: float, many: float
) -> None:
    """Have `begin` run a worker, in this thread, and tell all rates once the drain is over."""
    started = time.perf_counter()

    def wait() -> None:
        if not count.done.wait(PATIENCE):
            print("not all ran", file=sys.stderr)
            os._exit(1)
        tell(one_by_one, many, jobs / (time.perf_counter() - started))

    waiting = threading.Thread(target=wait)
    waiting.start()
    begin()
    waiting.join()
