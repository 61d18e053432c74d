"""A relay in front of a server that falls silent on demand: connections stay open.

A network that drops packets, or a proxy that hangs, does so: no error is reported.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Thread
from typing import Self


class _Pair:
    """One connection: the client's socket and the server's, and whether bytes pass between them."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.sockets = client, server
        self.silent = False


class Proxy:
    """Relays to a server on this machine. Use it as a context manager."""

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[_Pair] = []
        self._threads: list[Thread] = []
        self._changed = Condition()
        self._closed = False
        self._silent = False  # also for those that come

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for each in (self._listener, *(one for pair in self._pairs for one in pair.sockets)):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def silence(self, *, for_all: bool = False) -> None:
        """Let no byte pass on the connections there are, and, `for_all`, on later ones."""
        with self._changed:
            self._silent = for_all
            for pair in self._pairs:
                pair.silent = True

    def cut(self) -> None:
        """Break the connections there are, on both sides."""
        with self._changed:
            pairs = list(self._pairs)
        for pair in pairs:
            for each in pair.sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def lead_to(self, port: int) -> None:
        """Relay new connections to another server."""
        self._server = ("127.0.0.1", port)

    def speak(self) -> None:
        """Let new connections work; those that fell silent stay so."""
        with self._changed:
            self._silent = False

    def _accept(self) -> None:
        with suppress(OSError):  # closed: we are done
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._server)
                except OSError:  # there is none now
                    client.close()
                    continue
                pair = _Pair(client, server)
                with self._changed:
                    if self._closed:  # `close` has seen all pairs but this one
                        for each in pair.sockets:
                            each.close()
                        return
                    pair.silent = self._silent
                    self._pairs.append(pair)
                self._start(self._relay, pair, 0)
                self._start(self._relay, pair, 1)

    def _relay(self, pair: _Pair, source: int) -> None:
        with suppress(OSError):
            while data := pair.sockets[source].recv(1 << 16):
                with self._changed:
                    # Held, not dropped: the side that closes the connection ends the wait.
                    self._changed.wait_for(lambda: self._closed or not pair.silent)
                pair.sockets[1 - source].sendall(data)
            pair.sockets[1 - source].shutdown(socket.SHUT_WR)

    def _start(self, body: Callable[..., None], *args: object) -> None:
        thread = Thread(target=body, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()
