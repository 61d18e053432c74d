-- For people and their tools: as before, and until when a job is wanted.

-- Each branch of a union is one plain table without conditions, which are a column (`counts`) that is
-- asked for outside: only so does the planner look into each by index, for an id, for a state, and in the
-- order asked for. Which states a branch has is among its conditions, so that a search for another one
-- skips it; that takes constants, and a time that the planner takes for one, hence the SELECT around it.
-- By `+ 0` it cannot read jobs in their order beside attempts, past all that are live; the other two
-- conditions find a job's state by index all the same.
CREATE OR REPLACE VIEW mutirao_jobs AS
SELECT
    s.id, j.task, j.queue, j.priority, s.state, s.attempt, j.max_attempts, j.timeout,
    coalesce(s.run_at, j.run_at) AS run_at, j.enqueued_at, s.started_at, s.finished_at,
    extract(epoch FROM coalesce(s.finished_at, statement_timestamp()) - s.started_at)::float8
        AS duration,
    s.worker, s.run,
    CASE WHEN s.finished_at IS NOT NULL THEN s.error_type ELSE (
        SELECT a.error_type FROM mutirao_attempt a
        WHERE a.job = j.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) END AS error_type,
    CASE WHEN s.finished_at IS NOT NULL THEN s.error ELSE (
        SELECT a.error FROM mutirao_attempt a
        WHERE a.job = j.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) END AS error,
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = j.id) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = j.id) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = j.id) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = j.id) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = j.id) AS progress_note,
    j.fingerprint, j.tenant, j."group",
    (SELECT expires_at FROM mutirao_expiry WHERE job = j.id) AS expires_at
FROM mutirao_job j
JOIN (
    SELECT
        id, CASE
            WHEN worker IS NOT NULL THEN 'running'
            WHEN run_at > (SELECT statement_timestamp()) THEN 'scheduled' ELSE 'ready'
        END AS state, '{blocked,succeeded,dead,cancelled}'::text[] AS others,
        worker IS NOT NULL OR run_at <> ${parked} AND NOT (
            ltrim(queue, E'\x1d\x1f') = ANY(ARRAY(
                SELECT m.queue FROM mutirao_limit m WHERE m.most = 0 AND m.by IS NULL AND m.queue <> ''
            )) AND run_at <= (SELECT statement_timestamp())
        ) AS counts, attempt, run_at, claimed_at AS started_at, NULL::timestamptz AS finished_at, worker,
        run, NULL::text AS error_type, NULL::text AS error
    FROM mutirao_live
    UNION ALL
    SELECT
        id, 'blocked', '{}', worker IS NULL AND run_at = ${parked},
        attempt, coalesce((SELECT p.run_at FROM mutirao_parked p WHERE p.job = id), run_at),
        claimed_at, NULL, worker, run, NULL, NULL
    FROM mutirao_live
    UNION ALL
    SELECT -- in queues that are paused
        id, 'blocked', '{}', worker IS NULL AND run_at <= (SELECT statement_timestamp()) AND EXISTS (
            SELECT FROM mutirao_limit m WHERE m.most = 0 AND m.by IS NULL AND m.queue <> ''
        ) AND ltrim(queue, E'\x1d\x1f') = ANY(ARRAY(
            SELECT m.queue FROM mutirao_limit m WHERE m.most = 0 AND m.by IS NULL AND m.queue <> ''
        )), attempt, run_at, claimed_at, NULL, worker, run, NULL, NULL
    FROM mutirao_live
    UNION ALL
    SELECT
        job, 'succeeded', '{}', outcome = 'succeeded', attempt, NULL, started_at, finished_at, worker, run,
        error_type, error
    FROM mutirao_attempt
    UNION ALL
    SELECT
        job, outcome, '{}', outcome IN ('dead', 'cancelled'), attempt, NULL, started_at, finished_at, worker,
        run, error_type, error
    FROM mutirao_attempt
) s ON j.id = s.id + 0 AND s.id >= j.id AND s.id <= j.id
WHERE s.counts AND s.state <> ALL(s.others)
