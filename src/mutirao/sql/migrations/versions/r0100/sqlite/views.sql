-- For people and their tools: the columns stay as docs/sql.md says.

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
-- A row, unless the live jobs have been counted lately.
--: if_not_counted
(SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM mutirao_backlog WHERE counted_at > ${now} - 180000000))
--;
-- What a job's row says of it in every state.
--: rest_of_job id
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = ${id}) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = ${id}) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = ${id}) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = ${id}) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = ${id}) AS progress_note, j.fingerprint,
    j.tenant, j."group"
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
--;
-- One row for each attempt that has ended. What a handler said last stays with the run that said it.
CREATE VIEW mutirao_attempts AS
SELECT
    a.job, a.run, a.attempt, j.task, j.queue, a.outcome,
    ${moment: a.started_at} AS started_at,
    ${moment: a.finished_at} AS finished_at,
    (a.finished_at - a.started_at) / 1e6 AS duration,
    a.worker, a.error_type, a.error,
    CASE WHEN a.error IS NOT NULL
        THEN substr(substr(a.error, 1, instr(a.error || char(10), char(10)) - 1), 1, 200)
        ELSE (SELECT p.note FROM mutirao_progress p WHERE p.job = a.job AND p.run = a.run)
    END AS message,
    CASE WHEN a.outcome = 'succeeded' THEN (
        SELECT r.value FROM mutirao_result r
        WHERE r.job = a.job AND (
            r.expires_at IS NULL
            OR r.expires_at > CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000
        )
    ) END AS result,
    j.tenant, j."group"
FROM mutirao_attempt a CROSS JOIN mutirao_job j ON j.id = a.job
--;
-- What is not added up yet is read by index: of attempts, what has finished since, and what came late.
-- Live jobs are counted, unless they were too many and have been counted lately.
CREATE VIEW mutirao_queues AS
SELECT
    ltrim(queue, char(29, 31)) AS queue, state, sum(jobs) AS jobs, (${now} - min(since)) / 1e6 AS oldest_age,
    ${moment: coalesce(min(counted_at), ${now})} AS counted_at
FROM (
    SELECT queue, state, jobs, since, counted_at
    FROM mutirao_backlog WHERE counted_at > ${now} - 180000000
    UNION ALL
    SELECT queue, CAST('running' AS text) AS state, count(*), min(claimed_at), NULL
    FROM ${if_not_counted}
    CROSS JOIN mutirao_live WHERE worker IS NOT NULL
    GROUP BY queue
    UNION ALL
    SELECT queue, CAST('ready' AS text), count(*), min(run_at), NULL
    FROM ${if_not_counted}
    CROSS JOIN mutirao_live
    WHERE worker IS NULL AND run_at <= ${now}
    GROUP BY queue HAVING ltrim(queue, char(29, 31)) NOT IN (${paused_queues})
    UNION ALL
    SELECT queue, CAST('blocked' AS text), count(*), min(run_at), NULL
    FROM ${if_not_counted}
    CROSS JOIN mutirao_live
    WHERE worker IS NULL AND run_at <= ${now} AND EXISTS (${paused_queues})
    GROUP BY queue HAVING ltrim(queue, char(29, 31)) IN (${paused_queues})
    UNION ALL
    SELECT queue, CAST('scheduled' AS text), jobs, (SELECT enqueued_at FROM mutirao_job WHERE id = first), NULL
    FROM (
        SELECT queue, count(*) AS jobs, min(id) AS first FROM ${if_not_counted}
    CROSS JOIN mutirao_live
        WHERE worker IS NULL AND run_at > ${now} AND run_at < ${parked} GROUP BY queue
    )
    UNION ALL
    SELECT queue, CAST('blocked' AS text), jobs, min(
        ifnull(since, ${parked}),
        ifnull((SELECT enqueued_at FROM mutirao_job WHERE id = first), ${parked})
    ), NULL
    FROM (
        SELECT l.queue, count(*) AS jobs, min(p.run_at) AS since,
               min(CASE WHEN p.job IS NULL THEN l.id END) AS first
        FROM ${if_not_counted} CROSS JOIN mutirao_live l LEFT JOIN mutirao_parked p ON p.job = l.id
        WHERE l.worker IS NULL AND l.run_at = ${parked}
        GROUP BY l.queue
    )
    UNION ALL
    SELECT queue, outcome, sum(jobs), min(CASE WHEN jobs > 0 THEN hour END), NULL
    FROM mutirao_kept GROUP BY queue, outcome
    UNION ALL
    SELECT j.queue, e.outcome, count(*), min(e.finished_at), NULL
    FROM (
        SELECT job, outcome, finished_at FROM mutirao_attempt
        WHERE outcome IN ('succeeded', 'dead', 'cancelled') AND came_late IS NULL
          AND finished_at >= ifnull((SELECT until FROM mutirao_rolled), -9223372036854775808)
        UNION ALL
        SELECT job, outcome, finished_at FROM mutirao_attempt
        WHERE came_late AND +outcome IN ('succeeded', 'dead', 'cancelled')
    ) e CROSS JOIN mutirao_job j ON j.id = e.job
    GROUP BY j.queue, e.outcome
)
GROUP BY 1, state HAVING sum(jobs) > 0
--;
-- Errors that have occurred since are added to what is known of them; the others are as they stand.
CREATE VIEW mutirao_errors AS
SELECT
    task, CAST(nullif(error_type, '') AS text) AS error_type, CAST(nullif(message, '') AS text) AS message,
    jobs, attempts, first_at, last_at
FROM mutirao_error WHERE (task, error_type, message) NOT IN (
    SELECT j.task, substr(ifnull(e.error_type, ''), 1, 200), ifnull(substr(substr(e.error, 1, instr(e.error || char(10), char(10)) - 1), 1, 200), '')
    FROM (
        SELECT job, error_type, error FROM mutirao_attempt
        WHERE outcome IN ('retried', 'dead', 'lost') AND came_late IS NULL
          AND finished_at >= ifnull((SELECT until FROM mutirao_rolled), -9223372036854775808)
        UNION ALL
        SELECT job, error_type, error FROM mutirao_attempt
        WHERE came_late AND +outcome IN ('retried', 'dead', 'lost')
    ) e CROSS JOIN mutirao_job j ON j.id = e.job
)
UNION ALL
SELECT
    CAST(task AS text), CAST(nullif(error_type, '') AS text), CAST(nullif(message, '') AS text),
    CAST(jobs AS integer), CAST(attempts AS integer), CAST(first_at AS text), CAST(last_at AS text)
FROM (
    SELECT
        f.task, f.error_type, f.message, f.jobs + ifnull(k.jobs, 0) AS jobs,
        f.attempts + ifnull(k.attempts, 0) AS attempts, min(f.first_at, ifnull(k.first_at, f.first_at)) AS first_at,
        max(f.last_at, ifnull(k.last_at, f.last_at)) AS last_at
    FROM (
        SELECT
            task, error_type, message, count(*) AS attempts, sum(NOT EXISTS (
                SELECT 1 FROM mutirao_attempt b
                WHERE b.job = o.job AND b.run < o.run AND b.outcome IN ('retried', 'dead', 'lost')
                  AND substr(ifnull(b.error_type, ''), 1, 200) = o.error_type
                  AND ifnull(substr(substr(b.error, 1, instr(b.error || char(10), char(10)) - 1), 1, 200), '') = o.message
            )) AS jobs,
            ${moment: min(finished_at)} AS first_at,
            ${moment: max(finished_at)} AS last_at
        FROM (
            SELECT j.task, e.job, e.run, e.finished_at, substr(ifnull(e.error_type, ''), 1, 200) AS error_type,
                   ifnull(substr(substr(e.error, 1, instr(e.error || char(10), char(10)) - 1), 1, 200), '') AS message
            FROM (
                SELECT job, run, error_type, error, finished_at FROM mutirao_attempt
                WHERE outcome IN ('retried', 'dead', 'lost') AND came_late IS NULL
                  AND finished_at >= ifnull((SELECT until FROM mutirao_rolled), -9223372036854775808)
                UNION ALL
                SELECT job, run, error_type, error, finished_at FROM mutirao_attempt
                WHERE came_late AND +outcome IN ('retried', 'dead', 'lost')
            ) e CROSS JOIN mutirao_job j ON j.id = e.job
        ) o GROUP BY task, error_type, message
    ) f LEFT JOIN mutirao_error k
        ON k.task = f.task AND k.error_type = f.error_type AND k.message = f.message
)
--;
-- Of an hour that has ended, and is added up, all is known. Others are read anew.
CREATE VIEW mutirao_throughput AS
SELECT
    hour, queue, task, outcome, attempts, CAST(seconds / attempts AS real) AS mean_duration,
    p95 AS p95_duration, p50 AS p50_duration, p99 AS p99_duration
FROM mutirao_hour
WHERE hour < (SELECT strftime('%Y-%m-%dT%H:00:00.000000Z', until / 1000000, 'unixepoch') FROM mutirao_rolled)
  AND hour NOT IN (SELECT strftime('%Y-%m-%dT%H:00:00.000000Z', finished_at / 1000000, 'unixepoch') FROM mutirao_attempt WHERE came_late)
UNION ALL
SELECT
    CAST(hour AS text), CAST(queue AS text), CAST(task AS text), CAST(outcome AS text),
    CAST(attempts AS integer), CAST(mean AS real), CAST(p95 AS real), CAST(p50 AS real), CAST(p99 AS real)
FROM (
    SELECT
        hour, queue, task, outcome, attempts, sum(seconds) / attempts AS mean,
        min(CASE WHEN place >= attempts * 0.95 THEN about END) AS p95,
        min(CASE WHEN place >= attempts * 0.5 THEN about END) AS p50,
        min(CASE WHEN place >= attempts * 0.99 THEN about END) AS p99
    FROM (
        SELECT
            hour, queue, task, outcome, about, seconds, sum(number) OVER (each ORDER BY about) AS place,
            sum(number) OVER each AS attempts
        FROM (
            SELECT hour, queue, task, outcome, about, sum(number) AS number, sum(seconds) AS seconds
            FROM (
                SELECT h.hour, h.queue, h.task, h.outcome, CAST(d.key AS real) AS about, d.value AS number, 0.0 AS seconds
                FROM mutirao_hour h CROSS JOIN json_each(h.durations) d
                WHERE h.hour >= (SELECT strftime('%Y-%m-%dT%H:00:00.000000Z', until / 1000000, 'unixepoch') FROM mutirao_rolled)
                   OR h.hour IN (SELECT strftime('%Y-%m-%dT%H:00:00.000000Z', finished_at / 1000000, 'unixepoch') FROM mutirao_attempt WHERE came_late)
                UNION ALL
                SELECT h.hour, h.queue, h.task, h.outcome, 0.0, 0, h.seconds FROM mutirao_hour h
                WHERE h.hour >= (SELECT strftime('%Y-%m-%dT%H:00:00.000000Z', until / 1000000, 'unixepoch') FROM mutirao_rolled)
                   OR h.hour IN (SELECT strftime('%Y-%m-%dT%H:00:00.000000Z', finished_at / 1000000, 'unixepoch') FROM mutirao_attempt WHERE came_late)
                UNION ALL
                SELECT
                    strftime('%Y-%m-%dT%H:00:00.000000Z', e.finished_at / 1000000, 'unixepoch'), j.queue, j.task, e.outcome,
                    CAST(printf('%.1e', max(e.finished_at - e.started_at, 0) / 1e6) AS real), 1,
                    max(e.finished_at - e.started_at, 0) / 1e6
                FROM (
                    SELECT job, outcome, started_at, finished_at FROM mutirao_attempt
                    WHERE outcome IN ('succeeded', 'retried', 'snoozed', 'dead', 'cancelled', 'lost', 'released') AND came_late IS NULL
                      AND finished_at >= ifnull((SELECT until FROM mutirao_rolled), -9223372036854775808)
                    UNION ALL
                    SELECT job, outcome, started_at, finished_at FROM mutirao_attempt
                    WHERE came_late AND +outcome IN ('succeeded', 'retried', 'snoozed', 'dead', 'cancelled', 'lost', 'released')
                ) e CROSS JOIN mutirao_job j ON j.id = e.job
            ) GROUP BY hour, queue, task, outcome, about
        ) WINDOW each AS (PARTITION BY hour, queue, task, outcome)
    ) GROUP BY hour, queue, task, outcome, attempts
)
--;
CREATE VIEW mutirao_workers AS
SELECT
    w.id, w.name, w.host, w.pid, w.queues, w.exclude_queues, w.tasks, w.concurrency, w.version,
    w.app_version,
    ${moment: w.started_at} AS started_at,
    ${moment: w.beat_at} AS beat_at,
    ${moment: w.expires_at} AS expires_at,
    w.expires_at > ${now} AS alive, w.listening, w.stuck, w.late,
    (SELECT count(*) FROM mutirao_live WHERE worker = w.id) AS running,
    (
        SELECT json_group_array(id)
        FROM (SELECT id FROM mutirao_live WHERE worker = w.id ORDER BY id)
    ) AS jobs
FROM mutirao_worker w
--;
-- A worker notes every minute that a schedule is in its code.
CREATE VIEW mutirao_schedules AS
SELECT
    s.name, s.task, s.args AS args, s.queue, s.cron, s.every, s.timezone,
    CASE
        WHEN s.next_at IS NULL AND NOT s.awaiting THEN 'finished'
        WHEN s.paused THEN 'paused'
        WHEN s.awaiting THEN 'awaiting'
        ELSE 'active'
    END AS status,
    ${moment: s.next_at} AS next_at,
    ${moment: s.last_tick} AS last_tick,
    s.last_job,
    CASE
        WHEN l.worker IS NOT NULL THEN 'running'
        WHEN l.run_at = ${parked} THEN 'blocked'
        WHEN l.run_at > ${now} THEN 'scheduled'
        WHEN l.id IS NOT NULL THEN 'ready'
        ELSE a.outcome
    END AS last_state,
    ${moment: coalesce(l.claimed_at, a.started_at)} AS last_started_at,
    ${moment: CASE WHEN l.id IS NULL THEN a.finished_at END} AS last_finished_at,
    (coalesce(CASE WHEN l.id IS NULL THEN a.finished_at END, CASE WHEN l.worker IS NOT NULL THEN ${now} END)
        - coalesce(l.claimed_at, a.started_at)
    ) / 1e6 AS last_duration,
    a.error AS last_error,
    s.runs, s.skipped, s.catch_up, s.overlap, s.jitter,
    ${moment: s.until} AS until,
    s.max_runs, s.pause_after, CASE WHEN s.paused THEN s.reason END AS reason, s.origin,
    CASE WHEN s.origin = 'code' THEN s.declared_at > ${now} - 180000000 END AS in_code,
    ${moment: s.declared_at} AS declared_at,
    s.declared_by,
    ${moment: s.created_at} AS created_at,
    ${moment: s.changed_at} AS changed_at
FROM mutirao_schedule s
LEFT JOIN mutirao_live l ON l.id = s.last_job
LEFT JOIN mutirao_attempt a ON a.job = s.last_job
    AND a.run = (SELECT max(run) FROM mutirao_attempt WHERE job = s.last_job)
--;
-- One row for each limit and key. A worker notes every minute that a limit is in its code.
CREATE VIEW mutirao_limits AS
SELECT
    m.name, m.queue, m.task, m.by,
    coalesce(m.key, CASE WHEN m.by IS NULL THEN '' ELSE c.key END) AS key,
    m.most, m.per, m.burst, m.most = 0 AS paused,
    coalesce(c.running, 0) AS running,
    CASE WHEN m.per IS NOT NULL THEN coalesce(min(
        m.burst, c.tokens + m.most / m.per * max((${now} - c.touched_at) / 1e6, 0)
    ), m.burst) END AS tokens,
    (SELECT count(*) FROM mutirao_parked p WHERE p.counter = c.id) AS parked,
    m.origin,
    CASE WHEN m.origin = 'code' THEN m.declared_at > ${now} - 180000000 END AS in_code,
    ${moment: m.declared_at} AS declared_at,
    m.declared_by,
    ${moment: m.created_at} AS created_at,
    ${moment: m.changed_at} AS changed_at
FROM mutirao_limit m LEFT JOIN mutirao_counter c ON c.name = m.name
--;
-- Where a graph stands: its stage is that of the earliest step that is not over. A step that died is
-- over only where the graph was to go on without it.
CREATE VIEW mutirao_graphs AS
SELECT
    g.id, g.name,
    CASE
        WHEN s.running + s.waiting > 0 THEN 'running'
        WHEN s.blocked > 0 THEN 'stopped'
        WHEN s.failed > 0 THEN 'dead'
        WHEN s.halted > 0 THEN 'cancelled'
        ELSE 'succeeded'
    END AS state,
    (
        SELECT t.stage FROM mutirao_step t
        WHERE t.graph = g.id
          AND (t.outcome IS NULL OR (t.outcome <> 'succeeded' AND t.on_dead <> 'continue'))
        ORDER BY t.depth, t.id LIMIT 1
    ) AS stage,
    s.jobs, s.blocked, s.waiting, s.running, s.succeeded, s.dead, s.cancelled,
    ${moment: g.created_at} AS created_at
FROM mutirao_graph g
JOIN (
    SELECT
        t.graph, count(*) AS jobs,
        count(CASE WHEN l.worker IS NULL AND p.job IS NULL AND l.run_at = ${parked} THEN 1 END)
            AS blocked,
        -- Those that wait for a limit, too: they need no other step to end.
        count(CASE WHEN l.worker IS NULL AND (l.run_at < ${parked} OR p.job IS NOT NULL) THEN 1 END)
            AS waiting,
        count(l.worker) AS running,
        count(CASE WHEN t.outcome = 'succeeded' THEN 1 END) AS succeeded,
        count(CASE WHEN t.outcome = 'dead' THEN 1 END) AS dead,
        count(CASE WHEN t.outcome = 'cancelled' THEN 1 END) AS cancelled,
        count(CASE WHEN t.outcome = 'dead' AND t.on_dead <> 'continue' THEN 1 END) AS failed,
        count(CASE WHEN t.outcome = 'cancelled' AND t.on_dead <> 'continue' THEN 1 END) AS halted
    FROM mutirao_step t LEFT JOIN mutirao_live l ON l.id = t.job
    LEFT JOIN mutirao_parked p ON p.job = l.id
    GROUP BY t.graph
) s ON s.graph = g.id
