"""A worker that is killed at any statement of a fan-out: each subscription gets exactly one job."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any

import pytest

from mutirao.model.keys.uniqueness import OnConflict, Unique
from mutirao.sql.store import subscriptions
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import at, join, take
from mutirao_conformance.topics import (
    deliveries,
    fan_out,
    publish,
    subscribe,
    subscription,
)
from tests.integration.topics import dying
from tests.support.waiting import until

pytestmark = pytest.mark.repeats("mysql", "postgresql", decided="tests/conformance")

IN_ORDER = subscription("sorted", order_by="order_id")
NEWEST = Unique(on_conflict=OnConflict.REPLACE, scope="s3")
KEYED = subscription("s3", key="order_id", unique=NEWEST)
SUBSCRIBERS = ["s0", "s1", "s2", KEYED.id, IN_ORDER.id]
PARTS = 2
FEWEST_STATEMENTS = 4 * PARTS  # lock, read, write and commit
ROOT = Path(__file__).parents[3]


async def test_killed_at_each_statement(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes next goes on; in the end all have been told, and nobody twice."""
    monkeypatch.setattr(subscriptions, "SUBSCRIPTIONS_AT_ONCE", dying.A_PART)
    asked = [IN_ORDER, *SUBSCRIBERS[:3], KEYED]
    assert await killed_at_each(migrated_url, asked, FEWEST_STATEMENTS) == {0, 4, 5}


async def test_killed_at_each_call(
    migrated_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where the database makes a part by itself, before it and after it."""
    monkeypatch.setattr(subscriptions, "SUBSCRIPTIONS_AT_ONCE", dying.A_PART)
    found = await killed_at_each(migrated_postgresql_url, SUBSCRIBERS, 2 * PARTS)
    assert found == {0, dying.A_PART, len(SUBSCRIBERS)}


async def killed_at_each(url: str, asked: list[Any], fewest: int) -> set[int]:
    """Kill fan-outs to these subscriptions; return how many deliveries the killed ones had made."""
    store = SqlStore(url)
    await subscribe(store, *asked)
    worker = await join(store, expiry=10**9)
    begun = set[int]()
    with victims(url) as (ask, found):
        for statements in count(1):
            id = await publish(store)
            print(statements, file=ask, flush=True)
            how = found.readline().strip()
            begun.add(len(await deliveries(store, id)))
            await finish(store, worker, id)
            done = await deliveries(store, id)
            assert [task for task, _ in done] == SUBSCRIBERS, statements
            if how != "killed":
                break
    await store.close()
    assert how == "exit 0"
    assert statements > fewest
    return begun


async def finish(store: SqlStore, worker: int, id: int) -> None:
    """Rescue a publication, if it has not ended, and make what is left to make."""

    async def has_ended() -> bool:
        await store.rescue(now=at(10**6))
        for claim in await take(store, worker):
            await fan_out(store, claim)
        return (await store.job(id)).state == "succeeded"

    await until(has_ended)


@contextmanager
def victims(url: str) -> Iterator[tuple[IO[str], IO[str]]]:
    """Give what asks for processes that are killed, and what tells how they ended."""
    command = [sys.executable, "-m", "tests.integration.topics.dying", url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdin, process.stdout
        process.stdin.close()
