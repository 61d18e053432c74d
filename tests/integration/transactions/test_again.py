"""A command that somebody else's locks brought into a circle is tried again."""

from __future__ import annotations

import asyncio

from mutirao import Mutirao
from mutirao.model.job import NewJob
from mutirao.model.records import JobFilter
from tests.integration.transactions.kit import Others
from tests.support.waiting import soon

LOCK = "SELECT FROM mutirao_live WHERE id = %s FOR UPDATE"


async def test_cancelling(pg_app: Mutirao, others: Others) -> None:
    """It waits for the second job, whose holder waits for the first: the server ends its try."""
    first, second = await pg_app.store.aenqueue([NewJob(task="a"), NewJob(task="a")])
    with others.session() as other:
        other.execute("SET deadlock_timeout = '100s'")  # so that it is not the one to give up
        other.execute(LOCK, [second])
        cancelling = asyncio.create_task(pg_app.store.cancel(JobFilter()))
        await others.until_someone_waits()
        await asyncio.to_thread(other.execute, LOCK, [first])
        other.commit()
    assert await soon(cancelling) == [first, second]
