"""The hot statements in PostgreSQL's words. Each is one statement, hence one round trip.

Tests hold their plans (`EXPLAIN`) with a million finished jobs and with generic plans.
"""

from sqlalchemy import text

NOW = "coalesce(CAST(:now AS timestamptz), statement_timestamp())"

# A loose index scan: one descent of the waiting index for each lane, however many jobs are in it.
LANES = text(f"""
WITH RECURSIVE head AS (
    (SELECT queue, priority, run_at, id FROM mutirao_live WHERE worker IS NULL
     ORDER BY queue, priority, run_at, id LIMIT 1)
    UNION ALL
    SELECT next.* FROM head CROSS JOIN LATERAL (
        SELECT l.queue, l.priority, l.run_at, l.id FROM mutirao_live l
        WHERE l.worker IS NULL AND (l.queue, l.priority) > (head.queue, head.priority)
        ORDER BY l.queue, l.priority, l.run_at, l.id LIMIT 1
    ) next
)
SELECT queue, priority, run_at, id,
       CAST(extract(epoch FROM run_at - {NOW}) AS double precision) AS due_in
FROM head
WHERE CAST(:queues AS text[]) IS NULL OR queue = ANY(CAST(:queues AS text[]))
ORDER BY priority, queue
""")  # noqa: S608

# The functions are in the migrations, with the reason why they are functions. Arrays of numbers
# travel as text: joining them costs a tenth of what the drivers take to dump a list.
CLAIM = text("""
SELECT * FROM mutirao_claim(
    :worker, CAST(:queues AS text[]), CAST(:priorities AS smallint[]),
    CAST(:run_ats AS timestamptz[]), CAST(:ids AS bigint[]), :limit,
    CAST(:without AS text[]), CAST(:now AS timestamptz)
)
""")

_ENDED = """
    CAST(CAST(:ids AS text) AS bigint[]), CAST(CAST(:runs AS text) AS integer[]),
    CAST(:outcomes AS text[]), CAST(CAST(:started AS text) AS double precision[]),
    CAST(CAST(:finished AS text) AS double precision[]), CAST(:error_types AS text[]),
    CAST(:errors AS text[])
"""
FINISH = text(f"SELECT mutirao_finish({_ENDED}, CAST(:now AS timestamptz))")

RESUME = text(f"""
SELECT mutirao_resume(
    :worker, {_ENDED}, CAST(:back AS integer[]), CAST(:ats AS timestamptz[]),
    CAST(:afters AS double precision[]), CAST(:now AS timestamptz)
)
""")

RELEASE = text("""
SELECT mutirao_release(CAST(CAST(:ids AS text) AS bigint[]), CAST(CAST(:runs AS text) AS integer[]))
""")

# The new run fences the vanished worker off, should it only have been slow. A worker that was
# suspended may claim once more before it hears that it is gone: hence the workers without a row.
# Waits for no lock: a machine paused inside a transaction keeps its locks for as long as the
# server believes in its connection, and must not hold up the rescue of everybody else's jobs.
RESCUE = text(f"""
WITH gone AS (
    DELETE FROM mutirao_worker WHERE id = ANY(ARRAY(
        SELECT id FROM mutirao_worker WHERE expires_at < {NOW} FOR UPDATE SKIP LOCKED
    )) RETURNING id
), held AS (
    SELECT id, worker, claimed_at FROM mutirao_live
    WHERE worker = ANY(ARRAY(
        SELECT id FROM gone
        UNION ALL
        SELECT l.worker FROM mutirao_live l WHERE l.worker IS NOT NULL
        AND NOT EXISTS (SELECT FROM mutirao_worker w WHERE w.id = l.worker)
    )) ORDER BY id FOR UPDATE SKIP LOCKED
), lost AS (
    UPDATE mutirao_live l SET worker = NULL, claimed_at = NULL, run = l.run + 1
    FROM held WHERE l.id = held.id
    RETURNING l.id, l.run, l.attempt, held.worker, held.claimed_at
), told AS (
    INSERT INTO mutirao_attempt
        (job, run, attempt, worker, outcome, started_at, finished_at, error_type, error)
    SELECT id, run - 1, attempt, worker, 'lost', claimed_at, {NOW}, 'WorkerLost',
           'the heartbeat of worker ' || worker || ' stopped'
    FROM lost
)
SELECT id, run FROM lost ORDER BY id
""")  # noqa: S608

WAKE = text("SELECT mutirao_wake()")
