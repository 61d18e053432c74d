"""The databases that the fixtures hand out are what they say."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, inspect, text


def tables(url: str) -> list[str]:
    """Return the names of Mutirão's tables in the database at `url`."""
    engine = create_engine(url)
    try:
        return [name for name in inspect(engine).get_table_names() if name.startswith("mutirao")]
    finally:
        engine.dispose()


def test_an_empty_database_has_no_tables(database_url: str) -> None:
    """It is for the tests of migrations and of what is said where they have not run."""
    assert tables(database_url) == []


@pytest.mark.parametrize("turn", [1, 2])
def test_a_migrated_database_has_tables_and_nothing_in_them(migrated_url: str, turn: int) -> None:
    """What the first test writes is not there for the second one."""
    assert {"mutirao_job", "mutirao_live", "mutirao_attempt"} <= set(tables(migrated_url))
    engine = create_engine(migrated_url)
    with engine.begin() as connection:
        assert connection.execute(text("select count(*) from mutirao_version")).scalar() == 1
        connection.execute(text("delete from mutirao_version"))
    engine.dispose()
