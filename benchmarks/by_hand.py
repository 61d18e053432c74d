"""A queue made by hand on the same tables: `FOR UPDATE SKIP LOCKED` by the driver alone.

For MariaDB and MySQL, by PyMySQL; that of PostgreSQL is one of the peers (`peers/raw`).
"""

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

from sqlalchemy import make_url

from benchmarks.effects import connected_to_mysql

BATCH = 500

_NOW = "(timestampdiff(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))"
_DUE = f"""SELECT id FROM mutirao_live FORCE INDEX (mutirao_live_waiting)
WHERE worker IS NULL AND queue = 'default' AND priority = 0 AND run_at >= %s AND run_at <= {_NOW}
ORDER BY run_at, id LIMIT {BATCH} FOR UPDATE SKIP LOCKED"""  # noqa: S608 (constants)
_TAKE = f"""UPDATE mutirao_live SET worker = 1, run = run + 1, attempt = attempt + 1,
claimed_at = {_NOW} WHERE id IN %s"""  # noqa: S608
_JOBS = """SELECT l.id, l.run, l.attempt, l.run_at, j.task, j.args
FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id WHERE l.id IN %s"""
_HELD = "SELECT id, run FROM mutirao_live WHERE id IN %s ORDER BY id FOR UPDATE"
_TELL = """INSERT INTO mutirao_attempt (job, run, attempt, worker, outcome, started_at, finished_at)
VALUES (%s, %s, %s, 1, 'succeeded', %s, %s)"""
_DROP = "DELETE l FROM mutirao_live l FORCE INDEX (PRIMARY) WHERE l.id IN %s"


def can_by_hand(url: str) -> bool:
    """Tell whether it is a database for this."""
    return make_url(url).get_backend_name() in ("mysql", "mariadb")


def drained_by_hand(url: str, jobs: int) -> float:
    """Do so many jobs that wait in one lane; return jobs a second."""
    conn, left, at, started = connected_to_mysql(make_url(url)), jobs, 0, perf_counter()
    with conn, conn.cursor() as cursor:
        while left:
            claims = _claim(cursor, at)
            conn.commit()
            _settle(cursor, claims)
            conn.commit()
            at, left = max(claim[3] for claim in claims), left - len(claims)
        return jobs / (perf_counter() - started)


def _claim(cursor: Any, at: int) -> Sequence[Any]:
    cursor.execute(_DUE, (at,))
    ids = [id for (id,) in cursor.fetchall()]
    cursor.execute(_TAKE, (ids,))
    cursor.execute(_JOBS, (ids,))
    claims: Sequence[Any] = cursor.fetchall()
    return claims


def _settle(cursor: Any, claims: Sequence[Any]) -> None:
    ids = [claim[0] for claim in claims]
    cursor.execute(_HELD, (ids,))
    cursor.executemany(_TELL, [*_rows(claims)])
    cursor.execute(_DROP, (ids,))


def _rows(claims: Sequence[Any]) -> Iterator[tuple[int, ...]]:
    for id, run, attempt, run_at, _, _ in claims:
        yield id, run, attempt, run_at, run_at
