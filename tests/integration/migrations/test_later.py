"""A later revision: only what changes, run while workers of the release before go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import inspect

from mutirao import Mutirao
from mutirao.errors import SchemaTooNew
from mutirao.sql import migrations
from mutirao.sql.connections.engines import Engines
from mutirao.sql.schema import version
from tests.integration.worker.kit import ended, outcomes, working

SCRIPT = f'''
from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0999"
down_revision = "{version.head()}"


def upgrade(op: Operations) -> None:
    run_sql(op, __file__)
'''
COLUMN = "ALTER TABLE mutirao_job ADD COLUMN colour text"
INDEX = "CREATE INDEX mutirao_job_colour ON mutirao_job (colour) WHERE colour IS NOT NULL"
WHOLE_INDEX = "CREATE INDEX mutirao_job_colour ON mutirao_job (colour(20))"
REQUIRE = """
CREATE OR REPLACE FUNCTION mutirao_require(_worker bigint)
RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM FROM mutirao_job WHERE colour = 'later: red';
END
$$
"""
FILES = {
    "postgresql/tables.sql": f"{COLUMN}\n--;\n{INDEX}\n",
    "postgresql/claim.sql": REQUIRE,
    "sqlite/tables.sql": f"{COLUMN}\n--;\n{INDEX}\n",
    "mysql/tables.sql": f"{COLUMN}\n--;\n{WHOLE_INDEX}\n",
}


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """A directory with a revision that the package does not have."""
    (tmp_path / "r0999.py").write_text(SCRIPT)
    for name, sql in FILES.items():
        path = tmp_path / "r0999" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sql)
    return tmp_path


async def test_workers_go_on_and_are_refused_when_they_come_again(
    migrated_url: str, later: Path
) -> None:
    """Each job is done once: those that wait and run meanwhile, and those that come then."""
    runs, may_end = asyncio.Event(), asyncio.Event()
    done: list[int] = []

    async def take(number: int) -> None:
        if number == 0:
            runs.set()
            await may_end.wait()
        done.append(number)

    app, old = Mutirao(migrated_url), Mutirao(migrated_url)
    step, _ = app.task(take), old.task(take)
    jobs = [await step.aenqueue(number) for number in range(50)]
    async with working(app, concurrency=4):
        await runs.wait()
        migrating = asyncio.create_task(asyncio.to_thread(upgrade, migrated_url, later))
        while not migrating.done():
            jobs.append(await step.aenqueue(len(jobs)))
        await migrating
        may_end.set()
        jobs.append(await step.aenqueue(len(jobs)))
        for job in jobs:
            assert outcomes(await ended(app, job.id)) == ["succeeded"]
    assert sorted(done) == list(range(len(jobs)))
    with pytest.raises(SchemaTooNew, match="0999"):
        async with working(old):
            raise AssertionError("a worker of the old code has started")
    await app.aclose()
    await old.aclose()


def upgrade(url: str, later: Path) -> None:
    """Do what `migrate` of the later release does."""
    engines = Engines(url)
    with engines.sync().connect() as connection:
        migrations._upgrade(connection, later)
        found = version.current(connection)
        assert found is not None
        assert found.revision == "0999"
        columns = inspect(connection).get_columns("mutirao_job")
        assert "colour" in {column["name"] for column in columns}
    engines.close_sync()
