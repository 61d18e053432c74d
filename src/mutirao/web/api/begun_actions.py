"""The beginning of an action on many jobs: its end, if that comes soon, or else its id.

It goes on behind the API, as those of pages do.
"""

import asyncio
from collections.abc import Awaitable, Callable

from mutirao.model.audit.actions import AuditRecord, Came
from mutirao.web.background import Background

PATIENCE = 1.0  # seconds in which whoever asked waits for the end

Progress = Callable[[int, Came], object]
Run = Callable[[Progress], Awaitable[AuditRecord]]


async def begin(background: Background, run: Run) -> AuditRecord | int:
    """Begin an action; return what the audit has of it, or its id if it goes on; raise its error.

    It goes on whatever becomes of whoever asked.
    """
    begun, ended, ids = asyncio.Event(), asyncio.Event(), set[int]()
    came: list[AuditRecord | Exception] = []

    def progress(id: int, _: Came) -> None:
        ids.add(id)
        begun.set()

    async def work() -> None:
        try:
            came.append(await run(progress))
        except Exception as error:
            came.append(error)
            raise
        finally:
            ended.set()
            begun.set()

    background.start(work())
    await begun.wait()
    try:
        await asyncio.wait_for(ended.wait(), PATIENCE)
    except TimeoutError:
        return ids.pop()
    if came and isinstance(came[0], AuditRecord):
        return came[0]
    if came and isinstance(came[0], Exception):
        raise came[0]
    return ids.pop()  # the program ends
