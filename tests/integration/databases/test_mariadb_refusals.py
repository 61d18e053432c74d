"""What MariaDB refuses or tells otherwise, in words that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

from mutirao import JobState, Mutirao
from mutirao.errors import ConfigurationError, StoreError, StoreRefused
from mutirao.model.findings import Level
from mutirao.sql import migrations
from mutirao.sql.dialects.mysql.packets import MIN_PACKET
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


@contextmanager
def packets(mysql: MysqlServer, most: int) -> Iterator[None]:
    """Have the server refuse larger packets of those who connect meanwhile."""
    with mysql.connect() as conn, conn.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.max_allowed_packet")
        [before] = cursor.fetchone() or ()
        cursor.execute(f"SET GLOBAL max_allowed_packet = {most}")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL max_allowed_packet = {before}")


@pytest.mark.parametrize(("count", "length"), [(1_000, 0), (100, 1_000), (10, 10_000)])
def test_the_smallest_packets(
    mysql: MysqlServer, migrated_mysql_url: str, count: int, length: int
) -> None:
    """As many jobs as fit are in a statement, in digits, too; one that never fits is refused."""
    database = make_url(migrated_mysql_url).database
    with packets(mysql, MIN_PACKET):
        app = Mutirao(migrated_mysql_url)

        @app.task
        def send(what: str) -> None: ...

        assert len(app.enqueue_many(send.job("x" * length) for _ in range(count))) == count
        with mysql.connect(database, charset="latin1") as conn:
            jobs = (send.job("é" * (length // 5)) for _ in range(count))
            assert len(app.enqueue_many(jobs, conn=conn)) == count
        with pytest.raises(StoreRefused, match="Nothing was enqueued"):
            send.enqueue("x" * MIN_PACKET)
        app.close()


def test_packets_that_are_too_small(mysql: MysqlServer, mysql_url: str) -> None:
    """Nothing starts there, and what to set is said."""
    with (
        packets(mysql, MIN_PACKET // 2),
        pytest.raises(ConfigurationError, match=r"max_allowed_packet = 32,768.*65,536"),
    ):
        migrations.upgrade(mysql_url)
    migrations.upgrade(mysql_url)
    app = Mutirao(mysql_url)
    assert not [each for each in app.examine() if each.about == "max_allowed_packet"]
    app.close()
    with packets(mysql, MIN_PACKET // 2):
        app = Mutirao(mysql_url)
        [found] = [each for each in app.examine() if each.about == "max_allowed_packet"]
        assert found.level is Level.PROBLEM
        app.close()


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
