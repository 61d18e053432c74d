"""A queue as many write it by hand: one table, a loop of `FOR UPDATE SKIP LOCKED`, PyMySQL."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

from adapting import EnqueueOne, Peer, main
from on_mysql import connected

BATCH = 100
ROWS = 1_000
IDLE = 0.05  # seconds until the next look, where nothing was due

_TABLE = """CREATE TABLE job (
    id bigint PRIMARY KEY AUTO_INCREMENT,
    state enum('ready', 'running', 'done') NOT NULL DEFAULT 'ready',
    run_at datetime(6) NOT NULL DEFAULT current_timestamp(6),
    attempts int NOT NULL DEFAULT 0,
    payload longtext NOT NULL,
    finished_at datetime(6),
    KEY claim (state, run_at, id)
)"""
_INSERT = "INSERT INTO job (payload) VALUES (%s)"
_DUE = f"""SELECT id, payload FROM job WHERE state = 'ready' AND run_at <= now(6)
ORDER BY run_at, id LIMIT {BATCH} FOR UPDATE SKIP LOCKED"""  # noqa: S608 (constants)
_TAKE = "UPDATE job SET state = 'running', attempts = attempts + 1 WHERE id IN %s"
_DONE = "UPDATE job SET state = 'done', finished_at = now(6) WHERE id IN %s"


class ByHand(Peer):
    name, package = "by-hand", "pymysql"
    history, retries, threads = True, False, False
    tuned_by = f"batches of {BATCH}, looks every {IDLE * 1e3:.0f} ms, INSERTs of {ROWS} rows"
    connections = "1"
    unsettled = """SELECT count(*) FROM (
        SELECT 1 FROM job WHERE state IN ('ready', 'running') LIMIT 1) one"""
    settled = "SELECT count(*) FROM job WHERE state = 'done'"

    def setup(self, url: str) -> None:
        with connected(url) as conn, conn.cursor() as cursor:
            cursor.execute(_TABLE)

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        payload = json.dumps({"data": data})
        with connected(url) as conn, conn.cursor() as cursor:
            started = time.perf_counter()
            for start in range(0, jobs, ROWS):
                cursor.executemany(_INSERT, [(payload,)] * min(ROWS, jobs - start))
            conn.commit()
            return time.perf_counter() - started

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        with connected(url) as conn, conn.cursor() as cursor:
            while True:
                cursor.execute(_DUE)
                jobs = cursor.fetchall()
                if not jobs:
                    conn.commit()
                    time.sleep(IDLE)
                    continue
                ids = [id for id, _ in jobs]
                cursor.execute(_TAKE, (ids,))
                conn.commit()
                for _, payload in jobs:
                    json.loads(payload)
                    count()
                cursor.execute(_DONE, (ids,))
                conn.commit()

    @contextmanager
    def producer(self, url: str, data: str) -> Iterator[EnqueueOne]:
        payload = json.dumps({"data": data})
        with connected(url, autocommit=True) as conn, conn.cursor() as cursor:
            yield lambda: cursor.execute(_INSERT, (payload,))


main(ByHand())
