-- For people and their tools: as before, and until when a job is wanted.

-- The queues of which nothing may run.
--: paused_queues
SELECT m.queue FROM mutirao_limit m WHERE m.queue IS NOT NULL AND m.most = 0 AND m.`by` IS NULL
--;
-- What a job's row says of it in every state.
--: rest_of_job id
    j.args, j.`key`, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = ${id}) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = ${id}) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = ${id}) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = ${id}) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = ${id}) AS progress_note, j.fingerprint,
    j.tenant, j.`group`,
    (SELECT ${epoch} + INTERVAL x.expires_at MICROSECOND FROM mutirao_expiry x WHERE x.job = ${id}) AS expires_at
--;
CREATE OR REPLACE VIEW mutirao_jobs AS
SELECT
    l.id, j.task, j.queue, j.priority,
    CASE
        WHEN l.worker IS NOT NULL THEN 'running'
        WHEN l.run_at >= ${parked} THEN 'blocked'
        WHEN l.run_at > ${now} THEN 'scheduled'
        WHEN j.queue IN (${paused_queues}) THEN 'blocked'
        ELSE 'ready'
    END ${bytes} AS state,
    l.attempt, j.max_attempts, j.timeout,
    ${epoch} + INTERVAL coalesce(p.run_at, l.run_at) MICROSECOND AS run_at,
    ${epoch} + INTERVAL j.enqueued_at MICROSECOND AS enqueued_at,
    ${epoch} + INTERVAL l.claimed_at MICROSECOND AS started_at,
    CAST(NULL AS datetime(6)) AS finished_at,
    (${now} - l.claimed_at) / 1e6 AS duration,
    l.worker, l.run,
    (
        SELECT a.error_type FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error_type,
    (
        SELECT a.error FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error,
    ${rest_of_job: l.id}
FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
LEFT JOIN mutirao_parked p ON p.job = l.id AND l.run_at >= ${parked}
UNION ALL
-- Those that other programs have inserted, until a worker looks.
SELECT
    j.id, j.task, j.queue, j.priority, if(j.run_at > ${now}, 'scheduled', 'ready'), 0, j.max_attempts,
    j.timeout, ${epoch} + INTERVAL j.run_at MICROSECOND,
    ${epoch} + INTERVAL j.enqueued_at MICROSECOND, NULL, NULL, NULL, NULL, 0, NULL, NULL,
    j.args, j.`key`, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of, NULL, NULL, NULL,
    NULL, NULL, j.fingerprint, j.tenant, j.`group`,
    (SELECT ${epoch} + INTERVAL x.expires_at MICROSECOND FROM mutirao_expiry x WHERE x.job = j.id)
FROM mutirao_job j FORCE INDEX (mutirao_job_unplaced) WHERE j.unplaced = true
UNION ALL
SELECT
    a.job, j.task, j.queue, j.priority, a.outcome, a.attempt, j.max_attempts, j.timeout,
    ${epoch} + INTERVAL j.run_at MICROSECOND,
    ${epoch} + INTERVAL j.enqueued_at MICROSECOND,
    ${epoch} + INTERVAL a.started_at MICROSECOND,
    ${epoch} + INTERVAL a.finished_at MICROSECOND,
    (a.finished_at - a.started_at) / 1e6, a.worker, a.run, a.error_type, a.error,
    ${rest_of_job: a.job}
FROM mutirao_attempt a JOIN mutirao_job j ON j.id = a.job
WHERE a.outcome IN ('succeeded', 'dead', 'cancelled')
