"""Where functions look for what they use: in the schema of the tables, and nowhere else."""

from __future__ import annotations

import psycopg
from sqlalchemy import make_url, text

from mutirao import JobState, Mutirao
from mutirao.sql import migrations
from mutirao.sql.store.jobs import SqlStore
from tests.integration.worker.kit import ended, working
from tests.support.history import opened

PATHS = text("""
SELECT proname, proconfig, prosqlbody IS NOT NULL FROM pg_proc WHERE proname LIKE 'mutirao\\_%'
""")


async def test_every_function(migrated_postgresql_url: str) -> None:
    """Its path is pinned, or it was parsed when it was made."""
    async with opened(migrated_postgresql_url) as store:
        rows = await functions(store)
    assert len(rows) > 40
    loose = [
        name
        for name, settings, parsed in rows
        if not parsed and "search_path=pg_catalog, pg_temp" not in (settings or ())
    ]
    assert loose == []


async def functions(store: SqlStore) -> list[tuple[str, list[str] | None, bool]]:
    """Return the name of each function, its settings, and whether it was parsed."""
    return await store._sender.runner.alone(
        lambda conn: [(row[0], row[1], row[2]) for row in conn.execute(PATHS)]
    )


async def test_another_schema(postgresql_url: str) -> None:
    """Whatever its name; sessions look for the tables there, and there is no public one."""
    name = 'My "jobs"'
    quoted = psycopg.sql.Identifier(name)
    plain = make_url(postgresql_url).set(drivername="postgresql")
    with psycopg.connect(plain.render_as_string(hide_password=False), autocommit=True) as conn:
        conn.execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(quoted))
        conn.execute("DROP SCHEMA public")
        conn.execute(
            psycopg.sql.SQL(
                "DO $$BEGIN EXECUTE pg_catalog.format('ALTER DATABASE %I SET search_path TO %I',"
                " current_database(), {}); END$$"
            ).format(name)
        )
    migrations.upgrade(postgresql_url)
    app = Mutirao(postgresql_url)

    @app.task
    async def step() -> None: ...

    old = await step.using(key="k", delay=1_000).aenqueue()
    new = await step.using(key="k", on_conflict="replace").aenqueue()
    async with working(app):
        assert (await ended(app, new.id)).state is JobState.SUCCEEDED
    assert (await app.ajob(old.id)).state is JobState.CANCELLED
    await app.aclose()
