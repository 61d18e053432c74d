"""A supervisor that watches for changes: whom it tells what, and how often."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import pytest
import watchfiles

from mutirao.cli.reloading import watch_here
from mutirao.cli.supervisor import Supervisor
from mutirao.errors import ConfigurationError
from tests.support.log_records import ours
from tests.support.waiting import soon

# It tells of its start and of each signal, and ends when it is written to.
PROCESS = """
import signal, socket, sys

channel = socket.socket(socket.AF_UNIX)
channel.connect(sys.argv[1])
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: channel.sendall(signal.Signals(number).name.encode()))
channel.sendall(b"ready ")
channel.recv(1)
"""


class Process:
    """A process that the supervisor has started, as it is heard here."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def says(self, words: bytes) -> None:
        """Wait for these words, which come next."""
        assert await soon(self._reader.readexactly(len(words))) == words

    async def end(self) -> bytes:
        """End it; return what else it has said."""
        self._writer.write(b"!")
        return await soon(self._reader.read())

    def close(self) -> None:
        """Hear no more of it, which ends it."""
        self._writer.close()


class Trial:
    """One supervisor of one process, and the changes that it is told of; None: watching fails."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[str | None] = asyncio.Queue()
        self._started: asyncio.Queue[Process] = asyncio.Queue()
        self._heard: list[Process] = []

    async def started(self) -> Process:
        """Return the next process, once it is ready."""
        process = await soon(self._started.get())
        await process.says(b"ready ")
        return process

    async def change(self) -> None:
        """Tell of a change, and wait until the supervisor has told its process."""
        await self.changes.put("code changed")
        await soon(self.changes.join())

    async def watch(self, ended: asyncio.Event) -> AsyncIterator[str]:
        """Yield the changes."""
        ending = asyncio.create_task(ended.wait())
        while True:
            change = asyncio.create_task(self.changes.get())
            await asyncio.wait((ending, change), return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                change.cancel()
                return
            if (changed := change.result()) is None:
                ending.cancel()
                raise ConfigurationError("nothing can be watched")
            yield changed
            self.changes.task_done()

    async def run(self, path: Path, play: Callable[[Trial], Awaitable[None]]) -> int:
        """Run the supervisor while something is played; return its status."""

        async def heard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._heard.append(Process(reader, writer))
            await self._started.put(self._heard[-1])

        server = await asyncio.start_unix_server(heard, path)
        command = [sys.executable, "-c", PROCESS, str(path)]
        running = asyncio.create_task(Supervisor(command, 1, self.watch).run())
        try:
            await play(self)
            return await soon(running)
        finally:
            running.cancel()
            server.close()
            for process in self._heard:
                process.close()


def play(path: Path, played: Callable[[Trial], Awaitable[None]]) -> int:
    """Play in a loop of its own, which takes the handlers of signals with it."""

    async def run() -> int:
        return await Trial().run(path / "s", played)

    return asyncio.run(run())


def test_changes_while_a_process_ends(tmp_path: Path) -> None:
    """It is told once, as it would end at once if told again. So is the next one."""

    async def played(trial: Trial) -> None:
        first = await trial.started()
        await trial.change()
        await first.says(b"SIGTERM")
        await trial.change()
        assert await first.end() == b""
        second = await trial.started()
        await trial.change()
        await second.says(b"SIGTERM")
        await second.end()
        third = await trial.started()
        os.kill(os.getpid(), signal.SIGINT)
        await third.says(b"SIGINT")
        await third.end()

    assert play(tmp_path, played) == 0


def test_signals_while_a_process_ends(tmp_path: Path) -> None:
    """The first one lets it end, as it has been told; the second one ends it at once."""

    async def played(trial: Trial) -> None:
        process = await trial.started()
        await trial.change()
        await process.says(b"SIGTERM")
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        await process.says(b"SIGTERM")
        assert await process.end() == b""

    assert play(tmp_path, played) == 0


def test_watching_that_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is told at once; the process may finish its work, and the error is raised."""

    async def played(trial: Trial) -> None:
        process = await trial.started()
        await trial.changes.put(None)
        await process.says(b"SIGTERM")
        logged = [record for record in ours(caplog) if record.levelno == logging.ERROR]
        assert [each.getMessage() for each in logged] == [
            "nothing can be watched: stopping the worker processes"
        ]
        await process.end()

    with pytest.raises(ConfigurationError, match="nothing can be watched"):
        play(tmp_path, played)


async def test_too_much_to_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do about the limit."""

    def refused(*_: object, **__: object) -> NoReturn:
        raise OSError("OS file watch limit reached.")

    monkeypatch.setattr(watchfiles, "awatch", refused)
    with pytest.raises(ConfigurationError, match=r"limit reached\.; start it in a directory"):
        await anext(watch_here()(asyncio.Event()))
