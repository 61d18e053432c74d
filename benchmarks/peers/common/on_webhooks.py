"""What adapters that deliver have in common: `adapter_webhooks.py PLACE RECEIVER JOBS AT_ONCE`.

Each enqueues JOBS tasks at PLACE, a broker or a database, and has a worker post BODY to RECEIVER,
AT_ONCE at a time. It prints, as one line of JSON, how many it did in a second and the microseconds
of processor time that its process spent on each. Both begin before the worker is made.
"""

import json
import os
import sys
import time
from typing import NamedTuple, NoReturn

BODY = json.dumps({"order_id": 7, "total": 19.9, "note": "x" * 60}).encode()
HEADERS = {"Content-Type": "application/json"}
PATIENCE = 600.0  # seconds
QUEUE = "mutirao-bench-{}"  # so all that is made at the broker is recognized


class Asked(NamedTuple):
    """What the command line says."""

    place: str
    receiver: str
    jobs: int
    at_once: int


class Clock:
    """What has passed since it was made."""

    def __init__(self) -> None:
        self._started, self._cpu = time.perf_counter(), time.process_time()

    def tell(self, jobs: int) -> NoReturn:
        """Print the figures and end, whatever else runs in this process."""
        took, cpu = time.perf_counter() - self._started, time.process_time() - self._cpu
        found = {"delivered": jobs / took, "cpu": cpu / jobs * 1e6}
        print(json.dumps(found), file=sys.__stdout__, flush=True)
        os._exit(0)


def asked() -> Asked:
    """Return what the command line says."""
    place, receiver, jobs, at_once = sys.argv[1:]
    return Asked(place, receiver, int(jobs), int(at_once))
