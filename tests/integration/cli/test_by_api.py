"""Commands by the HTTP API: they show and do the same as with the database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from click.testing import Result

from mutirao.cli import main
from mutirao.cli.target import load_app
from mutirao.cli.web import by_api
from mutirao.web.credentials import Credentials, Door
from mutirao.web.scoped_tokens import ScopedTokens
from tests.integration.cli.conftest import Shell

TOKEN = "a-token-of-this-test"


@dataclass
class Remote:
    """The command line of somebody who has the API and a token, and no database."""

    shell: Shell
    url: str
    file: Path

    def ok(self, *args: object) -> str:
        """Run a command that succeeds; return what it printed."""
        return self.shell.ok(*args, "--api", self.url, "--token-file", self.file)

    def json(self, *args: object) -> Any:
        """Run one with --json; return the document."""
        return self.shell.json(*args, "--api", self.url, "--token-file", self.file)

    def run(self, *args: object) -> Result:
        """Run one, whatever comes of it."""
        return self.shell.run(*args, "--api", self.url, "--token-file", self.file)

    def refused(self, status: int, *args: object) -> str:
        """Run one that fails; return what it said."""
        return self.shell.refused(status, *args, "--api", self.url, "--token-file", self.file)


class Silent(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def remote(sqlite_shell: Shell, tmp_path: Path) -> Iterator[Remote]:
    """The API of the shop, served in a thread."""
    app = load_app("shop:app")
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    tokens = ScopedTokens.parse(f"admin eva {TOKEN}")
    site = app.web(access=Door(Credentials(tokens=tokens))).wsgi()
    with make_server("127.0.0.1", 0, site, handler_class=Silent) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Remote(sqlite_shell, f"http://127.0.0.1:{server.server_port}", file)
        server.shutdown()
        thread.join()
    site.close()
    app.close()


def test_jobs_are_shown_as_from_the_database(remote: Remote) -> None:
    """The same table, whichever way it came."""
    for order in (7, 8, 9):
        said = remote.ok("enqueue", "send", f'{{"order_id": {order}}}', "--priority", order)
        assert said == f"enqueued job {order - 6} (send) in queue mail\n"
    remote.ok("enqueue", "send", "{}", "--delay", "2h", "--tag", "late")
    for args in (("list",), ("list", "queue:mail", "state:ready"), ("list", "--limit", "2")):
        assert remote.ok(*args) == remote.shell.ok(args[0], "shop:app", *args[1:])
    assert remote.ok("show", "4") == remote.shell.ok("show", "shop:app", "4")
    ours, theirs = remote.json("show", "4"), remote.shell.json("show", "shop:app", "4")
    assert (ours["id"], ours["tags"]) == (theirs["id"], theirs["tags"])
    assert "mail" in remote.ok("stats")
    assert remote.json("stats")["queues"][0]["jobs"]["ready"] == 3


def test_jobs_are_acted_on(remote: Remote) -> None:
    """By ids and by filters, with the number; the audit has the name of the token."""
    for _ in range(4):
        remote.ok("enqueue", "send", "{}", "--delay", "2h")
    assert remote.ok("retry", "1") == "action 1 is done: 1 of 1\n"
    said = remote.ok("change", "queue:mail", "state:scheduled", "--to-queue", "bulk", "--yes")
    assert said == "action 2 is done: 3 of 3\n"
    assert remote.ok("cancel", "queue:bulk", "--yes") == "action 3 is done: 3 of 3\n"
    assert remote.json("redrive", "2")["done"] == 1
    assert "action 5 is done: 0 of 1" in remote.run("cancel", "2").stdout
    audit = remote.ok("audit")
    assert audit == remote.shell.ok("audit", "shop:app")
    assert audit.count("eva") == 5
    assert "add --yes" in remote.refused(2, "cancel", "queue:mail")
    assert "does not run" in remote.refused(1, "audit", "--stop", "1")


def test_queues_and_schedules(remote: Remote) -> None:
    """Paused, resumed, run; and the audit knows."""
    shell = remote.shell
    shell.ok("schedules", "put", "shop:app", "night/ly", "send", "--every", "1h")
    assert remote.ok("schedules", "list") == shell.ok("schedules", "list", "shop:app")
    assert remote.ok("schedules", "run", "night/ly") == "enqueued job 1 of schedule night/ly\n"
    remote.ok("schedules", "pause", "night/ly", "--reason", "moving")
    assert "moving" in shell.ok("schedules", "list", "shop:app")
    remote.ok("schedules", "resume", "night/ly")
    assert remote.ok("pause", "--queue", "mail") == "queue mail is paused\n"
    assert remote.ok("resume", "--queue", "mail") == "queue mail is resumed\n"
    assert "give --queue" in remote.refused(2, "pause", "--task", "send")
    assert "resume" in remote.ok("audit", "--limit", "1")


def test_what_is_refused_says_why(remote: Remote, tmp_path: Path) -> None:
    """With the exit status that the same trouble has with a database."""
    assert "no job" in remote.refused(1, "show", "99")
    assert "no task" in remote.refused(1, "enqueue", "sned")
    remote.file.write_text("another-token-of-nobody")
    assert "does not know the token" in remote.refused(2, "list")
    remote.url = "http://127.0.0.1:1"
    assert "does not answer" in remote.refused(4, "list")
    remote.url = "http://jobs.example.com"
    assert "give https" in remote.refused(2, "list")
    remote.url = "jobs.example.com"
    assert "give where the dashboard is" in remote.refused(2, "list")
    assert "leave one out" in remote.refused(2, "list", "shop:app")


def test_what_needs_the_database_says_so(remote: Remote) -> None:
    """It is not that the option is unknown."""
    for command in (("migrate",), ("limits", "list"), ("schedules", "remove", "x"), ("prune",)):
        assert "needs the database" in remote.refused(2, *command)


def test_each_command_by_the_api_is_one() -> None:
    """And each that has the option is there."""
    found = set()
    groups: list[tuple[str, Any]] = [("", main)]
    while groups:
        path, group = groups.pop()
        for name in group.list_commands(None):
            command = group.get_command(None, name)
            if hasattr(command, "list_commands"):
                groups.append((f"{path}{name} ", command))
            elif getattr(command, "is_by_api", False):
                found.add(f"{path}{name}")
    assert found == by_api.COMMANDS.keys()


@pytest.mark.parametrize("content", [f"{TOKEN}\nanother", f"admin eva {TOKEN}", f"{TOKEN}é"])
def test_no_token_is_printed(remote: Remote, content: str) -> None:
    """Not even one that is none."""
    remote.file.write_text(content)
    said = remote.refused(2, "list")
    assert ("--token-file has more" in said, TOKEN in said) == (True, False)
    remote.file.write_bytes(b"\xff\xfe")
    assert "it is no text" in remote.refused(2, "list")


@pytest.mark.parametrize("url", ["http://eva:hunter2@127.0.0.1:1", "https://[::1", "http://a:x"])
def test_urls_that_are_none(remote: Remote, url: str) -> None:
    """And a password in one is not printed."""
    remote.url = url
    said = remote.refused(2, "list")
    assert ("give where the dashboard is" in said, "hunter2" in said) == (True, False)


def test_no_proxy_reads_the_token(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes to this machine by HTTP goes there, and to no proxy."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert remote.ok("list") == "no such jobs\n"


@pytest.mark.parametrize(
    "answer",
    ["[]", "{}", '{"jobs": [{"id": "%s"}], "next": null}' % ("9" * 5_000),
     '{"jobs": [{"run_at": "soon"}], "next": null}'],
)  # fmt: skip
def test_an_answer_of_others(sqlite_shell: Shell, answer: str) -> None:
    """Something else stands at that address: it is said, and no traceback."""

    def other(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/json")])
        return [answer.encode()]

    with make_server("127.0.0.1", 0, other, handler_class=Silent) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert "none of the API" in sqlite_shell.refused(4, "list", "--api", url)
        thread.join()
