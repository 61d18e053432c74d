"""The fingerprint beside a revision: what other files of the same one made is refused."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, create_engine, event, text

from mutirao import Mutirao
from mutirao.errors import SchemaDiffers
from mutirao.model.findings import Level
from mutirao.sql import migrations
from mutirao.sql.schema import version
from tests.integration.worker.kit import working

SAYS = r"at revision \d{4}, but not the one that this version.*restore a backup"


@pytest.fixture
def differing(migrated_url: str) -> str:
    """The URL of a database that another state of the newest revision made."""
    engine = create_engine(migrated_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE mutirao_version SET fingerprint = 'another'"))
    engine.dispose()
    return migrated_url


def test_migrate_refuses_it(differing: str) -> None:
    """There is no revision that leads from one state to the other."""
    with pytest.raises(SchemaDiffers, match=SAYS):
        migrations.upgrade(differing)


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
