"""`bi`: each question of docs/bi.md is answered, and reads no more where the history is longer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from benchmarks.bi import answer, fill, questions
from mutirao.sql import migrations
from tests.integration.benchmarks.conftest import Bench

SHORT, LONG, NEWEST = 4_000, 40_000, 500


@pytest.mark.repeats("mysql", decided="tests/integration/benchmarks/test_bi.py")
@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_longer_history_is_not_read(kind: str, request: pytest.FixtureRequest) -> None:
    """Ten times as many jobs: what is read by the hour or of the newest jobs stays the same."""
    bench = Bench(str(request.getfixturevalue(f"{kind}_url")))
    many = [
        bench.one("bi", "--finished", jobs, "--newest", NEWEST, "--asks", 1)["questions"]
        for jobs in (SHORT, LONG)
    ]
    names = questions(kind)
    assert len(names) == 9
    for name in names:
        (_, rows, few), (_, _, read) = (found[name] for found in many)
        assert rows > 0, name
        assert read < 2 * few + 1_000, name
    assert bench.ask("SELECT count(*) FROM mutirao_job") == 0
    assert bench.ask("SELECT count(*) FROM mutirao_webhook_attempt") == 0


def test_nor_by_sqlite(tmp_path: Path) -> None:
    """It tells no rows, but how many steps it takes."""
    short, long = (dict(_steps(tmp_path / f"{jobs}.db", jobs)) for jobs in (SHORT, LONG))
    by_id = [name for name in short if "FROM mutirao_attempts" in questions("sqlite")[name]]
    assert len(by_id) == 5
    for name in by_id:
        assert long[name] < 1.5 * short[name], name


def _steps(path: Path, jobs: int) -> Iterator[tuple[str, int]]:
    url = f"sqlite:///{path}"
    migrations.upgrade(url)
    engine = create_engine(url)
    with engine.begin() as conn:
        fill(conn, jobs)
        conn.exec_driver_sql("ANALYZE")
        for name, sql in questions("sqlite", NEWEST).items():
            assert answer(conn, sql), name
    engine.dispose()
    with closing(sqlite3.connect(path)) as file:
        for name, sql in questions("sqlite", NEWEST).items():
            steps = count()
            file.set_progress_handler(partial(_count, steps), 100)
            file.execute(sql).fetchall()
            yield name, next(steps)


def _count(steps: count[int]) -> int:
    next(steps)
    return 0  # go on
