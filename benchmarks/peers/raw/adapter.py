"""The limit: the same statements on the same tables, by psycopg, with no queue around them."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

import psycopg
from adapting import EnqueueOne, main
from ours import OnOurTables

BATCH = 500
COPY_CHUNK = 5_000

_RESERVE = """SELECT nextval((SELECT pg_get_serial_sequence('mutirao_job', 'id')::regclass))
FROM generate_series(1, %s)"""
_COPY_JOB = """COPY mutirao_job (id, run_at, enqueued_at, task, args, queue, priority, max_attempts,
timeout, key, tags, metadata, traceparent, redrive_of, on_dead_of) FROM STDIN"""
_COPY_LIVE = "COPY mutirao_live (id, run_at, queue, priority) FROM STDIN"
_INSERT = """WITH job AS (
    INSERT INTO mutirao_job (task, args, queue, priority, max_attempts)
    VALUES (%s, %s::text::json, 'default', 0, 10) RETURNING id, queue, priority, run_at
)
INSERT INTO mutirao_live (id, queue, priority, run_at)
SELECT id, queue, priority, run_at FROM job RETURNING id"""
_REGISTER = """INSERT INTO mutirao_worker
(name, host, pid, concurrency, version, expires_at, listening)
VALUES ('raw', 'raw', 0, 1, 'raw', 'infinity', false) RETURNING id"""  # claims ask for it
_CLAIM = """SELECT * FROM mutirao_claim(
    %s, ARRAY['default'], ARRAY[0]::smallint[], ARRAY[%s::timestamptz], ARRAY[%s::bigint], %s,
    NULL, NULL
)"""
_FINISH = """SELECT mutirao_finish(
    %s::text::bigint[], %s::text::integer[], NULL, %s::text::bigint[], %s::text::bigint[],
    NULL, NULL, NULL
)"""


class Raw(OnOurTables):
    name, package = "raw", "psycopg"
    retries, threads = False, False
    tuned_by = "batches of 500, COPY in chunks of 5,000, prepared statements"
    connections = "1"

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        with psycopg.connect(url) as conn:
            started = time.perf_counter()
            for start in range(0, jobs, COPY_CHUNK):
                _copy(conn, min(COPY_CHUNK, jobs - start), data)
            conn.commit()
            return time.perf_counter() - started

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        with psycopg.connect(url, autocommit=True) as conn:
            (worker,) = conn.execute(_REGISTER).fetchone() or (0,)
            at, last = "-infinity", 0
            while True:
                claims = conn.execute(_CLAIM, (worker, at, last, BATCH), prepare=True).fetchall()
                for _ in claims:
                    count()
                if claims:
                    newest = max(claims, key=lambda claim: (claim[7], claim[0]))
                    at, last = newest[7], newest[0]
                    _finish(conn, claims)

    @contextmanager
    def producer(self, url: str, data: str) -> Iterator[EnqueueOne]:
        args = f'{{"data":"{data}"}}'
        with psycopg.connect(url, autocommit=True) as conn:
            yield lambda: conn.execute(_INSERT, ("nothing", args), prepare=True)


def _copy(conn: psycopg.Connection, jobs: int, data: str) -> None:
    ids = [row[0] for row in conn.execute(_RESERVE, (jobs,))]
    now = conn.execute("SELECT statement_timestamp()::text").fetchone()
    assert now is not None
    rest = f'\tnothing\t{{"data":"{data}"}}\tdefault\t0\t10{NULLS}\n'
    with conn.cursor() as cursor:
        with cursor.copy(_COPY_JOB) as channel:
            channel.write("".join([f"{id}\t{now[0]}\t{now[0]}{rest}" for id in ids]))
        with cursor.copy(_COPY_LIVE) as channel:
            channel.write("".join([f"{id}\t{now[0]}\tdefault\t0\n" for id in ids]))


NULLS = "\t\\N" * 7


def _finish(conn: psycopg.Connection, claims: Sequence[tuple]) -> None:
    zeros = _array(["0"] * len(claims))
    ids = _array([str(claim[0]) for claim in claims])
    runs = _array([str(claim[1]) for claim in claims])
    conn.execute(_FINISH, (ids, runs, zeros, zeros), prepare=True).fetchall()


def _array(values: Sequence[str]) -> str:
    return "{" + ",".join(values) + "}"


main(Raw())
