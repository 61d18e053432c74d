"""`mutirao probe` against addresses and answers that are not as they should be."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from mutirao.cli import main


def probe(*words: str) -> tuple[int, str]:
    """Run the command; return its status and what it says."""
    done = CliRunner().invoke(main, ["probe", *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/", "http://[::1", "http://:1/", "x"])
def test_what_is_no_url(url: str) -> None:
    """It is said, and no traceback."""
    status, said = probe(url)
    assert (status, "is none; give one such as" in said) == (2, True)


def test_names_that_nobody_can_have() -> None:
    """Are names that do not answer; and a password is not shown."""
    status, said = probe("http://eva:hunter2@a..b/livez")
    assert (status, "does not answer" in said, "hunter2" in said) == (1, True, False)
    assert probe("http://a b/livez")[0] == 1


@pytest.fixture
def trickling() -> Iterator[str]:
    """A server that sends a byte of its answer as often as it can, forever."""
    ended = threading.Event()

    def serve() -> None:
        with listening.accept()[0] as line:
            try:
                while not ended.wait(0.01):
                    line.sendall(b"H")
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/livez"
        ended.set()
        thread.join()


def test_an_answer_that_never_ends(trickling: str) -> None:
    """The time is that of the whole answer."""
    status, said = probe(trickling, "--timeout", "0.2")
    assert (status, "not within 0.2 s" in said) == (1, True)
