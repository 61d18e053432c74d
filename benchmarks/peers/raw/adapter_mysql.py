"""The limit on MariaDB and MySQL: the same statements and tables, by PyMySQL, with no queue."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

from adapting import EnqueueOne, main
from on_mysql import connected
from ours import OnOurTables

BATCH = 500

_NOW = "(timestampdiff(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))"
_JOB = """INSERT INTO mutirao_job (task, args, queue, priority, run_at, enqueued_at, max_attempts,
timeout, `key`, tags, metadata, traceparent, redrive_of, on_dead_of, unplaced) VALUES """
_ROW = "('nothing', %s, 'default', 0, %s, %s, 10" + ", NULL" * 8 + ")"
_LIVE = """INSERT INTO mutirao_live (id, queue, priority, run_at)
SELECT id, queue, priority, run_at FROM mutirao_job FORCE INDEX (PRIMARY) WHERE id IN %s"""
_DUE = f"""SELECT id FROM mutirao_live FORCE INDEX (mutirao_live_waiting)
WHERE worker IS NULL AND queue = 'default' AND priority = 0 AND run_at >= %s
AND (run_at > %s OR id >= %s) AND run_at <= {_NOW}
ORDER BY run_at, id LIMIT {BATCH} FOR UPDATE SKIP LOCKED"""  # noqa: S608 (constants)
_TAKE = f"""UPDATE mutirao_live FORCE INDEX (PRIMARY)
SET worker = %s, run = run + 1, attempt = attempt + 1, claimed_at = {_NOW} WHERE id IN %s"""  # noqa: S608
_JOBS = """SELECT l.id, l.run, l.attempt, l.run_at, l.claimed_at, j.task, j.args, j.max_attempts,
j.timeout FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id WHERE l.id IN %s"""
_HELD = """SELECT id, run FROM mutirao_live FORCE INDEX (PRIMARY)
WHERE id IN %s ORDER BY id FOR UPDATE"""
_TELL = """INSERT INTO mutirao_attempt (job, run, attempt, worker, outcome, started_at, finished_at)
VALUES (%s, %s, %s, %s, 'succeeded', %s, %s)"""
_DROP = "DELETE l FROM mutirao_live l FORCE INDEX (PRIMARY) WHERE l.id IN %s"
_IDLE = 0.002  # seconds until the next look, where nothing was due


class RawMysql(OnOurTables):
    name, package = "raw", "pymysql"
    retries, threads = False, False
    tuned_by = "batches of 500, also of rows in an INSERT; looks every 2 ms"
    connections = "1"

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        with connected(url) as conn, conn.cursor() as cursor:
            started = time.perf_counter()
            for start in range(0, jobs, BATCH):
                _insert(cursor, min(BATCH, jobs - start), data)
            conn.commit()
            return time.perf_counter() - started

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        since = (0, 0)  # the run_at and id that were reached
        with connected(url) as conn, conn.cursor() as cursor:
            cursor.execute("SELECT connection_id()")
            [(worker,)] = cursor.fetchall()
            while True:
                claims = _claim(cursor, worker, *since)
                conn.commit()
                for _ in claims:
                    count()
                if claims:
                    since = max((claim[3], claim[0]) for claim in claims)
                    _settle(cursor, worker, claims)
                    conn.commit()
                else:
                    time.sleep(_IDLE)

    @contextmanager
    def producer(self, url: str, data: str) -> Iterator[EnqueueOne]:
        with connected(url) as conn, conn.cursor() as cursor:

            def enqueue() -> None:
                conn.begin()
                _insert(cursor, 1, data)
                conn.commit()

            yield enqueue


def _insert(cursor: Any, jobs: int, data: str) -> None:
    now, args = time.time_ns() // 1_000, f'{{"data":"{data}"}}'
    rows = ", ".join([_ROW] * jobs)
    cursor.execute(f"{_JOB}{rows}", (args, now, now) * jobs)
    first = cursor.lastrowid  # InnoDB numbers the rows of one INSERT without gaps
    cursor.execute(_LIVE, ([*range(first, first + jobs)],))


def _claim(cursor: Any, worker: int, at: int, id: int) -> Sequence[Any]:
    cursor.execute(_DUE, (at, at, id))
    ids = [id for (id,) in cursor.fetchall()]
    if not ids:
        return ()
    cursor.execute(_TAKE, (worker, ids))
    cursor.execute(_JOBS, (ids,))
    found: Sequence[Any] = cursor.fetchall()
    return found


def _settle(cursor: Any, worker: int, claims: Sequence[Any]) -> None:
    ids = [claim[0] for claim in claims]
    cursor.execute(_HELD, (ids,))
    rows = [(id, run, attempt, worker, at, at) for id, run, attempt, _, at, *_ in claims]
    cursor.executemany(_TELL, rows)
    cursor.execute(_DROP, (ids,))


main(RawMysql())
