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

# `ANY(ARRAY(...))` makes the planner expect a handful of ids and read by primary key; a join
# with the subquery may become a hash join over the whole job table under a generic plan.
_CLAIM = """
WITH lane AS (
    SELECT * FROM unnest(
        CAST(:queues AS text[]), CAST(:priorities AS smallint[]),
        CAST(:run_ats AS timestamptz[]), CAST(:ids AS bigint[])
    ) AS lane (queue, priority, run_at, id)
), taken AS (
    UPDATE mutirao_live
    SET worker = :worker, run = run + 1, attempt = attempt + 1, claimed_at = {now}
    WHERE id = ANY(ARRAY(
        SELECT w.id FROM lane CROSS JOIN LATERAL (
            SELECT l.id FROM mutirao_live l
            WHERE l.worker IS NULL AND l.queue = lane.queue AND l.priority = lane.priority
              AND (l.run_at, l.id) >= (lane.run_at, lane.id) AND l.run_at <= {now} {without}
            ORDER BY l.run_at, l.id LIMIT :limit FOR UPDATE SKIP LOCKED
        ) w LIMIT :limit
    ))
    RETURNING id, run, attempt, run_at, cancel
)
SELECT t.id, t.run, t.attempt, j.task, CAST(j.args AS text), j.queue, j.priority, t.run_at,
       j.enqueued_at, j.max_attempts, j.timeout, j.key, CAST(j.tags AS text),
       CAST(j.metadata AS text), j.traceparent, j.redrive_of, j.on_dead_of, t.cancel
FROM taken t JOIN mutirao_job j ON j.id = t.id
"""
_WITHOUT = """AND NOT EXISTS (
    SELECT FROM mutirao_job j WHERE j.id = l.id AND j.task = ANY(CAST(:without AS text[]))
)"""
CLAIM = text(_CLAIM.format(now=NOW, without=""))
CLAIM_WITHOUT = text(_CLAIM.format(now=NOW, without=_WITHOUT))

# Joined on id and run: a condition on `worker` would let the planner read the running index once
# for each id, which is quadratic in the batch. `claimed_at`, in no index, tells that the job is
# still held: a run that was given back may not settle any more.
FINISH = text(f"""
WITH s AS (
    SELECT * FROM unnest(
        CAST(:ids AS bigint[]), CAST(:runs AS integer[]), CAST(:outcomes AS text[]),
        CAST(:started AS double precision[]), CAST(:finished AS double precision[]),
        CAST(:error_types AS text[]), CAST(:errors AS text[])
    ) AS s (id, run, outcome, started, finished, error_type, error)
), done AS (
    DELETE FROM mutirao_live l USING s
    WHERE l.id = s.id AND l.run = s.run AND l.claimed_at IS NOT NULL
    RETURNING l.id, l.run, l.attempt, l.worker, s.outcome, s.started, s.finished,
              s.error_type, s.error
)
INSERT INTO mutirao_attempt
    (job, run, attempt, worker, outcome, started_at, finished_at, error_type, error)
SELECT id, run, attempt, worker, outcome, {NOW} - started * interval '1 second',
       {NOW} - finished * interval '1 second', error_type, error
FROM done RETURNING job
""")  # noqa: S608

RESUME = text(f"""
WITH s AS (
    SELECT * FROM unnest(
        CAST(:ids AS bigint[]), CAST(:runs AS integer[]), CAST(:outcomes AS text[]),
        CAST(:started AS double precision[]), CAST(:finished AS double precision[]),
        CAST(:error_types AS text[]), CAST(:errors AS text[]),
        CAST(:back AS integer[]), CAST(:ats AS timestamptz[]), CAST(:afters AS double precision[])
    ) AS s (id, run, outcome, started, finished, error_type, error, back, at, after)
), waiting AS (
    UPDATE mutirao_live l
    SET worker = NULL, claimed_at = NULL, attempt = l.attempt - s.back,
        run_at = CASE
            WHEN l.cancel THEN {NOW}
            ELSE coalesce(s.at, {NOW} + coalesce(s.after, 0) * interval '1 second')
        END
    FROM s WHERE l.id = s.id AND l.run = s.run AND l.claimed_at IS NOT NULL
    RETURNING l.id, l.run, l.attempt + s.back AS attempt, s.outcome, s.started, s.finished,
              s.error_type, s.error
)
INSERT INTO mutirao_attempt
    (job, run, attempt, worker, outcome, started_at, finished_at, error_type, error)
SELECT id, run, attempt, :worker, outcome, {NOW} - started * interval '1 second',
       {NOW} - finished * interval '1 second', error_type, error
FROM waiting RETURNING job
""")  # noqa: S608

RELEASE = text("""
UPDATE mutirao_live l SET worker = NULL, claimed_at = NULL, attempt = l.attempt - 1
FROM unnest(CAST(:ids AS bigint[]), CAST(:runs AS integer[])) AS s (id, run)
WHERE l.id = s.id AND l.run = s.run AND l.claimed_at IS NOT NULL
RETURNING l.id
""")

# The new run fences the vanished worker off, should it only have been slow. A worker that was
# suspended may claim once more before it hears that it is gone: hence the workers without a row.
RESCUE = text(f"""
WITH gone AS (
    DELETE FROM mutirao_worker WHERE expires_at < {NOW} RETURNING id
), held AS (
    SELECT id, worker, claimed_at FROM mutirao_live
    WHERE worker = ANY(ARRAY(
        SELECT id FROM gone
        UNION ALL
        SELECT l.worker FROM mutirao_live l WHERE l.worker IS NOT NULL
        AND NOT EXISTS (SELECT FROM mutirao_worker w WHERE w.id = l.worker)
    )) ORDER BY id FOR UPDATE
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
