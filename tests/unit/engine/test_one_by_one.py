"""An attempt of which the database refuses everything still leaves a trace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from mutirao.engine.calls.attempt import Finished
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.settling.one_by_one import OneByOne
from mutirao.errors import StoreRefused
from mutirao.model.jobs.outcome import SUCCEEDED
from mutirao.testing import MemoryStore
from mutirao_conformance.kit import due, join, take_one


async def test_what_cannot_be_settled_at_all() -> None:
    """Its attempt is lost: the job waits again, and after a few such ends it is dead."""
    store = MemoryStore()
    [id] = await store.aenqueue([due()])
    claim = await take_one(store, await join(store))
    ended = asyncio.Event()

    async def refuse(batch: list[Finished]) -> None:
        raise StoreRefused("a value")

    def instead(one: Finished, error: Exception) -> Iterator[Finished]:
        yield one

    aside = OneByOne(store, WorkerSettings(), refuse, instead, ended.set)
    aside.take([Finished(claim, SUCCEEDED, 0.0, 0.0, None)], StoreRefused("a value"))
    await aside.idle()
    assert len(aside) == 0
    job = await store.job(id)
    assert [(str(each.outcome), each.run) for each in job.attempts] == [("lost", claim.run)]
