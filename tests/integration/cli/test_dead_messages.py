"""`mutirao transports dead …`: which messages are shown, returned and dropped."""

from __future__ import annotations

import pytest

from tests.integration.cli.conftest import Shell

APP = "shop:app"
SHOP = """
import asyncio

from mutirao import Mutirao
from mutirao.model.brokers.message import Cause, DeadMessage
from mutirao.transports.memory import MemoryTransport

mail = MemoryTransport()
asyncio.run(mail.declare(["mail"]))
app = Mutirao({url!r}, transports={{"mail": mail}})


@app.task(queue="mail")
def send() -> None: ...


def bury(id: str, task: str, error: str, body: bytes = b"{{}}") -> None:
    cause = Cause(error_type="ValueError", error=error, attempts=1)
    dead = DeadMessage(id=id, task=task, queue="mail", raw=body, cause=cause)
    mail._queue("mail").dead.append(dead)
    mail._queue("mail").buried[id] = body


bury("a", "send", "no such order 7")
bury("b", "send", "Timed Out", b"z" * 20_000)
bury("c", "report", "timed out")
bury("d", "report", "no disk")
"""


@pytest.fixture
def dead(sqlite_shell: Shell) -> Shell:
    """An application with four dead messages at a broker."""
    module = sqlite_shell.directory / "shop.py"
    module.write_text(SHOP.format(url=sqlite_shell.url))
    return sqlite_shell


def ids(dead: Shell) -> list[str]:
    """Return the ids of those that are dead still."""
    return [each["id"] for each in dead.json("transports", "dead", "list", APP)]


def test_some_of_them(dead: Shell) -> None:
    """By task, by a text of their errors, by both, by id; one of these three ways."""
    run = ("transports", "dead")
    drop = (*run, "drop", APP)
    assert dead.json(*drop, "--task", "report", "--error", "DISK") == {"dropped": 1}
    assert ids(dead) == ["a", "b", "c"]
    found = dead.ok(*run, "return", APP, "--error", "timed out")
    assert found == "2 dead messages returned\n"
    assert dead.ok(*drop, "--task", "nothing") == "0 dead messages dropped\n"
    assert ids(dead) == ["a"]
    for wrong in ((), ("a", "--all"), ("--all", "--task", "send"), ("a", "--error", "order")):
        assert "give the ids of messages, --task or --error, or --all" in dead.refused(
            2, *drop, *wrong
        )


def test_ids_that_are_of_none(dead: Shell) -> None:
    """They are named; the others are dealt with."""
    run = ("transports", "dead", "drop", APP)
    found = dead.refused(1, *run, "x", "a", "y", "x")
    assert "no dead message has the id x or y; `mutirao transports dead list`" in found
    assert ids(dead) == ["b", "c", "d"]


def test_a_large_one(dead: Shell) -> None:
    """Shown by its beginning; whole as JSON."""
    show = ("transports", "dead", "show", APP, "b")
    found = dead.ok(*show)
    assert "(20,000 characters in all; --json has them)" in found
    assert found.count("z") == 10_000
    assert len(dead.json(*show)["body"]) == 20_000
