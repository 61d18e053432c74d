"""A program that forks when it has used its application: `forks_after_use URL WHAT [loop]`.

The child does what it is told, and ends; its parent goes on with the sessions that it had. With
`loop`, both use event loops of their own, as asynchronous programs do. Such a child ends as those
of `multiprocessing` do: the end of the interpreter closes the parent's loop, whatever it is for.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable

from sqlalchemy import NullPool, create_engine, make_url, text

from mutirao import Mutirao
from tests.integration.service.programs.child_process import run_in_child
from tests.support.other_sessions import OTHER_SESSIONS
from tests.support.waiting import wait_until

url, what = make_url(sys.argv[1]), sys.argv[2]
in_loop = sys.argv[3:] == ["loop"]
app = Mutirao(sys.argv[1])
LOOKS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}


@app.task(queue="nobody")
def step() -> None:
    """Wait, as no worker serves this queue."""


def sessions() -> set[int]:
    """Return the ids of the server's sessions in the database, without this one's."""
    database = url.get_backend_name()
    if database not in OTHER_SESSIONS:
        return set()
    engine = create_engine(url.set(drivername=LOOKS[database]), poolclass=NullPool)
    with engine.connect() as connection:
        return {row[0] for row in connection.execute(text(OTHER_SESSIONS[database]))}


async def use_in_loop() -> None:
    """Use the application in an event loop."""
    await step.aenqueue()
    assert await app.acounts()


def use() -> None:
    """Use it in this thread, and in the application's own event loop."""
    if url.drivername != "postgresql+asyncpg":
        step.enqueue()
    app.counts()


def child() -> None:
    """What the child does."""
    if what == "uses":
        asyncio.run(use_in_loop()) if in_loop else use()
    if what in ("uses", "closes"):
        app.close()
        asyncio.run(app.aclose())
    if what == "collects":
        app.__dict__.clear()
    gc.collect()


def fork(again: Callable[[], None]) -> None:
    """Let a child do it; the parent does the same again, in the same sessions."""
    before = sessions()
    run_in_child(child, ends_at_once=in_loop)
    again()
    wait_until(lambda: sessions() == before, deadline=20)  # those of the child end after it


if in_loop:
    with asyncio.Runner() as runner:
        runner.run(use_in_loop())
        fork(lambda: runner.run(asyncio.wait_for(use_in_loop(), 60)))
        runner.run(app.aclose())
else:
    use()
    fork(use)
    app.close()
print("all is well")
