"""What the Python adapters share: the command line, the clock, and the worker processes.

It runs in the environments of the peers, so it imports nothing but the standard library and, for
asking whether all is settled, psycopg or PyMySQL. One rule of time for everybody: the clock of a
drain starts when the first handler starts and ends when the database says that nothing is
unsettled. Imports, connecting, registering and stopping are not counted.
"""

import argparse
import asyncio
import base64
import gc
import json
import logging
import mmap
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from importlib.metadata import version
from statistics import quantiles
from typing import Any, ClassVar

CONNECTIONS = 10  # the most that a worker may open
LOOK = 0.002  # seconds between looks at the tallies
DEADLINE = 600.0  # seconds, for a drain
ENDING = 3.0  # seconds that a worker has to sign off before it is killed
_PAUSE = (0.004, 0.012)  # seconds between two jobs of `latency`: the worker falls idle
_SLOT = 16  # bytes of a tally: how many handlers started, and when the last one did

EnqueueOne = Callable[[], object]
AsyncEnqueueOne = Callable[[], Awaitable[object]]


class Tally:
    """Counts handlers that started in this process, where the parent can see it."""

    def __init__(self, memory: mmap.mmap, slot: int, threads: bool) -> None:
        self._view = memoryview(memory)[slot * _SLOT : (slot + 1) * _SLOT].cast("q")
        self._lock = threading.Lock() if threads else None

    def add(self) -> None:
        """Count one, from the event loop or from any thread."""
        if self._lock is None:
            self._view[0] += 1
            return
        with self._lock:
            self._view[0] += 1

    def stamp(self) -> None:
        """Say when this handler started, then count it."""
        self._view[1] = time.monotonic_ns()
        self._view[0] += 1


class Peer:
    """One system; an adapter says how it is used."""

    name: ClassVar[str]
    package: ClassVar[str]
    history: ClassVar[bool]
    retries: ClassVar[bool]
    tuned_by: ClassVar[str]
    connections: ClassVar[str]
    threads: ClassVar[bool]  # whether it runs plain functions in threads
    # SQL that tells whether some job is not done and settled yet.
    unsettled: ClassVar[str]
    # SQL that counts the jobs that were done and settled; None where nothing is left of them.
    settled: ClassVar[str | None] = None
    # Whether one process runs handlers in other processes of its own, which then count too.
    processes_within: ClassVar[int] = 0
    # Whether `command` is there. Else its worker is one that the adapter's program holds.
    has_command: ClassVar[bool] = False

    def setup(self, url: str) -> None:
        """Create the schema."""
        raise NotImplementedError

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        """Enqueue `jobs` in the fastest way and return the seconds it took."""
        raise NotImplementedError

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        """Work for ever; each handler calls `count` first."""
        raise NotImplementedError

    def command(self, url: str, count: Callable[[], None]) -> None:
        """As `work`, by the command that users start, with its defaults; its log is in a file."""
        raise NotImplementedError

    def producer(self, url: str, data: str) -> AbstractContextManager[EnqueueOne]:
        """Lend what enqueues one job, on a connection of its own, and commits it."""
        raise NotImplementedError

    def aproducer(self, url: str, data: str) -> AbstractAsyncContextManager[AsyncEnqueueOne]:
        """As `producer`, where the system is asynchronous."""
        raise NotImplementedError

    @property
    def asynchronous(self) -> bool:
        """Whether it enqueues through `aproducer`."""
        return type(self).aproducer is not Peer.aproducer


def main(peer: Peer) -> None:
    """Do what the command line says and print the answer as one line of JSON."""
    options = _options()
    logging.basicConfig(level=logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))
    gc.freeze()  # spares the forked workers copies of what was imported
    answer = _WORKS[options.work](peer, options)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0)  # some leave threads behind that would wait for something


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=_WORKS)
    parser.add_argument("--url", default="")
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--waiting", type=int, help="jobs preloaded, where more than --jobs")
    parser.add_argument("--payload", type=int, default=60)
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--command", action="store_true", help="the worker is its own command")
    parser.add_argument("--until-started", action="store_true", help="the last handler has")
    return parser.parse_args()


def payload(size: int) -> str:
    """Return `size` characters that do not compress, always the same ones."""
    return base64.b64encode(random.Random(1).randbytes(size)).decode()[:size]


def _versions(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "name": peer.name,
        "version": version(peer.package),
        "history": peer.history,
        "retries": peer.retries,
        "tuned_by": peer.tuned_by,
        "connections": peer.connections,
        "threads": peer.threads,
        "command": peer.has_command,
        "runtime": f"Python {sys.version.partition(' ')[0]}",
    }


def _setup(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    peer.setup(options.url)
    return {}


def _enqueue(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    cpu = time.process_time()
    seconds = peer.enqueue(options.url, options.jobs, payload(options.payload))
    return {"seconds": seconds, "cpu": time.process_time() - cpu}


def _one(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    each = max(options.jobs // options.producers, 1)
    data = payload(options.payload)
    cpu = time.process_time()
    if peer.asynchronous:
        seconds = asyncio.run(_one_async(peer, options, each, data))
    else:
        seconds = _one_threads(peer, options, each, data)
    cpu = time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "jobs": each * options.producers}


async def _one_async(peer: Peer, options: argparse.Namespace, each: int, data: str) -> float:
    ready = asyncio.Barrier(options.producers + 1)
    producers = [
        asyncio.create_task(_produce_async(peer, options.url, each, data, ready))
        for _ in range(options.producers)
    ]
    await ready.wait()
    started = time.perf_counter()
    await asyncio.gather(*producers)
    return time.perf_counter() - started


async def _produce_async(
    peer: Peer, url: str, each: int, data: str, ready: asyncio.Barrier
) -> None:
    async with peer.aproducer(url, data) as enqueue:
        await ready.wait()
        for _ in range(each):
            await enqueue()


def _one_threads(peer: Peer, options: argparse.Namespace, each: int, data: str) -> float:
    ready = threading.Barrier(options.producers + 1)
    done = threading.Barrier(options.producers + 1)

    def produce() -> None:
        with peer.producer(options.url, data) as enqueue:
            ready.wait()
            for _ in range(each):
                enqueue()
            done.wait()

    for _ in range(options.producers):
        threading.Thread(target=produce, daemon=True).start()
    ready.wait()
    started = time.perf_counter()
    done.wait(DEADLINE)
    return time.perf_counter() - started


def _drain(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    more_wait = options.waiting is not None and options.waiting > options.jobs
    with _workers(peer, options) as workers, _asking(peer, options.url) as ask:
        workers.wait_for(1)
        started, cpu = time.perf_counter(), workers.cpu()
        workers.wait_for(options.jobs)
        last = time.perf_counter()
        while not more_wait and ask(peer.unsettled):
            workers.check()
            time.sleep(LOOK)
        ended = last if options.until_started else time.perf_counter()
        seconds, cpu = ended - started, workers.cpu() - cpu
        each = workers.each()
        settled = None if peer.settled is None or more_wait else ask(peer.settled)
    if not more_wait and sum(each) != options.jobs:
        raise SystemExit(f"{sum(each)} handlers started for {options.jobs} jobs")
    if settled is not None and settled < options.jobs:
        raise SystemExit(f"only {settled} of {options.jobs} jobs are settled")
    return {"seconds": seconds, "cpu": cpu, "each": each, "jobs": sum(each)}


def _latency(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    options.processes = 1
    data = payload(options.payload)
    with _workers(peer, options, stamp=True) as workers:
        if peer.asynchronous:
            waits = asyncio.run(_waits_async(peer, options, workers, data))
        else:
            with peer.producer(options.url, data) as enqueue:
                waits = [_one_wait(enqueue, workers, n) for n in range(options.jobs + WARM_UP)]
    return summary(waits[WARM_UP:])


WARM_UP = 10


async def _waits_async(
    peer: Peer, options: argparse.Namespace, workers: "Workers", data: str
) -> list[float]:
    waits = []
    async with peer.aproducer(options.url, data) as enqueue:
        for number in range(options.jobs + WARM_UP):
            await asyncio.sleep(random.uniform(*_PAUSE))
            await enqueue()
            committed = time.monotonic_ns()
            waits.append(workers.stamped_after(number, committed))
    return waits


def _one_wait(enqueue: EnqueueOne, workers: "Workers", number: int) -> float:
    time.sleep(random.uniform(*_PAUSE))
    enqueue()
    return workers.stamped_after(number, time.monotonic_ns())


def summary(milliseconds: list[float]) -> dict[str, Any]:
    """Return the quantiles of waits."""
    cuts = quantiles(milliseconds, n=100, method="inclusive")
    return {
        "p50": cuts[49],
        "p90": cuts[89],
        "p99": cuts[98],
        "max": max(milliseconds),
        "jobs": len(milliseconds),
    }


class Workers:
    """Worker processes and what they tell."""

    def __init__(self, memory: mmap.mmap, children: list[Any]) -> None:
        self._memory = memoryview(memory).cast("q")
        self._children = children

    def each(self) -> list[int]:
        """Return how many handlers each process has started."""
        return list(self._memory[::2])

    def wait_for(self, jobs: int) -> None:
        """Wait until so many handlers have started in all."""
        deadline = time.monotonic() + DEADLINE
        while (count := sum(self.each())) < jobs:
            self.check()
            if time.monotonic() > deadline:
                raise SystemExit(f"{count} of {jobs} handlers started within {DEADLINE} s")
            time.sleep(LOOK)

    def stamped_after(self, number: int, committed: int) -> float:
        """Wait for handler `number`; return the milliseconds from the commit to its start."""
        deadline = time.monotonic() + DEADLINE
        while self._memory[0] <= number:
            self.check()
            if time.monotonic() > deadline:
                raise SystemExit(f"job {number} did not start within {DEADLINE} s")
            time.sleep(0.0005)
        return (self._memory[1] - committed) / 1e6

    def check(self) -> None:
        """Raise if a worker has ended."""
        for child in self._children:
            if not child.is_alive():
                raise SystemExit(f"a worker ended with {child.exitcode}")

    def cpu(self) -> float:
        """Return the CPU seconds of all workers and what they have started."""
        return sum(_cpu_of_session(child.pid) for child in self._children)


@contextmanager
def _workers(peer: Peer, options: argparse.Namespace, stamp: bool = False) -> Iterator[Workers]:
    """Run worker processes, forked so that what was imported need not be imported again."""
    within = max(peer.processes_within, 1)
    memory = mmap.mmap(-1, _SLOT * options.processes * within)
    fork = multiprocessing.get_context("fork")
    ready = fork.Barrier(options.processes)
    children = [
        fork.Process(target=_work, args=(peer, options, memory, slot * within, stamp, ready))
        for slot in range(options.processes)
    ]
    for child in children:
        child.start()
    try:
        yield Workers(memory, children)
    finally:
        _end(children)


def _work(
    peer: Peer,
    options: argparse.Namespace,
    memory: mmap.mmap,
    slot: int,
    stamp: bool,
    ready: Any,
) -> None:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell told it so
    tally = Tally(memory, slot, threads=options.sync)
    ready.wait()
    with suppress(KeyboardInterrupt):
        if options.command:
            peer.command(options.url, tally.add)
        else:
            peer.work(options.url, tally.stamp if stamp else tally.add, sync=options.sync)


def _end(children: list[Any]) -> None:
    """Let the workers sign off, as those of an application do when it is deployed.

    What a killed one leaves behind, the next one has to clear up while it is measured.
    """
    try:
        for child in children:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(child.pid, signal.SIGINT)
        for child in children:
            child.join(ENDING)
    finally:  # we may be told to end as well
        for child in children:
            _kill_session(child.pid)
            child.kill()
            child.join()


def _cpu_of_session(leader: int | None) -> float:
    ticks = 0
    for pid in _session(leader):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has ended in between
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _session(leader: int | None) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) == leader:
                found.append(int(pid))
        except ProcessLookupError:  # it has ended in between
            continue
    return found


def _kill_session(leader: int | None) -> None:
    for pid in _session(leader):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # it has ended in between
            continue


@contextmanager
def _asking(peer: Peer, url: str) -> Iterator[Callable[[str], int]]:
    """Lend a function that returns the first value of a query."""
    conn: Any
    if url.startswith("sqlite"):
        conn = sqlite3.connect(url.removeprefix("sqlite:///"), autocommit=True, timeout=30)
    elif url.startswith("mysql"):
        from on_mysql import Asked, connected

        conn = Asked(connected(url, autocommit=True))
    else:
        import psycopg

        conn = psycopg.connect(url, autocommit=True)
    try:
        yield lambda query: int(conn.execute(query).fetchone()[0])
    finally:
        conn.close()


_WORKS: dict[str, Callable[[Peer, argparse.Namespace], dict[str, Any]]] = {
    "versions": _versions,
    "setup": _setup,
    "enqueue": _enqueue,
    "one": _one,
    "drain": _drain,
    "latency": _latency,
}
