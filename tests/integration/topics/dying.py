"""Processes that fan a publication out, and are killed before their nth statement or commit.

Each is a fork of this one, which has no threads and no connections. It says of each how it ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from sqlalchemy import Engine, event

from mutirao.sql.connections.runner import Runner
from mutirao.sql.store import subscriptions
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import join, take
from mutirao_conformance.topics import fan_out

A_PART = 3  # subscriptions


async def dies_after(url: str, statements: int) -> None:
    """Fan out what is due; count statements and commits from there on.

    What goes past SQLAlchemy is counted when it is sent, and when it is answered.
    """

    def sent(*_: object) -> None:
        nonlocal statements
        statements -= 1
        if statements == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    store = SqlStore(url)
    [claim] = await take(store, await join(store), 1)
    event.listen(Engine, "before_cursor_execute", sent)
    event.listen(Engine, "commit", sent)
    send_alone = Runner.alone

    async def alone(*args: Any, **kwargs: Any) -> Any:
        sent()
        answer = await send_alone(*args, **kwargs)
        sent()
        return answer

    Runner.alone = alone  # type: ignore[method-assign]
    await fan_out(store, claim)
    sent()


def main(url: str) -> None:
    """Do so for each number on the standard input."""
    subscriptions.SUBSCRIPTIONS_AT_ONCE = A_PART
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(dies_after(url, int(line)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else f"exit {status}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
