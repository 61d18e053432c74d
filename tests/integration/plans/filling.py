"""Many jobs, made as fast as the server can: a history of a million, a queue of 200,000."""

from __future__ import annotations

from sqlalchemy import Connection, text

FINISHED = 1_000_000
LIVE = 200_000
DUE = LIVE * 3 // 4 + 10_000  # and those that are claimed meanwhile

# Only the tests make statistics. What is not logged need not be written twice.
QUIET = """
ALTER TABLE mutirao_job SET UNLOGGED;
ALTER TABLE mutirao_live SET UNLOGGED;
ALTER TABLE mutirao_attempt SET UNLOGGED;
ALTER TABLE mutirao_job SET (autovacuum_enabled = off);
ALTER TABLE mutirao_live SET (autovacuum_enabled = off);
ALTER TABLE mutirao_attempt SET (autovacuum_enabled = off)
"""
# In the history a second lies between each job and the next; one in 50 failed before, and half of
# these in the end. Of the live ones a quarter is scheduled ahead, in a lane where another quarter
# is due. One in 25 runs; a few of these have lost the row of their worker, 4.
FILL = """
INSERT INTO mutirao_worker (id, name, host, pid, concurrency, version, expires_at)
    SELECT n, 'w' || n::text, 'h', n, 20, '0', now() + interval '1 day' FROM generate_series(1, 3) n
    ON CONFLICT DO NOTHING;
INSERT INTO mutirao_job (id, task, queue, priority)
    SELECT n, 'task ' || (n % 20)::text,
           (ARRAY['default', 'default', 'mail', 'reports'])[1 + n % 4],
           (ARRAY[0, 0, 10, CASE WHEN n % 8 = 7 THEN -5 ELSE 100 END])[1 + n % 4]
    FROM generate_series(:first, :first + :finished + :live - 1) n;
INSERT INTO mutirao_attempt (job, run, attempt, worker, outcome, started_at, finished_at)
    SELECT n, 2, 2, 1 + n % 3,
           CASE n % 100 WHEN 0 THEN 'dead' WHEN 1 THEN 'cancelled' ELSE 'succeeded' END,
           at, at FROM generate_series(:first, :first + :finished - 1) n,
           LATERAL (SELECT now() - (:first + :finished - n) * interval '1 second') t (at)
    UNION ALL
    SELECT n, 1, 1, 1 + n % 3, CASE n % 4 WHEN 0 THEN 'lost' ELSE 'retried' END,
           at, at FROM generate_series(:first, :first + :finished - 1, 50) n,
           LATERAL (SELECT now() - (:first + :finished - n) * interval '1 second') t (at);
INSERT INTO mutirao_live (id, queue, priority, run_at, worker, run, attempt, claimed_at)
    SELECT n, queue, priority,
           now() + (CASE n % 4 WHEN 0 THEN 1 ELSE -1 END) * interval '1 hour' + n * interval '1 ms',
           CASE WHEN running THEN CASE n % 2500 WHEN 1 THEN 4 ELSE 1 + n % 3 END END,
           CASE WHEN running THEN 1 ELSE 0 END, CASE WHEN running THEN 1 ELSE 0 END,
           CASE WHEN running THEN now() END
    FROM (SELECT id AS n, queue, priority, id % 25 = 1 AS running FROM mutirao_job) j
    WHERE n BETWEEN :first + :finished AND :first + :finished + :live - 1;
SELECT setval('mutirao_worker_id_seq', 4), setval('mutirao_job_id_seq', :first + :finished + :live)
"""


def quieten(connection: Connection) -> None:
    """Leave the tables to the test: nothing else vacuums or analyses them."""
    _say(connection, QUIET)


def fill(
    connection: Connection, *, first: int = 1, finished: int = FINISHED, live: int = LIVE
) -> None:
    """Add finished and live jobs, with ids from `first` on."""
    _say(connection, FILL, first=first, finished=finished, live=live)


def analyse(connection: Connection) -> None:
    """Make statistics of how things are."""
    _say(connection, "ANALYZE mutirao_job; ANALYZE mutirao_live; ANALYZE mutirao_attempt")


def _say(connection: Connection, script: str, **values: int) -> None:
    for statement in script.split(";"):
        connection.execute(text(statement), values)
    connection.commit()
