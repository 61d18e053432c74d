"""The ordeal's proxy keeps silent, is slow, cuts and leads elsewhere, as it is told."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from tests.faults.kit.proxy import BOTH, Proxy, Way

SHORT = 0.3  # seconds in which nothing comes
LONG = 60.0  # seconds in which something must


class Echo(socketserver.BaseRequestHandler):
    """Answers each piece with what the server is called and what came."""

    def handle(self) -> None:
        """Answer until the other side ends."""
        while data := self.request.recv(4096):
            self.server.heard.append(data)  # type: ignore[attr-defined]
            self.request.sendall(self.server.called + data)  # type: ignore[attr-defined]


class Server(socketserver.ThreadingTCPServer):
    """A server that remembers what it heard."""

    daemon_threads = True

    def __init__(self, called: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Echo)
        self.called = called
        self.heard: list[bytes] = []
        self.port = int(self.server_address[1])

    def run(self) -> threading.Thread:
        """Serve in a thread."""
        thread = threading.Thread(target=self.serve_forever, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def server() -> Iterator[Server]:
    """A server called A."""
    with Server(b"A") as server:
        server.run()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A proxy in front of it."""
    with Proxy(server.port) as proxy:
        yield proxy


def connected(proxy: Proxy) -> socket.socket:
    """Return a connection through the proxy, over which something has gone."""
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=LONG)
    try:
        assert asked(client) == b"Ahello"
    except BaseException:
        client.close()
        raise
    return client


def asked(client: socket.socket, what: bytes = b"hello") -> bytes:
    """Say something; return the answer."""
    client.settimeout(LONG)
    client.sendall(what)
    return client.recv(4096)


def hears_nothing(client: socket.socket) -> bool:
    """Tell whether nothing comes for a while, not even the end of the connection."""
    client.settimeout(SHORT)
    try:
        client.recv(4096)
    except TimeoutError:
        return True
    return False


@pytest.mark.parametrize("ways", [{Way.TO_SERVER}, {Way.TO_CLIENT}, BOTH])
def test_silent_connections(server: Server, proxy: Proxy, ways: set[Way]) -> None:
    """Open ones stay open and silent, new ones work; then what was said comes through."""
    with connected(proxy) as client:
        proxy.silence(ways, new=False)
        client.sendall(b"word")
        assert hears_nothing(client)
        assert (b"word" in server.heard) is (Way.TO_SERVER not in ways)
        connected(proxy).close()
        proxy.speak()
        client.settimeout(LONG)
        assert client.recv(4096) == b"Aword"


def test_silence_for_everybody(proxy: Proxy) -> None:
    """A new connection is accepted, and silent like the others."""
    proxy.silence(BOTH, new=True)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=LONG) as client:
        client.sendall(b"word")
        assert hears_nothing(client)
        proxy.speak()
        client.settimeout(LONG)
        assert client.recv(4096) == b"Aword"


def test_the_end_of_a_silent_connection_is_not_heard_of(server: Server, proxy: Proxy) -> None:
    """The server learns that its client has gone when the silence is over."""
    client = connected(proxy)
    proxy.silence({Way.TO_SERVER}, new=False)
    client.sendall(b"last")
    client.close()
    assert b"last" not in server.heard
    with connected(proxy) as other:
        proxy.speak()
        assert asked(other) == b"Ahello"


def test_a_cut_connection(proxy: Proxy) -> None:
    """Both sides are reset, also when they were silent; new connections work."""
    with connected(proxy) as client:
        proxy.silence(BOTH, new=False)
        proxy.cut()
        client.settimeout(LONG)
        with pytest.raises(ConnectionResetError):
            client.recv(4096)
    connected(proxy).close()


def test_it_leads_elsewhere(proxy: Proxy) -> None:
    """New connections reach another server; while there is none they are reset."""
    with Server(b"B") as other:
        other.run()
        proxy.lead_to(other.port)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=LONG) as client:
            assert asked(client) == b"Bhello"
        other.shutdown()
    with pytest.raises(ConnectionResetError):
        connected(proxy)


def test_a_slow_connection(proxy: Proxy) -> None:
    """Bytes trickle, or come late; at once again when that is over."""
    with connected(proxy) as client:
        proxy.slow(rate=1_000)
        before = monotonic()
        client.sendall(b"x" * 500)
        received = 0
        while received < 500:
            received += len(client.recv(4096).replace(b"A", b""))
        assert monotonic() - before > 0.5
        proxy.slow(latency=0.3)
        before = monotonic()
        assert asked(client) == b"Ahello"
        assert monotonic() - before > 0.6
        proxy.slow()
        assert asked(client) == b"Ahello"
