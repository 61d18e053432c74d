"""A hub for tests: in the test's event loop, or as the command that people start."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mutirao.hub.looking import LOOK_LIMIT, LookedAt
from mutirao.hub.service import HubSettings, serving
from mutirao.sql.store.jobs import SqlStore

ANYWHERE = "127.0.0.1:0"
_LISTENS = re.compile(r"the hub listens at (\S+)")


@asynccontextmanager
async def hub(*looked_at: str, bind: str = ANYWHERE, **settings: Any) -> AsyncIterator[str]:
    """Run a hub that looks at the databases of these URLs; yield its own URL."""
    stores = [SqlStore(url, within=LOOK_LIMIT) for url in looked_at]
    watched = [LookedAt(store.engines.called, store) for store in stores]
    async with serving(HubSettings(bind=bind, **settings), watched) as place:
        yield place


class HubProcess:
    """The command `mutirao hub`, as a process."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process, self.url = process, url

    def kill(self) -> None:
        """End it without a farewell."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Stop it, as a machine that hangs does."""
        self._process.send_signal(signal.SIGSTOP)


@contextmanager
def hub_process(
    *args: object, bind: str = ANYWHERE, cwd: Path | None = None, **env: str
) -> Iterator[HubProcess]:
    """Start the command, and wait until it listens; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mutirao", "hub", "--bind", bind, *map(str, args)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **env},
    )
    with process:
        try:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                if found := _LISTENS.search(line):
                    break
            else:
                raise AssertionError("".join(lines))
            yield HubProcess(process, found[1])
        finally:
            process.kill()
