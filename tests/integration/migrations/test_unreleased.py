"""Tables from before the first release: refused in one sentence, removed as the document shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, inspect, make_url, text

from mutirao.errors import SchemaTooOld
from mutirao.sql import migrations
from mutirao.sql.schema import version
from tests.support.documents import blocks

PAGE = Path(__file__).parents[3] / "docs" / "sql.md"


def test_they_are_refused_until_they_are_removed(migrated_url: str) -> None:
    """The sentence says what was found, what is expected, and where it stands what to do."""
    engine = create_engine(migrated_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for revision in version.UNRELEASED:
            connection.execute(text("UPDATE mutirao_version SET version_num = :r"), {"r": revision})
            said = rf"at revision {revision}, .*begin with 0100\. .*docs/sql\.md.* under Removing"
            with pytest.raises(SchemaTooOld, match=said):
                version.check(connection)
            with pytest.raises(SchemaTooOld, match=said):
                migrations.upgrade(migrated_url)
        for statement in printed(connection):
            connection.exec_driver_sql(statement)
        assert inspect(connection).get_table_names() == []
        migrations.upgrade(migrated_url)
        version.check(connection)
    engine.dispose()


def printed(connection: Connection) -> list[str]:
    """Return the statements that the document's query prints, which remove everything."""
    kind = f"sql {make_url(connection.engine.url).get_backend_name()}"
    page = PAGE.read_text()
    section = page[page.index("## Removing") :]
    (query,) = (block.body for block in blocks(section) if block.kind == kind)
    return list(connection.exec_driver_sql(query.replace("%", "%%")).scalars())


def test_a_released_revision_is_none_of_them() -> None:
    """No id is used twice."""
    assert not version.UNRELEASED & set(version.REVISIONS)
