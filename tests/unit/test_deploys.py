"""Which version is newer, and when it has taken over."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from mutirao.aio import end_tasks
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import ConfigurationError
from mutirao.model.deploys import Deployed, Served, is_newer, named, taken_over
from mutirao.transports.memory import MemoryTransport
from tests.support.engine import LoopHealth, VersionAnnouncer, VersionWatch
from tests.support.waiting import soon, until

MINE = [("mail", "send"), ("mail", "greet"), ("video", "encode"), ("extra", None)]


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [
        ("2", "1", True), ("1", "2", False), ("1", "1", False), ("10", "9", True),
        ("1.10", "1.9", True), ("1.9.1", "1.9", True), ("2026.11.26", "2026.9.30", True),
        ("shop:app@2", "shop:app@1", True), ("other@2", "shop@1", False), ("shop@2", "1", False),
        ("latest", "1", False), ("2", "", False),
    ],
)  # fmt: skip
def test_newer(version: str, than: str, newer: bool) -> None:
    """By number, within one application."""
    assert is_newer(version, than) is newer


@pytest.mark.parametrize(
    ("others", "by"),
    [
        ([], None),
        ([Deployed("5", Served())], "5"),
        ([Deployed("3", Served())], None),
        ([Deployed("5", Served(("mail", "extra")))], None),
        ([Deployed("5", Served(("mail", "extra"))), Deployed("6", Served(("video",)))], "6"),
        ([Deployed("5", Served(("mail", "extra"))), Deployed("3", Served(("video",)))], None),
        ([Deployed("5", Served(exclude_queues=("video",)))], None),
        ([Deployed("5", Served(tasks=("send", "greet")))], None),
        ([Deployed("5", Served(tasks=("send", "greet"))), Deployed("5", Served(tasks=("encode",)))],
         "5"),
    ],
)  # fmt: skip
def test_taken_over(others: list[Deployed], by: str | None) -> None:
    """Once later versions serve all that a worker of version 4 serves, together."""
    assert taken_over("4", MINE, others) == by


def test_names() -> None:
    """One that is given stays."""
    assert named("4", "shop:app") == "shop:app@4"
    assert named("shop@4", "shop:app") == "shop@4"


@pytest.mark.parametrize("version", ["", "v4", "4.", "abc", "3f2a19c", "a b@4", "4" * 201, 4])
def test_no_version(version: Any) -> None:
    """It is refused with what to give."""
    with pytest.raises(ConfigurationError, match="numbers with dots"):
        WorkerSettings(app_version=version)


async def test_what_nobody_can_read() -> None:
    """An announcement of somebody else's is passed over, however it is made."""
    broker = MemoryTransport()
    settings = WorkerSettings(queues=("mail",), app_version="4", drain_on_new_version=True)
    deploys = VersionWatch(settings)
    herald = VersionAnnouncer(broker, deploys, settings, lambda: True)
    hearing = asyncio.create_task(herald.run(LoopHealth("versions", 60)))
    await until(lambda: broker._listeners)
    for body in (b"\xff", b"[1]", b'{"version": "5", "newer": ' + 60_000 * b"["):
        broker.announce(body)
    broker.announce(msgspec.json.encode(Deployed("5", Served())))
    await soon(deploys.outdated.wait())
    await end_tasks(hearing)


def test_nothing_to_compare() -> None:
    """Nobody can say whether others are newer."""
    with pytest.raises(ConfigurationError, match="give app_version, too"):
        WorkerSettings(drain_on_new_version=True)
