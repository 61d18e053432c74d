"""Child processes for `process=True` tasks.

A child is started by `spawn` (no locks or connections are inherited), serves one call after
another, and can be killed alone. It judges its own errors, because the exception itself stays
with it: only JSON crosses the pipe.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from inspect import isawaitable
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any

import msgspec

from mutirao.engine import outcomes
from mutirao.engine.progress import PACE
from mutirao.engine.running import Running
from mutirao.engine.threads import Threads
from mutirao.errors import ConfigurationError, InvalidArguments, WrongState
from mutirao.job import Claim, Job, Report
from mutirao.outcome import Outcome
from mutirao.task import Task

_TELLING = b"told "  # what else crosses the pipe is empty, or JSON
STARTING = 60.0  # seconds a child may take to start and import the application
BURIAL = 5.0  # seconds a killed process has to be gone; only a sick kernel needs them


class ProcessDied(Exception):
    """The process that ran the handler ended before the handler did."""


class _Order(msgspec.Struct):
    module: str
    qualname: str
    claim: Claim


class Processes:
    """Children, started when needed and kept for the next call."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def run(
        self, task: Task[..., Any], claim: Claim, running: Running, report: Report | None = None
    ) -> Outcome:
        """Run one attempt in a child and return how it ended. A cancelled one is killed."""
        child = self._idle_one() or self._start()
        running.kill = child.kill
        loop = asyncio.get_running_loop()
        begun = partial(loop.call_soon_threadsafe, running.begin_now)
        order = msgspec.json.encode(_Order(task.__module__, task.__qualname__, claim))
        try:
            told = partial(_pass_on, report, claim)
            answer = await self._threads.run(partial(child.ask, order, begun, told))
        except asyncio.CancelledError:
            self._forget(child)
            raise
        except (EOFError, OSError):
            code = self._forget(child)
            raise ProcessDied(f"its process ended with exit code {code}") from None
        finally:
            running.kill = None  # whatever interrupts the attempt from now on, the child is free
        self._idle.append(child)
        return msgspec.json.decode(answer, type=Outcome)

    def close(self) -> None:
        """Kill every child, at work or not."""
        for child in list(self._all):
            self._forget(child)

    def _idle_one(self) -> "_Child | None":
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            self._forget(child)
        return None

    def _start(self) -> "_Child":
        child = _Child()
        self._all.add(child)
        return child

    def _forget(self, child: "_Child") -> int | None:
        self._all.discard(child)
        if child in self._idle:
            self._idle.remove(child)
        return child.end()


class _Child:
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def ask(
        self, order: bytes, begun: Callable[[], object], told: Callable[[bytes], object]
    ) -> bytes:
        """Send an order and wait for the answer. Raises EOFError when the child is gone.

        `begun` is called when the child has started up, and is about to call the handler, `told`
        when that tells of its progress.
        """
        self._pipe.send_bytes(order)
        self._pipe.recv_bytes()
        begun()
        while (answer := self._pipe.recv_bytes()).startswith(_TELLING):
            told(answer.removeprefix(_TELLING))
        return answer

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.is_alive()

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        self._process.kill()

    def end(self) -> int | None:
        """Kill and bury the process; return its exit code, minus the signal that ended it."""
        self._process.kill()
        self._process.join(timeout=BURIAL)
        return self._process.exitcode


def find_task(module: str, qualname: str) -> Task[..., Any]:
    """Return the task that a child finds under that name. Raises ConfigurationError."""
    found: Any = sys.modules.get(module) or import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Task):
        raise ConfigurationError(
            f"a process=True task must be found as {module}.{qualname} by another process, which"
            f" finds {found!r}; define it at module level and keep the decorated name"
        )
    return found


def _serve(pipe: Connection) -> None:
    # They are the parent's to handle, though a terminal or systemd sends them to all of a group.
    # Not SIG_IGN, which the programs that a handler starts would inherit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while True:
        try:
            order = msgspec.json.decode(pipe.recv_bytes(), type=_Order)
        except EOFError:
            return
        task = find_task(order.module, order.qualname)
        pipe.send_bytes(b"")
        report = _Teller(pipe)
        pipe.send_bytes(msgspec.json.encode(_obey(task, order.claim, report)))


class _Teller:
    """Passes progress on to the parent, not much more often than it is written there."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._next = pipe, 0.0

    def __call__(self, claim: Claim, done: float, of: float | None, note: str | None) -> None:
        if monotonic() >= self._next or done == of:
            self._next = monotonic() + PACE / 2
            self._pipe.send_bytes(_TELLING + msgspec.json.encode((done, of, note)))


def _pass_on(report: Report | None, claim: Claim, told: bytes) -> None:
    if report is not None:
        report(claim, *msgspec.json.decode(told, type=tuple[float, float | None, str | None]))


def _obey(task: Task[..., Any], claim: Claim, report: Report) -> Outcome:
    policy = task.options.retry
    limit = claim.max_attempts or policy.max_attempts
    try:
        args, kwargs = task.signature.decode(claim.args)
    except InvalidArguments as unfit:
        return outcomes.dead("InvalidArguments", str(unfit))
    timeout = task.options.timeout if claim.timeout is None else claim.timeout
    if task.signature.wants_job:
        args = (Job(claim, limit, timeout, _no_transaction, report), *args)
    try:
        return outcomes.success(_call(task, *args, **kwargs), task.keeper(claim.metadata))
    except BaseException as error:
        return outcomes.of_error(error, claim.attempt, claim.max_attempts, policy)


def _call(task: Task[..., Any], *args: Any, **kwargs: Any) -> Any:
    result = task.function(*args, **kwargs)
    if isawaitable(result):
        raise TypeError(f"the handler returned {result!r}, which nobody awaits in a process")
    return result


def _no_transaction(job: Job, session: bool) -> Any:
    raise WrongState(
        f"job {job.id} runs in a process of its own, where job.transaction() cannot be had; use"
        " a plain handler without process=True, or make the work idempotent"
    )


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
