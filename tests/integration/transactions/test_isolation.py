"""Callers at REPEATABLE READ and SERIALIZABLE: what they enqueue is right, or they are refused.

The table in docs/uniqueness.md says the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from mutirao.model.job import Claim, NewJob
from mutirao.model.supersede import Supersede
from mutirao.model.uniqueness import OnConflict, Placed, Unique
from mutirao.sql.store import SqlStore
from mutirao.testing.conformance.kit import due, ended, join, take
from tests.integration.transactions.kit import Others
from tests.support.history import opened

OLD = ["REPEATABLE READ", "SERIALIZABLE"]
RULE = Unique(supersede=Supersede(by="kind", rules={("a", "a"): "newer"}))
REFUSED = "refused"


def keyed(how: str, version: int | None = None) -> NewJob:
    """Return a job of the key, with this rule."""
    if how == "older":
        return keyed("rerun", 8 if version is None else version)
    unique = RULE if how == "series" else Unique(on_conflict=OnConflict(how), version=version)
    return due(key="k", args='{"kind": "a"}', unique=unique)


class Since:
    """What others do and commit while a caller's transaction is open."""

    def __init__(self, store: SqlStore, how: str) -> None:
        self._store, self._how, self._claims = store, how, list[Claim]()
        self._worker = 0

    async def nothing(self) -> None:
        """Do nothing."""

    async def enqueued(self) -> None:
        """Enqueue the same."""
        await self._store.aenqueue([keyed(self._how)])

    async def begun(self) -> None:
        """Claim what waits."""
        self._worker = self._worker or await join(self._store)
        self._claims += await take(self._store, self._worker)

    async def finished(self) -> None:
        """Finish what waits, or runs."""
        await self.begun()
        await self._store.settle(self._worker, [ended(claim) for claim in self._claims])


# The rule; what stands when the transaction begins; what happens since; how the caller fares at
# READ COMMITTED, and above.
CASES = [
    ("keep", "nothing", "enqueued", "found", REFUSED),
    ("keep", "enqueued", "nothing", "found", "found"),
    ("keep", "enqueued", "begun", "found", REFUSED),
    ("keep", "enqueued", "finished", "inserted", REFUSED),
    ("keep", "begun", "finished", "inserted", REFUSED),
    ("keep", "finished", "nothing", "inserted", "inserted"),
    ("replace", "nothing", "enqueued", "replaced", REFUSED),
    ("replace", "enqueued", "nothing", "replaced", "replaced"),
    ("replace", "enqueued", "begun", "rerun", REFUSED),
    ("replace", "enqueued", "finished", "inserted", REFUSED),
    ("rerun", "begun", "nothing", "rerun", "rerun"),
    ("rerun", "begun", "finished", "inserted", REFUSED),
    ("rerun", "begun", "enqueued", "rerun", REFUSED),
    ("older", "nothing", "enqueued", "outdated", REFUSED),
    ("older", "enqueued", "nothing", "outdated", "outdated"),
    ("older", "enqueued", "begun", "outdated", "outdated"),
    ("older", "enqueued", "finished", "outdated", "outdated"),
    ("older", "begun", "finished", "outdated", "outdated"),
    ("older", "finished", "nothing", "outdated", "outdated"),
    ("older", "begun", "enqueued", "outdated", REFUSED),
    ("series", "nothing", "enqueued", "replaced", REFUSED),
    ("series", "enqueued", "nothing", "replaced", "replaced"),
    ("series", "enqueued", "begun", "follows", REFUSED),
    ("series", "begun", "finished", "inserted", REFUSED),
]


@pytest.fixture
async def store(pg_url: str) -> AsyncIterator[SqlStore]:
    """A store over an empty database."""
    async with opened(pg_url) as store:
        yield store


async def fare(
    store: SqlStore, others: Others, level: str, how: str, before: str, since: str
) -> str:
    """Enqueue in a transaction that has seen the database before something happened."""
    happens = Since(store, how)
    if before in ("begun", "finished"):
        await happens.enqueued()
    await getattr(happens, before)()
    with others.session(level) as caller:
        caller.execute("SELECT FROM mutirao_job")
        await getattr(happens, since)()
        try:
            [id] = store.enqueue([keyed(how, 7)], caller)
            caller.commit()
        except psycopg.errors.SerializationFailure:
            return REFUSED
    assert isinstance(id, Placed)
    return id.how


@pytest.mark.parametrize(("how", "before", "since", "committed", "above"), CASES)
@pytest.mark.parametrize("level", ["READ COMMITTED", *OLD])
async def test_keys(
    store: SqlStore, others: Others, level: str, how: str, before: str, since: str,
    committed: str, above: str,
) -> None:  # fmt: skip
    """What the caller was told is true at its commit, or nothing is written."""
    expected = committed if level == "READ COMMITTED" else above
    assert await fare(store, others, level, how, before, since) == expected


@pytest.mark.parametrize("level", OLD)
async def test_without_keys(store: SqlStore, others: Others, level: str) -> None:
    """Plain jobs, few or many, fair or not, are never refused, whatever workers do meanwhile."""
    happens = Since(store, "keep")
    await happens.enqueued()
    with others.session(level) as caller:
        caller.execute("SELECT FROM mutirao_job")
        await happens.finished()
        await store.declare_fair({"send": "kind"})
        for number in (1, 3, 300):
            jobs = [due(args='{"kind": "a"}', fair_by="kind") for _ in range(number)]
            assert len(store.enqueue(jobs, caller)) == number
        caller.commit()
    lanes = {head.lane.queue for head in await store.lanes(None)}
    assert lanes == {"\x1fdefault"}
