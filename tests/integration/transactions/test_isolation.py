"""Callers at REPEATABLE READ and SERIALIZABLE: what they enqueue is right, or they are refused.

Which of the two is read from the table in docs/uniqueness.md, and each of its cells is tried.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mutirao.errors import DuplicateJob
from mutirao.model.graphs.graph import Graph, chain
from mutirao.model.graphs.graph_plan import plan
from mutirao.model.jobs.job import Claim, NewJob
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import OnConflict, Placed, Unique
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.fairness import of
from mutirao_conformance.kit import due, ended, finish, join, take
from mutirao_conformance.limits import limited
from mutirao_conformance.uniqueness import live_jobs
from tests.integration.transactions.kit import Others
from tests.support.history import opened

PAGE = Path(__file__).parents[3] / "docs" / "uniqueness.md"
COMMITTED, OLD = "READ COMMITTED", ["REPEATABLE READ", "SERIALIZABLE"]
SUPERSEDE = Supersede(by="kind", rules={("a", "a"): "newer"})
REFUSED, RIGHT = "refused", "right"
REPEATED = "drop_repeated"
OLDER = "an older version"  # than that of what others enqueue
# As the head of the page's table says it.
EVENTS = {
    "they enqueued a job": "enqueued",
    "a worker took it": "begun",
    "it ended": "finished",
    "nothing": "nothing",
}


def of_the_page() -> dict[tuple[str, str, str], str]:
    """Return the cells of the page's table, by rule, level and what happened since."""
    table = re.search(r"^\| a call with .*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    assert table is not None, "docs/uniqueness.md has no table of isolation levels"
    [head, _, *rows] = [line.strip("| ").split(" | ") for line in table[0].splitlines()]
    events = [EVENTS[name] for name in head[2:]]
    return {
        (rule.strip("`"), level, event): cell
        for rule, level, *cells in rows
        for event, cell in zip(events, cells, strict=True)
    }


TABLE = of_the_page()
# The rule; what stands when the transaction begins; what happens since; and what comes of the call
# at READ COMMITTED: how the job came to stand or, without keys, which jobs run together and in what
# order, those of others (o) and of the caller (c), who has two tenants (A, B).
CASES = [
    ("keep", "nothing", "enqueued", "found"),
    ("keep", "enqueued", "nothing", "found"),
    ("keep", "enqueued", "begun", "found"),
    ("keep", "enqueued", "finished", "inserted"),
    ("keep", "begun", "finished", "inserted"),
    ("keep", "finished", "nothing", "inserted"),
    ("error", "nothing", "enqueued", "duplicate"),
    ("error", "enqueued", "nothing", "duplicate"),
    ("error", "enqueued", "begun", "duplicate"),
    ("error", "enqueued", "finished", "inserted"),
    ("error", "begun", "finished", "inserted"),
    ("error", "finished", "nothing", "inserted"),
    ("replace", "nothing", "enqueued", "replaced"),
    ("replace", "enqueued", "nothing", "replaced"),
    ("replace", "enqueued", "begun", "rerun"),
    ("replace", "enqueued", "finished", "inserted"),
    ("rerun", "begun", "nothing", "rerun"),
    ("rerun", "begun", "finished", "inserted"),
    ("rerun", "begun", "enqueued", "rerun"),
    ("rerun", "enqueued", "begun", "rerun"),
    (OLDER, "nothing", "enqueued", "outdated"),
    (OLDER, "enqueued", "nothing", "outdated"),
    (OLDER, "enqueued", "begun", "outdated"),
    (OLDER, "enqueued", "finished", "outdated"),
    (OLDER, "begun", "finished", "outdated"),
    (OLDER, "finished", "nothing", "outdated"),
    (OLDER, "begun", "enqueued", "outdated"),
    ("supersede", "nothing", "enqueued", "replaced"),
    ("supersede", "enqueued", "nothing", "replaced"),
    ("supersede", "enqueued", "begun", "follows"),
    ("supersede", "begun", "finished", "inserted"),
    (REPEATED, "nothing", "enqueued", "replaced"),
    (REPEATED, "enqueued", "nothing", "replaced"),
    (REPEATED, "enqueued", "begun", "follows"),
    (REPEATED, "begun", "finished", "repeated"),
    (REPEATED, "enqueued", "finished", "repeated"),
    (REPEATED, "finished", "nothing", "repeated"),
    ("limits", "nothing", "enqueued", "o c"),
    ("limits", "nothing", "nothing", "c"),
    ("limits", "enqueued", "begun", "o c"),
    ("limits", "enqueued", "finished", "c"),
    ("fairness", "nothing", "enqueued", "oBA"),
    ("fairness", "nothing", "nothing", "AB"),
    ("fairness", "enqueued", "begun", "oBA"),
    ("fairness", "enqueued", "finished", "BA"),
    ("graphs", "nothing", "enqueued", "oc c"),
    ("graphs", "nothing", "nothing", "c c"),
    ("graphs", "enqueued", "begun", "oc c"),
    ("graphs", "enqueued", "finished", "c c"),
]
RULES = {rule for rule, *_ in CASES}
WITHOUT_KEYS = {"limits", "fairness", "graphs"}


def job_of(rule: str, version: int = 8) -> NewJob:
    """Return a job of the key, with this rule; or one of the task that has no keys."""
    if rule in WITHOUT_KEYS:
        return of("a") if rule == "fairness" else due()
    return due(key="k", args='{"kind": "a"}', unique=_unique(rule, version))


def _unique(rule: str, version: int) -> Unique:
    if rule == OLDER:
        return Unique(on_conflict=OnConflict.RERUN, version=version)
    if rule in ("supersede", REPEATED):
        return Unique(supersede=replace(SUPERSEDE, drop_repeated=rule == REPEATED))
    return Unique(on_conflict=OnConflict(rule))


class Since:
    """What others do and commit while a caller's transaction is open."""

    def __init__(self, store: SqlStore, rule: str) -> None:
        self._store, self._rule, self.claims = store, rule, list[Claim]()
        self._worker = 0

    async def nothing(self) -> None:
        """Do nothing."""

    async def enqueued(self) -> None:
        """Enqueue the same."""
        await self._store.aenqueue([job_of(self._rule)])

    async def begun(self) -> None:
        """Claim what waits."""
        self.claims += await take(self._store, await self.worker())

    async def finished(self) -> None:
        """Finish what waits, or runs."""
        await self.begun()
        await self._store.settle(self._worker, [ended(claim) for claim in self.claims])
        self.claims.clear()

    async def worker(self) -> int:
        """Return the id of the worker."""
        self._worker = self._worker or await join(self._store)
        return self._worker


@pytest.fixture
async def store(pg_url: str) -> AsyncIterator[SqlStore]:
    """A store over an empty database."""
    async with opened(pg_url) as store:
        yield store


def called(store: SqlStore, rule: str, caller: psycopg.Connection[Any]) -> Sequence[int]:
    """Enqueue by a caller's connection; return the ids."""
    if rule == "fairness":
        return store.enqueue([of("a"), of("b")], caller)
    if rule == "graphs":
        whole = Graph()
        whole.add(chain(due(), due()))
        return store.enqueue_graph(plan(whole), caller)
    return store.enqueue([job_of(rule, 7)], caller)


async def runs(store: SqlStore, since: Since, names: Mapping[int, str]) -> str:
    """Let all run; return whose jobs run together, one group after the other."""
    worker, groups = await since.worker(), list[str]()
    while await live_jobs(store):
        group = [*since.claims, *await take(store, worker)]
        since.claims.clear()
        groups.append("".join(names.get(claim.id, "o") for claim in group))
        await finish(store, worker, group)
    return " ".join(groups)


async def fare(
    store: SqlStore, others: Others, level: str, rule: str, before: str, since: str
) -> str:
    """Enqueue in a transaction that has seen the database before something happened."""
    happens = Since(store, rule)
    if rule == "limits":
        await limited(store, 1)
    if before in ("begun", "finished"):
        await happens.enqueued()
    await getattr(happens, before)()
    with others.session(level) as caller:
        caller.execute("SELECT FROM mutirao_job")
        await getattr(happens, since)()
        try:
            ids = called(store, rule, caller)
            caller.commit()
        except psycopg.errors.SerializationFailure:
            return REFUSED
        except DuplicateJob:
            return "duplicate"
    if rule in WITHOUT_KEYS:
        names = "AB" if rule == "fairness" else "c" * len(ids)
        return await runs(store, happens, dict(zip(ids, names, strict=True)))
    [id] = ids
    assert isinstance(id, Placed)
    return id.how


@pytest.mark.parametrize(("rule", "before", "since", "committed"), CASES)
@pytest.mark.parametrize("level", [COMMITTED, *OLD])
async def test_each(
    store: SqlStore, others: Others, level: str, rule: str, before: str, since: str, committed: str
) -> None:
    """What comes of the call is what the page says: right, or nothing is written."""
    found = RIGHT if level == COMMITTED else TABLE[rule, level, since]
    expected = {RIGHT: committed, REFUSED: REFUSED}[found]
    assert await fare(store, others, level, rule, before, since) == expected


def test_the_table_is_whole() -> None:
    """It has each way of `on_conflict` and each level, and no cell without a case."""
    assert {*OnConflict} < RULES
    assert set(TABLE) == {(rule, level, since) for level in OLD for rule, _, since, _ in CASES}
    assert {since for *_, since, _ in CASES} == {*EVENTS.values()}


@pytest.mark.parametrize("level", OLD)
async def test_without_keys(store: SqlStore, others: Others, level: str) -> None:
    """Plain jobs, few or many, fair or not, are never refused, whatever workers do meanwhile."""
    happens = Since(store, "keep")
    await happens.enqueued()
    with others.session(level) as caller:
        caller.execute("SELECT FROM mutirao_job")
        await happens.finished()
        await store.declare_fairness({"send": "kind"})
        for number in (1, 3, 300):
            jobs = [due(args='{"kind": "a"}', fair_by="kind") for _ in range(number)]
            assert len(store.enqueue(jobs, caller)) == number
        caller.commit()
    lanes = {head.lane.queue for head in await store.lanes(None)}
    assert lanes == {"\x1fdefault"}
