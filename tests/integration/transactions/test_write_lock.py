"""On SQLite, threads of one process wait for one another to write, and not for SQLite to ask."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from mutirao.sql.connections.engines import Engines

BEGIN = "BEGIN IMMEDIATE"


@pytest.fixture
def engines(tmp_path: Path) -> Engines:
    """Those of a file with one table."""
    engines = Engines(f"sqlite:///{tmp_path}/lock.db", creates=True)
    with engines.sync().begin() as connection:
        connection.execute(text("CREATE TABLE receipt (id integer)"))
    return engines


def says(connection: Connection) -> None:
    """Write a row."""
    connection.execute(text("INSERT INTO receipt VALUES (1)"))


def count(engine: Engine) -> int:
    """Return how many rows there are."""
    with engine.begin() as connection:
        return int(connection.scalar(text("SELECT count(*) FROM receipt")) or 0)


def test_a_second_writer_waits_for_its_turn(engines: Engines, tmp_path: Path) -> None:
    """It asks SQLite for the lock when the first one has ended, and not before."""
    engine = engines.sync()
    asked: list[Any] = []
    begun = threading.Event()

    def second() -> None:
        begun.set()
        with engine.begin() as connection:
            raw: Any = connection.connection.driver_connection
            asked.append(raw.has_write_lock)
            says(connection)

    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            waiting = pool.submit(second)
            assert begun.wait(30)
            says(connection)
            assert asked == []
        waiting.result(30)
    assert asked == [True]
    assert count(engine) == 2
    engines.close_sync()


@pytest.mark.parametrize("end", ["raise", "rollback", "invalidate", "refused"])
def test_a_turn_is_given_back(engines: Engines, tmp_path: Path, end: str) -> None:
    """However the transaction ends, the next writer has it at once."""
    engine = engines.sync()
    other = sqlite3.connect(tmp_path / "lock.db", isolation_level=None)
    for _ in range(2):
        with pytest.raises(Exception, match=f"{end}|locked"), engine.connect() as connection:  # noqa: PT012
            if end == "refused":
                other.execute(BEGIN)
                at_once: Any = connection.connection.driver_connection
                at_once.execute("PRAGMA busy_timeout = 0")
            with connection.begin() as transaction:
                says(connection)
                if end == "rollback":
                    transaction.rollback()
                elif end == "invalidate":
                    connection.invalidate()
                raise ValueError(end)
        if end == "refused":
            other.execute("ROLLBACK")
        with engine.begin() as connection:
            raw: Any = connection.connection.driver_connection
            assert raw.has_write_lock
        assert not raw.has_write_lock
    other.close()
    assert count(engine) == 0
    engines.close_sync()


def test_who_keeps_it_long(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does not stop the others from asking SQLite, which tells them that it is locked."""
    monkeypatch.setattr("mutirao.sql.dialects.sqlite.write_lock.MAX_WAIT", 0.0)
    engine = engines.sync()
    with engine.begin() as connection:
        says(connection)
        with engine.connect() as second:
            driver: Any = second.connection.driver_connection
            driver.execute("PRAGMA busy_timeout = 0")
            with pytest.raises(Exception, match="database is locked"):
                second.begin()
            driver.execute("PRAGMA busy_timeout = 30000")
    assert count(engine) == 1
    engines.close_sync()
