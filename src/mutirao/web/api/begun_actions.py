"""Begins an action on many jobs for the API and pages: it continues in the background.

By a filter, the number has to be what the caller saw. The caller gets its result if it ends soon,
or else its id.
"""

import asyncio
from collections.abc import Awaitable, Callable

from mutirao.client.reading import Reading
from mutirao.model.audit.actions import AuditRecord, Came
from mutirao.model.filters.filter import Filter
from mutirao.web.api.problems import Conflict
from mutirao.web.background import Background

MOST_EXPECTED = 1_000_000  # jobs of an action by a filter
MOST_TOLD = 10_000  # jobs that are counted where another number was expected
MOST_WINDOWS = 500  # of 20,000 jobs each, that are looked at for the number of an action
PATIENCE = 1.0  # seconds in which the caller waits for the end

Progress = Callable[[int, Came], object]
Run = Callable[[Progress], Awaitable[AuditRecord]]


async def check_expected(reading: Reading, which: Filter, expected: int) -> None:
    """Raise Conflict if the number of matching jobs is not `expected`, or cannot be counted."""
    most = max(expected + 1, MOST_TOLD)
    counted = await reading.ahow_many(which, most=most, windows=MOST_WINDOWS)
    if counted.jobs == expected and not counted.at_least:
        return
    if counted.at_least and counted.jobs <= expected:
        raise Conflict(
            "TooManyJobs", "too many jobs had to be looked at; narrow the filter, such as by id:"
        )
    raise Conflict(
        "OtherNumber",
        f"{'at least ' if counted.at_least else ''}{counted.jobs:,} jobs match now, and"
        f" {expected:,} were expected; look at them again. Nothing was done",
        matched=counted.jobs,
    )


async def begin(background: Background, run: Run) -> AuditRecord | int:
    """Begin an action; return its audit record, or its id if it still runs; raise its error.

    It continues even if the caller is cancelled.
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
