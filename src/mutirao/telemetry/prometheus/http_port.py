"""A small HTTP server for scrapes and probes, in threads of its own.

A scrape must be answered while a handler blocks the event loop, and must never hold the worker up:
each connection has a thread and a time limit, and there are only so many of them.
"""

import io
import json
import selectors
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from time import monotonic, sleep
from typing import Any, NamedTuple

from mutirao.errors import ConfigurationError
from mutirao.log import log
from mutirao.ports.measurements import WorkerCondition

READ_WITHIN = SENT_WITHIN = 10.0  # seconds for a whole request, and for a whole answer
NO_PLACE = 0.1  # seconds until the next try, if the process may open no more descriptors
MOST_AT_ONCE = 16  # connections; further ones are closed at once
END_LIMIT = 2.0  # seconds to wait for its end
TEXT, JSON = "text/plain; charset=utf-8", "application/json"


class PortReply(NamedTuple):
    """The answer of a path."""

    status: int
    content_type: str
    body: bytes


Answer = Callable[[str], PortReply]  # is called with the Accept header
Answers = Mapping[str, Answer]  # by path


class HttpServer:
    """A server of some paths, from `start` to `stop`.

    Parameters:
        host: the address to listen at.
        port: 0: any that is free.
        answers: the answers, by path.
        setting: the name of the port's setting, for the error if it is taken.
    """

    def __init__(self, host: str, port: int, answers: Answers, setting: str) -> None:
        self._host, self._port, self._setting = host, port, setting
        self._answers = answers
        self._server: _PortServer | None = None
        self._thread: threading.Thread | None = None
        self._ends: socket.socket | None = None  # sending to it ends the server

    @property
    def url(self) -> str:
        """The address at which it listens."""
        if self._server is None:
            raise AssertionError("a server that is not started has no port")
        shown = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{shown}:{self._server.server_address[1]}"

    def start(self) -> None:
        """Listen, and answer in threads.

        Raises:
            ConfigurationError: the port is taken, mostly by another program.
        """
        server = self._server = _listening(self._host, self._port, self._setting)
        server.answers = self._answers
        heard, self._ends = socket.socketpair()
        self._thread = threading.Thread(
            target=_run, args=(server, heard), name="mutirao-metrics", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; the port is free then."""
        if self._thread is not None and self._ends is not None:
            self._ends.close()
            self._thread.join(END_LIMIT)
            self._thread = None


def _run(server: "_PortServer", ends: socket.socket) -> None:
    """Answer each client, until the other side of `ends` is closed."""
    with selectors.DefaultSelector() as selector, server, ends:
        selector.register(server, selectors.EVENT_READ)
        selector.register(ends, selectors.EVENT_READ)
        while not any(key.fileobj is ends for key, _ in selector.select()):
            server.handle_request()


class _PortServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    timeout = 0.0  # of `handle_request`, which is called once a client has connected
    answers: Answers

    def __init__(self, family: socket.AddressFamily, address: Any) -> None:
        self.address_family = family
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; if that fails, wait: the client stays and would be tried at once."""
        try:
            return super().get_request()
        except OSError:
            sleep(NO_PLACE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, unless too many are there."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # there may be no further thread
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and leave the place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log unexpected errors; a client may leave at any time."""
        log.debug("a scrape failed", exc_info=True)


class _Within(io.RawIOBase):
    """The bytes that a connection sends within some seconds: not one now and then, forever."""

    def __init__(self, line: socket.socket, seconds: float) -> None:
        self._line, self._until = line, monotonic() + seconds

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read received bytes; raise TimeoutError if the time is over."""
        if (left := self._until - monotonic()) <= 0:
            raise TimeoutError("the request has not come to its end")
        self._line.settimeout(left)
        return self._line.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: _PortServer
    server_version, sys_version = "mutirao", ""

    def setup(self) -> None:
        """Read the request within its time."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Within(self.connection, READ_WITHIN))

    def do_GET(self) -> None:
        """Answer."""
        answer = self.server.answers.get(self.path.partition("?")[0])
        if answer is None:
            known = ", ".join(self.server.answers)
            self._send(PortReply(404, TEXT, f"there is {known}\n".encode()))
            return
        try:
            reply = answer(self.headers.get("Accept", ""))
        except Exception:  # noqa: BLE001 (logged, and told by the status)
            log.exception("metrics could not be told")
            reply = PortReply(500, TEXT, b"the reason is in the log\n")
        self._send(reply)

    do_HEAD = do_GET  # noqa: N815 (the name that its base looks for)

    def _send(self, reply: PortReply) -> None:
        self.connection.settimeout(SENT_WITHIN)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: scrapes come every few seconds."""


def probes(condition: Callable[[], WorkerCondition]) -> Answers:
    """Return the answers of `/livez` and `/readyz`."""

    def live(accept: str) -> PortReply:
        told = condition()
        return _probed(told.live, told.reason)

    def ready(accept: str) -> PortReply:
        told = condition()
        return _probed(told.ready, told.reason)

    return {"/livez": live, "/readyz": ready}


def _probed(good: bool, reason: str | None) -> PortReply:
    told = {"status": "ok"} if good else {"status": "unavailable", "reason": reason}
    return PortReply(200 if good else 503, JSON, json.dumps(told).encode())


def _listening(host: str, port: int, setting: str) -> _PortServer:
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return _PortServer(family, address)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"{setting} is {port}, and nobody can listen at {host}:{port}: {why}; give another"
            " port, or 0 for any that is free"
        ) from error
