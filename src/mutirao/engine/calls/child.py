"""Runs in a child process: executes one call after another until the parent is gone.

It turns errors into outcomes, because an exception cannot leave the process. Everything that
happens is reported in the answer to the order; threads and forks that a handler leaves behind
cannot report anything after that.
"""

import multiprocessing
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from multiprocessing.connection import wait
from time import monotonic
from types import FrameType
from typing import Any, NoReturn

import msgspec

from mutirao.engine.calls import outcomes
from mutirao.engine.calls.child_protocol import (
    ALIVE,
    BEGUN,
    BYTES_PER_READ,
    ENDED,
    FAILED,
    PROGRESS,
    UNFIT,
    UP,
    ChildMessage,
    Inbox,
    Order,
    packed,
)
from mutirao.engine.calls.handler_damage import (
    mend_directory,
    mend_standard_streams,
    write_whole_lines,
)
from mutirao.engine.calls.main_script import Main
from mutirao.engine.calls.progress import WRITE_INTERVAL, report_of
from mutirao.engine.calls.spawning import end_with_group, lead_group
from mutirao.engine.calls.task_lookup import find_task
from mutirao.errors import InvalidArguments, WrongState
from mutirao.log import name_job
from mutirao.model.jobs.job import Claim, Gives, Home, Job, Using
from mutirao.model.jobs.outcome import Outcome
from mutirao.model.trace import hand_trace
from mutirao.tasks.task import Task

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
POLL_INTERVAL = 0.5  # seconds between two checks of a process, if the system offers nothing better


def end_of(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, if the system has one.

    `Process.sentinel` is a pipe: forks of the process inherit it and keep it open.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, an old one, or a sandbox that forbids it
        return None


def serve(theirs: socket.socket, main: Main, set_up_logs: Callable[[], None] | None = None) -> None:
    """Serve orders until the other side closes the connection.

    Parameters:
        main: the main script of the other side.
        set_up_logs: sets up logging as on the other side; None: the imported modules do that.
    """
    lead_group()
    if set_up_logs is not None:
        set_up_logs()
    multiprocessing.current_process().daemon = False  # else handlers could not start processes
    theirs.settimeout(None)  # whatever the application's `socket.setdefaulttimeout` says
    _leave_signals_to_parent()
    threading.Thread(target=_die_with_parent, daemon=True).start()
    voice, inbox = _Sender(theirs), Inbox()
    found = FoundTasks(main)
    write_whole_lines()
    with suppress(ConnectionError):  # the parent is gone, and did not read everything
        theirs.sendall(packed(UP, 0))
        while (order := _receive(theirs, inbox)) is not None:
            voice.begin(order.number)
            voice.conclude(*_answer(order, voice, found))


def _receive(theirs: socket.socket, inbox: Inbox) -> ChildMessage | None:
    while (message := inbox.take()) is None:
        if not (data := theirs.recv(BYTES_PER_READ)):
            return None
        inbox.feed(data)
    return message


def _answer(message: ChildMessage, voice: "_Sender", found: "FoundTasks") -> tuple[bytes, bytes]:
    try:
        mend_standard_streams()
        mend_directory()
    except OSError as error:
        return UNFIT, repr(error).encode()
    try:
        order = msgspec.json.decode(message.body, type=Order)
        task = found.task(order)
        voice.say(BEGUN, message.number)
        report = _ProgressSender(voice, message.number)
        outcome = copy_context().run(_run_handler, task, order, report)
        return ENDED, msgspec.json.encode(outcome)
    except BaseException as error:  # importing a module may raise anything, even SystemExit
        reason = traceback.format_exception_only(error)[-1] + "\n" + traceback.format_exc()
        return FAILED, outcomes.shortened(reason).encode()


class FoundTasks:
    """Finds tasks, and remembers them with what is computed from them."""

    def __init__(self, main: Main) -> None:
        """Set the main script of the worker."""
        self._main = main
        self._tasks: dict[tuple[object, ...], Task[..., Any]] = {}

    def task(self, order: Order) -> Task[..., Any]:
        """Return the task of an order."""
        wanted = (order.task, order.hooks, order.factories)
        if (task := self._tasks.get(wanted)) is None:
            task = self._tasks[wanted] = find_task(order, self._main)
        return task


class _Sender:
    """Sends messages: one at a time for all threads, and none about past orders."""

    def __init__(self, theirs: socket.socket) -> None:
        self._socket, self._number = theirs, 0
        # Reentrant: a signal handler that reports progress may interrupt a message being sent.
        self._lock = threading.RLock()

    def begin(self, number: int) -> None:
        """Begin to send messages about an order."""
        self._number = number

    def say(self, kind: bytes, number: int, body: bytes = b"") -> None:
        """Send a message about an order, unless the order is finished."""
        with self._lock:
            if number == self._number:
                self._socket.sendall(packed(kind, number, body))

    def conclude(self, kind: bytes, body: bytes) -> None:
        """Send the last message about the order."""
        with self._lock:
            number, self._number = self._number, 0
            self._socket.sendall(packed(kind, number, body))


class _ProgressSender:
    """Sends progress to the parent, about as often as the parent writes it."""

    def __init__(self, voice: _Sender, number: int) -> None:
        self._voice, self._number, self._next = voice, number, 0.0
        self._next_sign = 0.0
        self._pid = os.getpid()

    def __call__(self, claim: Claim, done: float, of: float | None, note: str | None) -> None:
        self._refuse_forks(f"job {claim.id} reported progress")
        report = report_of(done, of, note)
        if monotonic() >= self._next or done == of:
            self._next = monotonic() + WRITE_INTERVAL / 2
            self._voice.say(PROGRESS, self._number, msgspec.json.encode(report))

    def sign(self, stall_timeout: float | None) -> None:
        """Pass on a sign of life, as often as the watchdog of this attempt needs it."""
        self._refuse_forks("a job gave a sign of life")
        if stall_timeout is not None and monotonic() >= self._next_sign:
            self._next_sign = monotonic() + min(WRITE_INTERVAL, stall_timeout / 4)
            self._voice.say(ALIVE, self._number)

    def _refuse_forks(self, what: str) -> None:
        if os.getpid() != self._pid:
            raise WrongState(
                f"{what} in a fork of its process; only the process that runs the handler can"
                " report: have the fork send it there"
            )


def _run_handler(task: Task[..., Any], order: Order, report: _ProgressSender) -> Outcome:
    hand_trace(order.trace)
    claim, (policy, usual) = order.whole_claim(), task.terms(order.defaults.defaults())
    name_job(claim)
    policy = task.retry_of(claim.args, policy)
    limit = claim.max_attempts or policy.max_attempts
    try:
        args, kwargs = task.signature.decode(claim.args)
    except InvalidArguments as unfit:
        return outcomes.dead("InvalidArguments", str(unfit))
    timeout = usual if claim.timeout is None else claim.timeout
    home = Home(order.database)
    alive = partial(report.sign, task.options.stall_timeout)
    job = Job(claim, limit, timeout, _no_transaction, report, home=home, alive=alive)
    if task.signature.wants_job:
        args = (job, *args)
    try:
        value = task.inside.call(job, partial(_call, task, *args, **kwargs))
        return outcomes.success(value, task.keeper(claim.metadata))
    except BaseException as error:
        return outcomes.of_error(error, claim.attempt, claim.max_attempts, policy)


def _call(task: Task[..., Any], *args: Any, **kwargs: Any) -> Any:
    pid = os.getpid()
    try:
        result = task.function(*args, **kwargs)
    finally:
        if os.getpid() != pid:
            _end_fork(sys.exception())
    if isawaitable(result):
        raise TypeError(f"the handler returned {result!r}, which is not awaited in a process")
    return result


def _end_fork(error: BaseException | None) -> NoReturn:
    """End a fork that left the handler, as a program ends: only its parent answers the order."""
    code = error.code if isinstance(error, SystemExit) else error and 1
    if error is not None and not isinstance(error, SystemExit):
        traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _no_transaction(job: Job, gives: Gives | Using) -> Any:
    raise WrongState(
        f"job {job.id} runs in a process of its own, where job.transaction() cannot be had; use"
        " a plain handler without process=True, or make the work idempotent"
    )


def _leave_signals_to_parent() -> None:
    """Ignore SIGINT and SIGTERM, which systemd sends to all processes of a service.

    Forks of this process get the default behaviour back. The signals are blocked during a fork:
    Python drops those that have a handler and arrive before the fork's first step.
    """
    held = threading.local()

    def hold() -> None:
        held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def let_come() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, held.mask)

    def restore() -> None:
        for number in _SIGNALS:
            if signal.getsignal(number) is _do_nothing:
                signal.signal(number, signal.SIG_DFL)
        let_come()

    for number in _SIGNALS:
        signal.signal(number, _do_nothing)
    os.register_at_fork(before=hold, after_in_parent=let_come, after_in_child=restore)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Ignore a signal. Not SIG_IGN, which the programs that a handler starts would inherit."""


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid is None:
        return
    end = end_of(parent.pid)
    while os.getppid() == parent.pid:
        wait([parent.sentinel if end is None else end], POLL_INTERVAL if end is None else None)
    end_with_group()
