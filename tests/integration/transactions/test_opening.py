"""A coroutine that is cancelled while its connection is opened leaves none that is open."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from mutirao.sql.connections.engines import Engines
from tests.support.waiting import until

LIMIT = 30.0  # seconds


@pytest.fixture
def engines(tmp_path: Path) -> Engines:
    """Those of a file."""
    return Engines(f"sqlite:///{tmp_path}/jobs.db", creates=True)


async def open_and_close(engines: Engines) -> None:
    """Lend a connection of the engine for coroutines."""
    async with engines.asynchronous().connect():
        pass


@pytest.mark.parametrize("cancelled", ["before", "after"])
async def test_whoever_waits_is_cancelled(
    engines: Engines, cancelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the thread has opened it, and between that and the loop's hearing of it."""
    begun, may_open, is_open = threading.Event(), threading.Event(), threading.Event()
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def watched(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        begun.set()
        assert may_open.wait(LIMIT)
        opened.append(connect(*args, **kwargs))
        is_open.set()
        return opened[0]

    monkeypatch.setattr(sqlite3, "connect", watched)
    opener = asyncio.create_task(open_and_close(engines))
    assert await asyncio.to_thread(begun.wait, LIMIT)
    if cancelled == "after":
        may_open.set()
        assert is_open.wait(LIMIT)  # the loop stands still meanwhile
    opener.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opener
    may_open.set()
    assert await asyncio.to_thread(is_open.wait, LIMIT)
    await engines.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")
    # Its thread tells the loop that it has closed it, which must be there to hear that.
    await until(lambda: not any("connection_worker" in each.name for each in threading.enumerate()))
