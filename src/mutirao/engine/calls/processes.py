"""Runs `process=True` tasks in child processes: starts, calls and kills them.

A child is started by `spawn` (it inherits no locks or connections), serves one call after another,
and can be killed alone. Only JSON crosses between them. Threads start, call and reap the children,
one thread for each child at a time: they wait, and the event loop must not. A child that fails in
any way is killed, and the next call uses another one.
"""

import asyncio
import os
import select
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from math import inf
from multiprocessing import util
from time import monotonic
from typing import Any, TypeVar

import msgspec

from mutirao.engine.calls import outcomes
from mutirao.engine.calls.attempt import Running
from mutirao.engine.calls.child import POLL_INTERVAL, end_of, serve
from mutirao.engine.calls.child_protocol import (
    ALIVE,
    BEGUN,
    BYTES_PER_READ,
    ENDED,
    FAILED,
    MAX_MESSAGE_BYTES,
    ORDER,
    PROGRESS,
    UNFIT,
    UP,
    Inbox,
    InvalidMessage,
    packed,
)
from mutirao.engine.calls.handler_damage import RefusedStarts, mend_directory, mend_standard_streams
from mutirao.engine.calls.main_script import Main
from mutirao.engine.calls.progress import Report as ProgressReport
from mutirao.engine.calls.spawning import ChildProcess
from mutirao.engine.calls.task_lookup import order_for
from mutirao.engine.calls.threads import Threads
from mutirao.log import log
from mutirao.model.jobs.job import Claim, Report
from mutirao.model.jobs.outcome import Outcome
from mutirao.tasks.defaults import NO_DEFAULTS, DefaultsInWords
from mutirao.tasks.task import Task

UP_TIMEOUT = 120.0  # seconds within which a child must have started
START_TIMEOUT = 120.0  # seconds within which it must then have imported the application
REAP_TIMEOUT = 5.0  # seconds until a killed process must be gone; only a broken kernel needs them

T = TypeVar("T")
OnSign = Callable[[ProgressReport | None], object]  # None: a sign of life without progress


class ProcessDied(Exception):
    """The process that ran the handler ended before the handler did."""


class ProcessFailed(Exception):
    """The process could not serve the order, or sent an invalid message; it was killed."""


class Processes:
    """Child processes, started when needed and kept for the next call."""

    def __init__(self, threads: Threads, defaults: DefaultsInWords = NO_DEFAULTS) -> None:
        """Set the parts; `defaults`: the worker's, for tasks without options of their own."""
        self._threads, self._defaults = threads, defaults
        self.starts = RefusedStarts("child process")
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._burials: set[asyncio.Task[None]] = set()
        # If nothing closes this, the interpreter would send SIGTERM to the children, which they
        # ignore, and wait for them forever.
        util.Finalize(self, _kill, (self._all,), exitpriority=0)

    async def run(
        self,
        task: Task[..., Any],
        claim: Claim,
        running: Running,
        report: Report | None = None,
        database: str = "",
    ) -> Outcome:
        """Run one attempt in a child and return its outcome. If cancelled, kill the child.

        `database`: its name, as jobs show it.

        Raises:
            ProcessDied, ProcessFailed: the child is gone, and the handler with it.
            NotStarted: there was no child, and the handler was not called.
        """
        order = msgspec.json.encode(order_for(task, claim, self._defaults, database))
        loop = asyncio.get_running_loop()
        begun = partial(loop.call_soon_threadsafe, running.begin_now)
        on_sign = partial(_pass_on, report, running)
        child = self._take()
        running.kill = child.kill
        try:
            outcome: Outcome = await self._threads.run(
                partial(child.ask, order, begun, on_sign), child.kill
            )
            return outcome
        finally:
            running.kill = None  # the child is free, even if the attempt is interrupted now
            if child.usable:
                self._idle.append(child)
            else:
                await asyncio.shield(self._forget(child))

    def close(self) -> None:
        """Kill every child, busy or not, and wait until they are gone. From any thread."""
        children, until = list(self._all), monotonic() + REAP_TIMEOUT
        _kill(children)
        for child in children:
            child.end(until)
        self._idle.clear()
        self._all.clear()

    def _take(self) -> "_Child":
        while self._idle:
            child = self._idle.pop()
            if child.fit():
                return child
            self._forget(child)
        child = _Child(self.starts)
        self._all.add(child)
        return child

    def _forget(self, child: "_Child") -> asyncio.Task[None]:
        child.kill()
        burial = asyncio.get_running_loop().create_task(self._reap(child))
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)
        return burial

    async def _reap(self, child: "_Child") -> None:
        if not child.gone:
            await self._threads.run(partial(child.end, monotonic() + REAP_TIMEOUT))
        self._all.discard(child)


class _Child:
    """One process. One thread at a time calls or reaps it; any thread may kill it."""

    def __init__(self, starts: RefusedStarts) -> None:
        self._starts = starts
        self._taken = threading.Lock()  # held by the thread that calls or reaps it
        self._lock = threading.Lock()  # finding it dead frees its pid: no kill after that
        self._process: ChildProcess | None = None
        self._inbox = Inbox(MAX_MESSAGE_BYTES)
        self._number = 0  # the number of the order
        self._begun = False  # whether the handler was about to be called
        self._over = inf  # the monotonic time after which its messages are ignored
        self._killed = False
        self._buried = False

    @property
    def usable(self) -> bool:
        """True if its last call ended well and it was not killed."""
        return self._process is not None and self._over == inf and not self._inbox

    @property
    def gone(self) -> bool:
        """True if there is no process to reap."""
        return self._buried or self._process is None

    def fit(self) -> bool:
        """Return whether an idle child lives and has sent nothing unexpected."""
        return not self._poll.poll(0) and self._lives()

    def kill(self) -> None:
        """Kill the process at once. From any thread; does not wait."""
        self._over = min(self._over, monotonic() + REAP_TIMEOUT)
        self._killed = True
        with self._lock:
            if self._process is not None and not self._buried:
                self._process.kill()

    def ask(self, order: bytes, begun: Callable[[], object], on_sign: OnSign) -> Outcome:
        """Send an order and wait for the outcome. If this raises, the child has been reaped.

        `begun` is called when the child has started up and is about to call the handler, `on_sign`
        whenever the handler reports progress or gives a sign of life.
        """
        with self._taken:
            try:
                if self._process is None:
                    self._begin()
                return self._exchange(order, begun, on_sign)
            except (EOFError, ConnectionError):
                self._reap(monotonic() + REAP_TIMEOUT)
                raise ProcessDied(self._exit_description()) from None
            except InvalidMessage as nonsense:
                self._reap(monotonic() + REAP_TIMEOUT)
                raise ProcessFailed(f"its process spoke nonsense: {nonsense}") from None
            except BaseException:
                self._reap(monotonic() + REAP_TIMEOUT)
                raise

    def end(self, until: float) -> None:
        """Kill and reap the process, giving up at this monotonic time."""
        self.kill()
        if self._taken.acquire(timeout=max(0.0, until - monotonic())):
            try:
                self._reap(until)
            finally:
                self._taken.release()

    def _begin(self) -> None:
        """Start the process, and wait until it has started."""
        by = monotonic() + UP_TIMEOUT
        try:
            self._start()
            kind, _ = self._receive(by)
        except InvalidMessage:
            raise
        except Exception as error:
            if self._killed:
                raise
            self._reap(monotonic() + REAP_TIMEOUT)
            raise self._starts.refused(self._reason(error)) from error
        if kind != UP:
            raise InvalidMessage(f"a message of kind {kind!r} before the first one")
        self._starts.given()

    def _start(self) -> None:
        mend_standard_streams()
        mend_directory()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        given = (theirs, Main.of_this_process(), log.of_children)
        process = ChildProcess(target=serve, args=given, daemon=True)
        with theirs:
            try:
                process.start()
            except BaseException:
                ours.close()
                raise
        self._socket = ours
        self._pidfd = end_of(process.pid or 0)
        self._end = process.sentinel if self._pidfd is None else self._pidfd
        self._watch, self._poll = select.poll(), select.poll()
        self._watch.register(self._end, select.POLLIN)
        self._poll.register(self._end, select.POLLIN)
        self._poll.register(ours, select.POLLIN)
        self._process = process
        if self._over < inf:  # it was killed before the process existed
            self.kill()

    def _exchange(self, order: bytes, begun: Callable[[], object], on_sign: OnSign) -> Outcome:
        self._number, self._begun, by = self._number + 1, False, monotonic() + START_TIMEOUT
        self._send(packed(ORDER, self._number, order), by)
        kind, body = self._receive(by)
        if kind == BEGUN:
            self._begun = True
            begun()
            while (said := self._receive())[0] in (PROGRESS, ALIVE):
                on_sign(_decoded(said[1], ProgressReport) if said[0] == PROGRESS else None)
            kind, body = said
            if kind == ENDED:
                return _decoded(body, Outcome)
        elif kind == UNFIT:
            raise self._starts.refused(body.decode(errors="replace"))
        if kind == FAILED:
            raise ProcessFailed(f"its process could not run it: {body.decode(errors='replace')}")
        raise InvalidMessage(f"a message of kind {kind!r} which is not expected now")

    def _send(self, data: bytes, by: float) -> None:
        rest = memoryview(data)
        while rest:
            with suppress(BlockingIOError):
                rest = rest[self._socket.send(rest) :]
                continue
            self._poll.modify(self._socket, select.POLLOUT)
            self._wait(by)
            self._poll.modify(self._socket, select.POLLIN)

    def _receive(self, by: float = inf) -> tuple[bytes, bytes]:
        while (message := self._inbox.take()) is None:
            self._wait(by)
            with suppress(BlockingIOError):
                if not (data := self._socket.recv(BYTES_PER_READ)):
                    raise EOFError
                self._inbox.feed(data)
        if message.number != self._number:
            raise InvalidMessage(f"a message about order {message.number}, not {self._number}")
        return message.kind, message.body

    def _wait(self, by: float) -> None:
        """Wait until the socket is ready, the process has ended or the time has passed."""
        while True:
            ready = dict(self._poll.poll(1000 * POLL_INTERVAL))
            now = monotonic()
            if now > self._over or (not ready and not self._lives()):
                raise EOFError
            if self._end in ready:  # read its last messages, but do not wait for a fork
                self._over = min(self._over, now + REAP_TIMEOUT)
            if self._socket.fileno() in ready:
                return
            if ready:
                raise EOFError
            if now > by:
                raise ProcessFailed(f"its process did not start within {START_TIMEOUT:g} s")

    def _lives(self) -> bool:
        with self._lock:
            if self._process is None:
                return False
            # Other code that waits for children, for example a handler, may have taken the exit
            # status: then `is_alive` returns True forever.
            if ended := self._process.has_ended():
                self._process.kill()  # what it has left
            return self._process.is_alive() and not ended

    def _reap(self, until: float) -> None:
        self.kill()
        if self.gone:
            return
        while self._lives() and (left := until - monotonic()) > 0:
            self._watch.poll(1000 * min(left, POLL_INTERVAL))
        self._buried = True
        self._socket.close()
        if self._pidfd is not None:
            os.close(self._pidfd)

    def _reason(self, error: Exception) -> str:
        match error:
            case ProcessFailed():
                return f"its process did not start within {UP_TIMEOUT:g} s"
            case EOFError() | ConnectionError():
                return self._exit_description()
        return outcomes.message(error)

    def _exit_description(self) -> str:
        code = None if self._process is None else self._process.exitcode
        how = f"its process ended with exit code {'unknown' if code is None else code}"
        return how if self._begun else f"{how} while it started; its standard error says why"


def _kill(children: Iterable[_Child]) -> None:
    for child in list(children):
        child.kill()


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as unfit:
        raise InvalidMessage(str(unfit)) from None


def _pass_on(report: Report | None, running: Running, progress: ProgressReport | None) -> None:
    running.note_alive()
    if progress is not None and report is not None:
        report(running.claim, *progress)
