"""A relay in front of a server, which counts what really travels: drivers add to what is asked."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import NamedTuple, Self

_READY, _IDLE = b"Z", b"I"  # the server's "ready for the next", and "not in a transaction"
_DONE = b"C"  # the server's "this statement is complete", said of BEGIN and COMMIT, too


class Cost(NamedTuple):
    """What something costs: round trips to the server, and transactions that it ended there."""

    round_trips: int
    commits: int


class Wire:
    """Relays to a PostgreSQL server on this machine, in plain text. Use it as a context manager."""

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._threads: list[Thread] = []
        self._lock = Lock()
        self.cost = Cost(0, 0)  # of everything until now
        self.statements = 0  # that the server has completed

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    @contextmanager
    def costs(self) -> Iterator[list[Cost]]:
        """Put what the block cost into the list that is returned."""
        found, before = list[Cost](), self.cost
        yield found
        found.append(Cost(*(now - then for now, then in zip(self.cost, before, strict=True))))

    def _accept(self) -> None:
        with suppress(OSError):  # closed: we are done
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, server]
                self._start(self._relay, client, server)
                self._start(self._relay_answers, server, client)

    def _relay(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _relay_answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError), server.makefile("rb") as answers:
            while header := answers.read(5):
                kind, length = struct.unpack("!cI", header)
                body = answers.read(length - 4)
                if kind == _READY:
                    self._count(body == _IDLE)
                elif kind == _DONE:
                    with self._lock:
                        self.statements += 1
                client.sendall(header + body)
            client.shutdown(socket.SHUT_WR)

    def _count(self, idle: bool) -> None:
        with self._lock:
            self.cost = Cost(self.cost.round_trips + 1, self.cost.commits + idle)

    def _start(self, body: Callable[..., None], *args: socket.socket) -> None:
        thread = Thread(target=body, args=args)
        self._threads.append(thread)
        thread.start()
