"""Announces committed jobs to a hub, from any thread, without waiting for it.

A thread of its own sends the hints of a bounded queue. While the hub is away, hints are
dropped: workers poll then.
"""

import atexit
import logging
import os
import queue
import random
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic

from mutirao.hub.address import Address
from mutirao.hub.protocol import (
    MAX_LINE,
    PING,
    HelloLine,
    LooksLine,
    RefusedLine,
    WakeLine,
    line_of,
    read_hub_line,
)
from mutirao.model.jobs.lanes import Wake

log = logging.getLogger("mutirao")

MOST_WAITING = 1_000  # hints that wait to be sent; further ones are dropped
LIMIT = 1.0  # seconds that connecting or sending may take
PING_EVERY = 15.0  # seconds
RETRY = 1.0  # seconds between two tries to reach the hub, on average
FAREWELL = 0.25  # seconds that the end of the process may wait for the last hints

_Hint = WakeLine | threading.Event | None  # None: the end
_Waiting = queue.Queue[_Hint]


class HubClient:
    """Announces to the hub at `address` jobs in the database that it knows as `database`.

    Its thread starts with the first hint, in each process.
    """

    def __init__(self, address: Address, database: str) -> None:
        self._address, self._database = address, database
        self._pid: int | None = None
        self._waiting: _Waiting = queue.Queue(MOST_WAITING)
        self._starting = threading.Lock()

    def send(self, line: WakeLine) -> None:
        """Queue a hint to be sent. Never waits; it is dropped if too many wait."""
        if self._pid != os.getpid() and not self._start():
            return
        with suppress(queue.Full):
            self._waiting.put_nowait(line)

    def announce(self, wake: Wake, jobs: int, task: str | None) -> None:
        """Queue the hint that `jobs` jobs were committed; see `send`."""
        self.send(WakeLine(wake.queue, wake.priority, wake.run_at, task, jobs))

    def flush(self, seconds: float = FAREWELL) -> None:
        """Wait until the hints so far are sent or dropped, for `seconds` at most."""
        if self._pid == os.getpid():
            sent = threading.Event()
            with suppress(queue.Full):
                self._waiting.put(sent, timeout=seconds)
                sent.wait(seconds)

    def close(self) -> None:
        """Flush, and end the thread; the next hint starts another one."""
        self.flush()
        if self._pid == os.getpid():
            self._pid = None
            atexit.unregister(self.flush)
            with suppress(queue.Full):
                self._waiting.put(None, timeout=FAREWELL)

    def _start(self) -> bool:
        """Start the thread; return False if another thread is doing that just now."""
        if not self._starting.acquire(blocking=False):
            return False
        try:
            if self._pid != os.getpid():
                self._waiting = queue.Queue(MOST_WAITING)  # the parent's lock may have been held
                sender = _HubSender(self._address, self._database, self._waiting)
                threading.Thread(target=sender.run, name="mutirao-hub", daemon=True).start()
                atexit.register(self.flush)
                self._pid = os.getpid()
        finally:
            self._starting.release()
        return True


class _HubSender:
    """The thread's side: one connection, opened when there is a hint to send."""

    def __init__(self, address: Address, database: str, waiting: _Waiting) -> None:
        self._address, self._database, self._waiting = address, database, waiting
        self._socket: socket.socket | None = None
        self._retry_at = 0.0
        self._away = False

    def run(self) -> None:
        """Send queued lines, until the end."""
        while True:
            try:
                first = self._waiting.get(timeout=PING_EVERY if self._socket else None)
            except queue.Empty:
                self._send(PING)
                continue
            hints = [*self._further(first)]
            # The same hint twice is one.
            if lines := dict.fromkeys(each for each in hints if isinstance(each, WakeLine)):
                self._send(b"".join(map(line_of, lines)))
            for each in hints:
                if isinstance(each, threading.Event):
                    each.set()
            if None in hints:
                self._close()
                return

    def _further(self, first: _Hint) -> Iterator[_Hint]:
        yield first
        with suppress(queue.Empty):
            for _ in range(MOST_WAITING):
                yield self._waiting.get_nowait()

    def _send(self, lines: bytes) -> None:
        """Send lines; a connection that was lost meanwhile is opened again once."""
        for again in (True, False):
            had = self._socket is not None
            if not had and (lines is PING or monotonic() < self._retry_at):
                return
            try:
                connected = self._socket or self._connect()
                _read_all(connected)
                connected.sendall(lines)
            except (OSError, ValueError) as gone:
                self._close()
                if not (had and again):
                    self._failed(gone)
                    return
            else:
                self._succeeded()
                return

    def _connect(self) -> socket.socket:
        address = self._address
        if address.path:
            opened = self._socket = socket.socket(socket.AF_UNIX)
            opened.settimeout(LIMIT)
            opened.connect(address.path)
        else:
            opened = socket.create_connection((address.host, address.port), LIMIT)
            self._socket = opened
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if (context := address.context()) is not None:
            opened = context.wrap_socket(opened, server_hostname=address.host)
            self._socket = opened
        opened.sendall(line_of(HelloLine(self._database, address.token)))
        answer = read_hub_line(_line(opened))
        if isinstance(answer, RefusedLine):
            raise ConnectionError(f"it refuses us: {answer.why}")
        if not isinstance(answer, LooksLine):
            raise ValueError("it does not answer as a hub")
        return opened

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _failed(self, why: Exception) -> None:
        self._retry_at = monotonic() + RETRY * random.uniform(0.5, 1.5)
        if not self._away:
            log.warning("the hub at %s is away, workers poll: %s", self._address, why)
            self._away = True

    def _succeeded(self) -> None:
        if self._away:
            log.warning("the hub at %s is back", self._address)
            self._away = False


def _line(connected: socket.socket) -> bytes:
    """Return the hub's first line, which comes alone."""
    line = b""
    while not line.endswith(b"\n"):
        more = connected.recv(MAX_LINE)
        if not more or len(line) > MAX_LINE:
            raise ConnectionError("it closed the connection")
        line += more
    return line


def _read_all(connected: socket.socket) -> None:
    """Discard received lines; raise ConnectionError if the hub has closed the connection."""
    connected.settimeout(0.0)
    try:
        while said := connected.recv(MAX_LINE):
            if b'"refused"' in said:
                raise ConnectionError(f"it refuses us: {said.decode(errors='replace').strip()}")
        raise ConnectionError("it closed the connection")
    except (BlockingIOError, ssl.SSLWantReadError):
        return
    finally:
        connected.settimeout(LIMIT)
