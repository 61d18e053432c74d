"""How much a job makes PostgreSQL write to its log, which bounds what a server can do.

On a server of its own, where nobody else writes: no vacuum, and no images of whole pages, which
come by the time that has passed since a checkpoint and not by what jobs do.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

import psycopg
import pytest

from mutirao.model.jobs.job import Claim, NewJob, NewWorker
from mutirao.model.jobs.outcome import SUCCEEDED, Settlement
from mutirao.sql import migrations
from mutirao.sql.store.jobs import SqlStore
from tests.integration.cost import recorded
from tests.support.postgresql import PostgresServer

SETTINGS = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}
BATCH, MANY, SINGLES = 500, 1_000, 50
INSERTED = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"


@dataclass(frozen=True, slots=True)
class Log:
    """A store with a worker, and the log that it makes the server write."""

    store: SqlStore
    worker: int
    server: psycopg.Connection

    async def round(self, payload: int) -> dict[str, float]:
        """Enqueue, claim and finish jobs; return the bytes that each step wrote for one job."""
        job = NewJob(task="t", args=arguments(payload))
        claims: list[Claim] = []

        async def enqueue_singly() -> None:
            for _ in range(SINGLES):
                await self.store.aenqueue([job])

        async def claim() -> None:
            lanes = [head.lane for head in await self.store.lanes(None)]
            while taken := await self.store.claim(self.worker, lanes, BATCH):
                claims.extend(taken)

        async def finish() -> None:
            for n in range(0, len(claims), BATCH):
                done = [Settlement(c.id, c.run, SUCCEEDED) for c in claims[n : n + BATCH]]
                await self.store.settle(self.worker, done)

        return {
            "enqueue 1": await self.written(enqueue_singly) / SINGLES,
            "enqueue 1,000": await self.written(lambda: self.store.aenqueue([job] * MANY)) / MANY,
            "claim": await self.written(claim) / (MANY + SINGLES),
            "finish": await self.written(finish) / len(claims),
        }

    async def written(self, act: Callable[[], Awaitable[object]]) -> int:
        """Return the bytes that are written meanwhile."""
        before = self._inserted()
        await act()
        return self._inserted() - before

    def _inserted(self) -> int:
        row = self.server.execute(INSERTED).fetchone()
        assert row is not None
        return int(row[0])


def arguments(payload: int) -> str:
    """Return so many bytes of JSON, which do not compress: they would be written as fewer."""
    empty = json.dumps({"payload": ""})
    letters = random.Random(payload).choices(string.ascii_letters, k=payload - len(empty))
    return json.dumps({"payload": "".join(letters)})


@pytest.fixture(scope="module")
def quiet_server() -> Iterator[PostgresServer]:
    """A server where nobody else writes."""
    with PostgresServer(SETTINGS) as server:
        yield server


@pytest.fixture
async def log(quiet_server: PostgresServer) -> AsyncIterator[Log]:
    """A worker on a database of that server."""
    with quiet_server.database() as name, quiet_server.connect() as connection:
        migrations.upgrade(quiet_server.url(name))
        store = SqlStore(quiet_server.url(name), pool_size=1)
        new = NewWorker(name="w", host="h", pid=1, queues=None, concurrency=20, version="0")
        yield Log(store, await store.register(new, expiry=3600.0), connection)
        await store.close()


@pytest.mark.parametrize("payload", recorded.WAL_OF_ENQUEUEING)
async def test_written(log: Log, payload: int) -> None:
    """As much as recorded. What claims and settlements write does not grow with the payload."""
    await log.round(payload)  # makes the tables' first pages, and the driver's statements
    found = await log.round(payload)
    expected = recorded.WAL_OF_ENQUEUEING[payload] | recorded.WAL_OF_WORKING
    assert found == pytest.approx(expected, rel=recorded.WAL_TOLERANCE)
