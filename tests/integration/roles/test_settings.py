"""Operators and workers whose roles have other settings by default: all that they do is right.

Where it cannot be, it is refused, and the error says why.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import func, make_url, select

from mutirao.errors import SchemaMissing, StoreBusy
from mutirao.model.jobs.job import OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.schema.tables import kept
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import FAR_AHEAD, due, ended, join, put, put_finished, take
from tests.integration.roles import applications, operators, workers
from tests.integration.roles.duties import duties_of
from tests.integration.roles.trial import Trial
from tests.support.company import MIGRATOR, Company
from tests.support.history import opened
from tests.support.postgresql import PostgresServer

WHERE = (applications, operators, workers)  # where duties are, which are known once imported
# Those of one line are set together: none of them can undo another's harm.
SETTINGS = {
    "limits": {"lock_timeout": "1", "statement_timeout": "20000"},
    "texts": {
        "standard_conforming_strings": "off",
        "DateStyle": "German, DMY",
        "IntervalStyle": "sql_standard",
        "TimeZone": "'Asia/Tehran'",
    },
    "names": {"search_path": "pg_catalog, public", "row_security": "off"},
    "triggers": {"session_replication_role": "replica"},
}


@pytest.fixture(scope="module")
def company(postgres: PostgresServer) -> Iterator[Company]:
    """A company whose tables a migrator has made."""
    with postgres.database() as name:
        made = Company(postgres, name)
        made.found()
        yield made


@contextmanager
def by_default(company: Company, login: str, **settings: str) -> Iterator[None]:
    """Let sessions of a login that begin meanwhile have other settings."""
    for setting, value in settings.items():
        company.administer(f"ALTER ROLE {login} SET {setting} TO {value}")
    try:
        yield
    finally:
        company.administer(f"ALTER ROLE {login} RESET ALL")


@pytest.mark.repeats(decided="tests/integration/sessions")
@pytest.mark.parametrize("role", ["operator", "worker"])
@pytest.mark.parametrize("what", SETTINGS)
async def test_all_duties(company: Company, role: str, what: str) -> None:
    """Looking, cancelling, running now, redriving, pruning, limits, schedules; a worker's work."""
    trial = Trial(company, role)
    with by_default(company, f"company_{role}", **SETTINGS[what]):
        async with trial.opened():
            refused = {str(duty): await trial.refused(duty) for duty in duties_of(role)}
    assert {duty: error for duty, error in refused.items() if error is not None} == {}


@pytest.fixture
async def others(company: Company) -> AsyncIterator[SqlStore]:
    """The store of the migrator, without jobs."""
    async with Trial(company, "operator").opened() as trial:
        trial.empty()
        async with opened(company.url(MIGRATOR)) as store:
            yield store


@pytest.mark.parametrize("role", ["operator", "worker"])
@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("lock_timeout", "a lock was not to be had in time"),
        ("statement_timeout", "the statement took longer than the server allows"),
    ],
)
async def test_too_little_time(
    company: Company, others: SqlStore, role: str, setting: str, why: str
) -> None:
    """Who waits for a row that somebody holds is told so, and nothing is written."""
    await put(others, due())
    worker = await join(others)
    claims = await take(others, worker)
    url = company.hire(f"company_{role}", role)
    waiting = by_default(company, f"company_{role}", **{setting: "50"})
    with waiting, company.owner() as holder:
        holder.execute("BEGIN; SELECT FROM mutirao_live FOR UPDATE")
        async with opened(url) as mine:
            ends = [ended(claim) for claim in claims]
            act = mine.cancel(JobFilter()) if role == "operator" else mine.settle(worker, ends)
            with pytest.raises(StoreBusy, match=why):
                await act
        holder.execute("ROLLBACK")
    assert len(await others.settle(worker, ends)) == 1


@pytest.mark.parametrize("role", ["operator", "worker"])
async def test_without_the_schema(company: Company, role: str) -> None:
    """Where sessions do not look for the tables, it is said that they are missing."""
    url = company.hire(f"company_{role}", role)
    with by_default(company, f"company_{role}", search_path="pg_catalog"):
        async with opened(url) as mine:
            with pytest.raises(SchemaMissing):
                await mine.check()


async def test_pruned_without_triggers(migrated_postgresql_url: str) -> None:
    """What is pruned is taken from the number of jobs all the same."""
    replica = make_url(migrated_postgresql_url).update_query_dict(
        {"options": "-c session_replication_role=replica"}
    )
    async with opened(migrated_postgresql_url) as others:
        await put_finished(others, await join(others), *(due() for _ in range(3)))
        with others.engines.sync().connect() as conn:
            while not conn.scalar(select(func.count()).select_from(kept)):
                await others.roll_up(None)
                conn.rollback()
        assert [count.jobs for count in await others.counts()] == [3]
        async with opened(replica.render_as_string(hide_password=False)) as mine:
            assert await mine.prune(OutcomeKind.SUCCEEDED, 0, 100, now=FAR_AHEAD) == 3
        assert await others.counts() == []
