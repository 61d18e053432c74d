"""The port of metrics and probes, where the network or the machine is not as it should be."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from mutirao.telemetry.prometheus import http_port
from mutirao.telemetry.prometheus.http_port import MOST_AT_ONCE, HttpServer, PortReply
from tests.support.waiting import wait_until


@pytest.fixture
def port() -> Iterator[int]:
    """A server that answers /livez."""
    server = HttpServer("127.0.0.1", 0, {"/livez": lambda _: PortReply(200, "a/b", b"ok")}, "p")
    server.start()
    yield int(server.url.rpartition(":")[2])
    server.stop()


def alive(port: int) -> bool:
    """Return whether it answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=60) as told:
            return bool(told.read() == b"ok")
    except OSError:
        return False


def test_a_request_that_never_ends(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then keeps no place: all of them would be taken, and no probe answered."""
    monkeypatch.setattr(http_port, "READ_WITHIN", 0.1)

    def is_closed(line: socket.socket) -> bool:
        try:
            line.sendall(b"a")
            return line.recv(1, socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    with closing(socket.create_connection(("127.0.0.1", port))) as line:
        line.sendall(b"GET /")
        wait_until(lambda: is_closed(line), deadline=20)
    assert alive(port)


def test_threads_that_cannot_start(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take no place away: it answers once there are threads again."""
    tried, start = [], threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        tried.append(thread)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(MOST_AT_ONCE):
        assert not alive(port)
    assert len(tried) == MOST_AT_ONCE
    monkeypatch.setattr(threading.Thread, "start", start)
    assert alive(port)


def test_no_descriptor_is_left(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever cannot be accepted waits on, and is not tried again and again without a pause."""
    paused, left, accept = threading.Event(), [3], socket.socket.accept

    def refuse(line: socket.socket) -> Any:
        if left[0]:
            left[0] -= 1
            raise OSError(24, "Too many open files")
        return accept(line)

    def pause(seconds: float) -> None:
        if seconds == http_port.NO_PLACE:
            paused.set()

    monkeypatch.setattr(socket.socket, "accept", refuse)
    monkeypatch.setattr(http_port, "sleep", pause, raising=False)
    assert alive(port)
    assert paused.is_set()
