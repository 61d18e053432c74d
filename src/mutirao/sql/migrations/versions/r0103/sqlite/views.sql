-- For people and their tools: as before, and until when a job is wanted.

-- SQLite's clock counts milliseconds: now is the end of the present one, in which a job may have
-- been enqueued that is ready.
--: now
(CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999)
--;
-- A moment, as people read it.
--: moment at
strftime('%Y-%m-%dT%H:%M:%S', ${at} / 1000000, 'unixepoch') || printf('.%06dZ', ${at} % 1000000)
--;
-- The queues of which nothing may run.
--: paused_queues
SELECT m.queue FROM mutirao_limit m WHERE m.queue IS NOT NULL AND m.most = 0 AND m.by IS NULL
--;
-- What a job's row says of it in every state.
--: rest_of_job id
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = ${id}) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = ${id}) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = ${id}) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = ${id}) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = ${id}) AS progress_note, j.fingerprint,
    j.tenant, j."group",
    (SELECT ${moment: expires_at} FROM mutirao_expiry WHERE job = ${id}) AS expires_at
--;
-- A job that is live, in one of its states.
--: live_job state run_at started_at duration
    l.id, j.task, j.queue, j.priority, CAST('${state}' AS text) AS state,
    l.attempt, j.max_attempts, j.timeout,
    CAST(${moment: ${run_at}} AS text) AS run_at,
    CAST(${moment: j.enqueued_at} AS text) AS enqueued_at,
    CAST(${started_at} AS text) AS started_at,
    CAST(NULL AS text) AS finished_at,
    CAST(${duration} AS real) AS duration,
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
--;
-- A job that has ended.
--: finished_job state
    a.job AS id, j.task, j.queue, j.priority, ${state} AS state,
    a.attempt, j.max_attempts, j.timeout,
    CAST(${moment: j.run_at} AS text) AS run_at,
    CAST(${moment: j.enqueued_at} AS text) AS enqueued_at,
    CAST(${moment: a.started_at} AS text) AS started_at,
    CAST(${moment: a.finished_at} AS text) AS finished_at,
    CAST((a.finished_at - a.started_at) / 1e6 AS real) AS duration,
    a.worker, a.run, a.error_type, a.error,
    ${rest_of_job: a.job}
--;
DROP VIEW mutirao_jobs
--;
-- The state of a live job is constant in each branch, so that a search for another state skips it;
-- equal affinities in all branches let SQLite look into them by index, and `+` keeps it from an index in
-- another order than that of the ids.
CREATE VIEW mutirao_jobs AS
SELECT ${live_job: running; l.run_at; ${moment: l.claimed_at}; (${now} - l.claimed_at) / 1e6}
FROM mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NOT NULL
UNION ALL
SELECT ${live_job: ready; l.run_at; NULL; NULL}
FROM mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NULL AND +l.run_at <= ${now} AND ltrim(l.queue, char(29, 31)) NOT IN (${paused_queues})
UNION ALL
SELECT ${live_job: blocked; l.run_at; NULL; NULL}
FROM (SELECT 1 WHERE EXISTS (${paused_queues})) CROSS JOIN mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NULL AND l.run_at <= ${now} AND ltrim(l.queue, char(29, 31)) IN (${paused_queues})
UNION ALL
SELECT ${live_job: scheduled; l.run_at; NULL; NULL}
FROM mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NULL AND +l.run_at > ${now} AND +l.run_at < ${parked}
UNION ALL
SELECT ${live_job: blocked; coalesce((SELECT p.run_at FROM mutirao_parked p WHERE p.job = l.id), l.run_at); NULL; NULL}
FROM mutirao_live l INDEXED BY mutirao_live_blocked CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NULL AND l.run_at >= ${parked}
UNION ALL
SELECT ${finished_job: CAST('succeeded' AS text)}
FROM mutirao_attempt a CROSS JOIN mutirao_job j ON j.id = a.job
WHERE +a.outcome = 'succeeded'
UNION ALL
SELECT ${finished_job: a.outcome}
FROM mutirao_attempt a CROSS JOIN mutirao_job j ON j.id = a.job
WHERE a.outcome IN ('dead', 'cancelled')
