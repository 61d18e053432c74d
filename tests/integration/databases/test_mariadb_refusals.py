"""What MariaDB refuses or tells otherwise, in words that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from mutirao import JobState, Mutirao
from mutirao.errors import StoreError, StoreRefused
from mutirao.sql import migrations
from tests.support.mariadb import MysqlServer


def nested(levels: int) -> list[Any]:
    """Return lists in lists."""
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def test_arguments_nested_too_deeply(migrated_mysql_url: str) -> None:
    """The server's word is the name of a constraint; ours is how deep JSON may be there."""
    app = Mutirao(migrated_mysql_url)

    @app.task
    def send(what: list[Any]) -> None: ...

    with pytest.raises(StoreRefused, match="32 levels at most"):
        send.enqueue(nested(40))
    app.close()


@contextmanager
def row_format(mysql: MysqlServer, name: str) -> Iterator[None]:
    """Have the server make tables of another format meanwhile."""
    said = "SET GLOBAL innodb_default_row_format = "
    with mysql.connect() as conn, conn.cursor() as cursor:
        cursor.execute(said + name)
        try:
            yield
        finally:
            cursor.execute(said + "dynamic")


def test_tables_of_an_old_row_format(mysql: MysqlServer, mysql_url: str) -> None:
    """Their keys are too short for ours, and what to set is said."""
    with (
        row_format(mysql, "compact"),
        pytest.raises(StoreError, match=r"innodb_default_row_format is compact.*dynamic"),
    ):
        migrations.upgrade(mysql_url)
    migrations.upgrade(mysql_url)


def test_a_database_whose_character_set_is_binary(mysql_url: str) -> None:
    """Texts of tables without a set of their own are bytes there; versions are read as texts."""
    engine = create_engine(mysql_url)
    with engine.connect() as conn:
        conn.execute(text(f"ALTER DATABASE {engine.url.database} CHARACTER SET binary"))
    engine.dispose()
    migrations.upgrade(mysql_url)
    migrations.upgrade(mysql_url)
    app = Mutirao(mysql_url)

    @app.task
    def send() -> None: ...

    send.enqueue()
    assert [job.state for job in app.jobs()] == [JobState.READY]
    app.close()
