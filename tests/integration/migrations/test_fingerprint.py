"""The fingerprint beside a revision: what other files of the same one made is refused."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, create_engine, event, text

from mutirao import Mutirao
from mutirao.errors import SchemaDiffers
from mutirao.model.findings import Level
from mutirao.sql import migrations
from mutirao.sql.registry import dialect_named
from mutirao.sql.schema import version
from tests.integration.worker.kit import working

SAYS = r"at revision \d{4}, but not the one that this version.*restore a backup"
BELOW = version.REVISIONS[-2]


def say(url: str, revision: str, fingerprint: str | None) -> None:
    """Let a database say that a migration to this revision was its last one."""
    engine = create_engine(url)
    said = {"revision": revision, "fingerprint": fingerprint}
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE mutirao_version SET version_num = :revision, fingerprint = :fingerprint"),
            said,
        )
    engine.dispose()


@pytest.fixture
def differing(migrated_url: str) -> str:
    """The URL of a database that another state of the newest revision made."""
    say(migrated_url, version.head(), "another")
    return migrated_url


def test_migrate_refuses_it(differing: str) -> None:
    """There is no revision that leads from one state to the other."""
    with pytest.raises(SchemaDiffers, match=SAYS):
        migrations.upgrade(differing)


def test_an_earlier_revision_is_not_signed_over(migrated_url: str) -> None:
    """What other files made is refused before it has the fingerprint of ours."""
    say(migrated_url, BELOW, "another")
    with pytest.raises(SchemaDiffers, match=f"revision {BELOW}, but.*fingerprint another, not"):
        migrations.upgrade(migrated_url)


def test_a_revision_without_a_place_for_it(migrated_sqlite_url: str) -> None:
    """A state between releases had none at 0101."""
    engine = create_engine(migrated_sqlite_url)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE mutirao_version DROP COLUMN fingerprint"))
        connection.execute(text("UPDATE mutirao_version SET version_num = '0101'"))
    engine.dispose()
    with pytest.raises(SchemaDiffers, match="fingerprint missing, not"):
        migrations.upgrade(migrated_sqlite_url)


@pytest.mark.parametrize("before", [0, 1, None])
def test_a_migration_that_was_cut_off_goes_on(migrated_mysql_url: str, before: int | None) -> None:
    """Where each change of a table is committed alone: it has signed nothing since."""
    dialect = dialect_named("mysql")
    signed = version.REVISIONS[-2 - before] if before is not None else None
    say(migrated_mysql_url, BELOW, signed and version.fingerprint(dialect, signed))
    migrations.upgrade(migrated_mysql_url)
    engine = create_engine(migrated_mysql_url)
    with engine.connect() as connection:
        version.check(connection)
    engine.dispose()


async def test_a_worker_refuses_it(differing: str) -> None:
    """It would work until it needs what is not there."""
    app = Mutirao(differing)

    @app.task
    def step() -> None: ...

    with pytest.raises(SchemaDiffers, match=SAYS):
        async with working(app):
            raise AssertionError("it has started")
    await app.aclose()


async def test_the_doctor_names_it(differing: str) -> None:
    """As a problem."""
    app = Mutirao(differing)
    [finding] = await app.aexamine()
    assert finding.level is Level.PROBLEM
    assert "(fingerprint another," in finding.found
    assert finding.advice == "do as this says"
    await app.aclose()


def test_it_is_read_with_the_revision(migrated_url: str) -> None:
    """By one statement, at the start of a worker only: there is nothing to save."""
    asked: list[str] = []
    engine = create_engine(migrated_url)

    def note(connection: Connection, cursor: object, statement: str, *_: object) -> None:
        if "FROM mutirao_version" in statement:
            asked.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    with engine.connect() as connection:
        version.check(connection)
    engine.dispose()
    assert len(asked) == 1
