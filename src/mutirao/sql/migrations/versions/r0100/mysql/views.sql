-- For people and their tools: the columns stay as docs/sql.md says. Times are datetime(6), in UTC.

-- The queues of which nothing may run.
--: paused_queues
SELECT m.queue FROM mutirao_limit m WHERE m.queue IS NOT NULL AND m.most = 0 AND m.`by` IS NULL
--;
-- The queue of a lane.
--: queue_of
trim(LEADING char(31 USING utf8mb4) FROM trim(LEADING char(29 USING utf8mb4) FROM queue))
--;
-- What a job's row says of it in every state.
--: rest_of_job id
    j.args, j.`key`, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = ${id}) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = ${id}) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = ${id}) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = ${id}) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = ${id}) AS progress_note, j.fingerprint,
    j.tenant, j.`group`
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
    NULL, NULL, j.fingerprint, j.tenant, j.`group`
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
--;
-- One row for each attempt that has ended. What a handler said last stays with the run that said it.
CREATE OR REPLACE VIEW mutirao_attempts AS
SELECT
    a.job, a.run, a.attempt, j.task, j.queue, a.outcome,
    ${epoch} + INTERVAL a.started_at MICROSECOND AS started_at,
    ${epoch} + INTERVAL a.finished_at MICROSECOND AS finished_at,
    (a.finished_at - a.started_at) / 1e6 AS duration,
    a.worker, a.error_type, a.error,
    CASE WHEN a.error IS NOT NULL THEN left(substring_index(a.error, '\n', 1), 200)
        ELSE (SELECT p.note FROM mutirao_progress p WHERE p.job = a.job AND p.run = a.run)
    END AS message,
    CASE WHEN a.outcome = 'succeeded' THEN (
        SELECT r.value FROM mutirao_result r
        WHERE r.job = a.job AND (r.expires_at IS NULL OR r.expires_at > ${now})
    ) END AS result,
    j.tenant, j.`group`
FROM mutirao_attempt a JOIN mutirao_job j ON j.id = a.job
--;
-- What is not added up yet is read by index: of attempts, what has finished since, and what came late.
-- Live jobs are counted, unless they were too many and have been counted lately.
CREATE OR REPLACE VIEW mutirao_queues AS
SELECT
    ${queue_of} AS queue, state, CAST(sum(jobs) AS signed) AS jobs,
    (${now} - min(since)) / 1e6 AS oldest_age,
    ${epoch} + INTERVAL coalesce(min(counted_at), ${now}) MICROSECOND AS counted_at
FROM (
    SELECT queue, state, jobs, since, counted_at
    FROM mutirao_backlog WHERE counted_at > ${now} - 180000000
    UNION ALL
    SELECT queue, 'running', count(*), min(claimed_at), NULL
    FROM mutirao_live WHERE worker IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM mutirao_backlog WHERE counted_at > ${now} - 180000000)
    GROUP BY queue
    UNION ALL
    SELECT queue, if(${queue_of} IN (${paused_queues}), 'blocked', 'ready'), count(*), min(run_at), NULL
    FROM mutirao_live WHERE worker IS NULL AND run_at <= ${now}
      AND NOT EXISTS (SELECT 1 FROM mutirao_backlog WHERE counted_at > ${now} - 180000000)
    GROUP BY queue
    UNION ALL
    SELECT queue, if(run_at > ${now}, 'scheduled', 'ready'), 1, least(run_at, enqueued_at), NULL
    FROM mutirao_job FORCE INDEX (mutirao_job_unplaced) WHERE unplaced = true
    UNION ALL
    SELECT queue, 'scheduled', jobs, (SELECT enqueued_at FROM mutirao_job WHERE id = first), NULL
    FROM (
        SELECT queue, count(*) AS jobs, min(id) AS first
        FROM mutirao_live WHERE worker IS NULL AND run_at > ${now} AND run_at < ${parked}
          AND NOT EXISTS (SELECT 1 FROM mutirao_backlog WHERE counted_at > ${now} - 180000000)
        GROUP BY queue
    ) ahead
    UNION ALL
    SELECT queue, 'blocked', jobs, least(
        ifnull(since, ${parked}),
        ifnull((SELECT enqueued_at FROM mutirao_job WHERE id = first), ${parked})
    ), NULL
    FROM (
        SELECT l.queue, count(*) AS jobs, min(p.run_at) AS since,
               min(CASE WHEN p.job IS NULL THEN l.id END) AS first
        FROM mutirao_live l LEFT JOIN mutirao_parked p ON p.job = l.id
        WHERE l.worker IS NULL AND l.run_at = ${parked}
          AND NOT EXISTS (SELECT 1 FROM mutirao_backlog WHERE counted_at > ${now} - 180000000)
        GROUP BY l.queue
    ) blocked
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
        WHERE came_late AND outcome IN ('succeeded', 'dead', 'cancelled')
    ) e JOIN mutirao_job j ON j.id = e.job
    GROUP BY j.queue, e.outcome
) counted
GROUP BY 1, state HAVING sum(jobs) > 0
--;
-- Errors that have occurred since are added to what is known of them; the others are as they stand.
CREATE OR REPLACE VIEW mutirao_errors AS
SELECT
    task, nullif(error_type, '') AS error_type, nullif(message, '') AS message,
    CAST(sum(jobs) AS signed) AS jobs, CAST(sum(attempts) AS signed) AS attempts,
    min(first_at) AS first_at, max(last_at) AS last_at
FROM (
    SELECT task, error_type, message, jobs, attempts, first_at, last_at FROM mutirao_error
    UNION ALL
    SELECT
        task, error_type, message, sum(NOT EXISTS (
            SELECT 1 FROM mutirao_attempt b
            WHERE b.job = o.job AND b.run < o.run AND b.outcome IN ('retried', 'dead', 'lost')
              AND left(ifnull(b.error_type, ''), 200) = o.error_type
              AND ifnull(left(substring_index(b.error, '\n', 1), 200), '') = o.message
        )), count(*),
        ${epoch} + INTERVAL min(finished_at) MICROSECOND,
        ${epoch} + INTERVAL max(finished_at) MICROSECOND
    FROM (
        SELECT j.task, e.job, e.run, e.finished_at, left(ifnull(e.error_type, ''), 200) AS error_type,
               ifnull(left(substring_index(e.error, '\n', 1), 200), '') AS message
        FROM (
            SELECT job, run, error_type, error, finished_at FROM mutirao_attempt
            WHERE outcome IN ('retried', 'dead', 'lost') AND came_late IS NULL
              AND finished_at >= ifnull((SELECT until FROM mutirao_rolled), -9223372036854775808)
            UNION ALL
            SELECT job, run, error_type, error, finished_at FROM mutirao_attempt
            WHERE came_late AND outcome IN ('retried', 'dead', 'lost')
        ) e JOIN mutirao_job j ON j.id = e.job
    ) o GROUP BY task, error_type, message
) known GROUP BY task, known.error_type, known.message
--;
-- Of an hour that has ended, and is added up, all is known. Others are read anew.
CREATE OR REPLACE VIEW mutirao_throughput AS
SELECT
    hour, queue, task, outcome, attempts, seconds / attempts AS mean_duration,
    p95 AS p95_duration, p50 AS p50_duration, p99 AS p99_duration
FROM mutirao_hour
WHERE hour < (SELECT ${epoch} + INTERVAL until - until MOD 3600000000 MICROSECOND FROM mutirao_rolled)
  AND hour NOT IN (SELECT ${epoch} + INTERVAL finished_at - finished_at MOD 3600000000 MICROSECOND FROM mutirao_attempt WHERE came_late)
UNION ALL
SELECT
    hour, queue, task, outcome, CAST(attempts AS signed), sum(seconds) / attempts,
    min(CASE WHEN place >= attempts * 0.95 THEN about END),
    min(CASE WHEN place >= attempts * 0.5 THEN about END),
    min(CASE WHEN place >= attempts * 0.99 THEN about END)
FROM (
    SELECT
        hour, queue, task, outcome, about, seconds,
        sum(number) OVER (PARTITION BY hour, queue, task, outcome ORDER BY about) AS place,
        sum(number) OVER (PARTITION BY hour, queue, task, outcome) AS attempts
    FROM (
        SELECT hour, queue, task, outcome, about, sum(number) AS number, sum(seconds) AS seconds
        FROM (
            SELECT h.hour, h.queue, h.task, h.outcome, CAST(d.about AS double) AS about,
                   CAST(json_extract(h.durations, concat('$."', d.about, '"')) AS signed) AS number,
                   0e0 AS seconds
            FROM mutirao_hour h
            JOIN json_table(json_keys(h.durations), '$[*]' COLUMNS (about varchar(20) PATH '$')) d
            WHERE h.hour >= (SELECT ${epoch} + INTERVAL until - until MOD 3600000000 MICROSECOND FROM mutirao_rolled)
               OR h.hour IN (SELECT ${epoch} + INTERVAL finished_at - finished_at MOD 3600000000 MICROSECOND FROM mutirao_attempt WHERE came_late)
            UNION ALL
            SELECT h.hour, h.queue, h.task, h.outcome, 0e0, 0, h.seconds FROM mutirao_hour h
            WHERE h.hour >= (SELECT ${epoch} + INTERVAL until - until MOD 3600000000 MICROSECOND FROM mutirao_rolled)
               OR h.hour IN (SELECT ${epoch} + INTERVAL finished_at - finished_at MOD 3600000000 MICROSECOND FROM mutirao_attempt WHERE came_late)
            UNION ALL
            SELECT
                ${epoch} + INTERVAL e.finished_at - e.finished_at MOD 3600000000 MICROSECOND,
                j.queue, j.task, e.outcome,
                if(e.finished_at > e.started_at, round(
                    (e.finished_at - e.started_at) / 1e6,
                    1 - floor(log10((e.finished_at - e.started_at) / 1e6))
                ), 0e0), 1, greatest(e.finished_at - e.started_at, 0) / 1e6
            FROM (
                SELECT job, outcome, started_at, finished_at FROM mutirao_attempt
                WHERE outcome IN ('succeeded', 'retried', 'snoozed', 'dead', 'cancelled', 'lost', 'released') AND came_late IS NULL
                  AND finished_at >= ifnull((SELECT until FROM mutirao_rolled), -9223372036854775808)
                UNION ALL
                SELECT job, outcome, started_at, finished_at FROM mutirao_attempt
                WHERE came_late AND outcome IN ('succeeded', 'retried', 'snoozed', 'dead', 'cancelled', 'lost', 'released')
            ) e JOIN mutirao_job j ON j.id = e.job
        ) every GROUP BY hour, queue, task, outcome, about
    ) durations
) placed GROUP BY hour, queue, task, outcome, attempts
--;
CREATE OR REPLACE VIEW mutirao_workers AS
SELECT
    w.id, w.name, w.host, w.pid, w.queues, w.exclude_queues, w.tasks, w.concurrency, w.version,
    w.app_version,
    ${epoch} + INTERVAL w.started_at MICROSECOND AS started_at,
    ${epoch} + INTERVAL w.beat_at MICROSECOND AS beat_at,
    ${epoch} + INTERVAL w.expires_at MICROSECOND AS expires_at,
    w.expires_at > ${now} AS alive, w.listening, w.stuck, w.late,
    (SELECT count(*) FROM mutirao_live WHERE worker = w.id) AS running,
    coalesce((
        SELECT CAST(/*M! json_arrayagg(id ORDER BY id) */ /*!80000 json_arrayagg(id) */ AS char)
        FROM mutirao_live WHERE worker = w.id
    ), '[]') AS jobs
FROM mutirao_worker w
--;
-- A worker notes every minute that a schedule is in its code.
CREATE OR REPLACE VIEW mutirao_schedules AS
SELECT
    s.name, s.task, s.args AS args, s.queue, s.cron, s.every, s.timezone,
    CASE
        WHEN s.next_at IS NULL AND NOT s.awaiting THEN 'finished'
        WHEN s.paused THEN 'paused'
        WHEN s.awaiting THEN 'awaiting'
        ELSE 'active'
    END ${bytes} AS status,
    ${epoch} + INTERVAL s.next_at MICROSECOND AS next_at,
    ${epoch} + INTERVAL s.last_tick MICROSECOND AS last_tick,
    s.last_job,
    CASE
        WHEN l.worker IS NOT NULL THEN 'running'
        WHEN l.run_at = ${parked} THEN 'blocked'
        WHEN l.run_at > ${now} THEN 'scheduled'
        WHEN l.id IS NOT NULL THEN 'ready'
        ELSE a.outcome
    END AS last_state,
    ${epoch} + INTERVAL coalesce(l.claimed_at, a.started_at) MICROSECOND AS last_started_at,
    ${epoch} + INTERVAL if(l.id IS NULL, a.finished_at, NULL) MICROSECOND AS last_finished_at,
    (
        CASE WHEN l.id IS NULL THEN a.finished_at WHEN l.worker IS NOT NULL THEN ${now} END
        - coalesce(l.claimed_at, a.started_at)
    ) / 1e6 AS last_duration,
    a.error AS last_error,
    s.runs, s.skipped, s.catch_up, s.overlap, s.jitter,
    ${epoch} + INTERVAL s.until MICROSECOND AS until,
    s.max_runs, s.pause_after, CASE WHEN s.paused THEN s.reason END AS reason, s.origin,
    CASE WHEN s.origin = 'code' THEN s.declared_at > ${now} - 180000000 END AS in_code,
    ${epoch} + INTERVAL s.declared_at MICROSECOND AS declared_at,
    s.declared_by,
    ${epoch} + INTERVAL s.created_at MICROSECOND AS created_at,
    ${epoch} + INTERVAL s.changed_at MICROSECOND AS changed_at
FROM mutirao_schedule s
LEFT JOIN mutirao_live l ON l.id = s.last_job
LEFT JOIN mutirao_attempt a ON a.job = s.last_job
    AND a.run = (SELECT max(run) FROM mutirao_attempt WHERE job = s.last_job)
--;
-- One row for each limit and key. A worker notes every minute that a limit is in its code.
CREATE OR REPLACE VIEW mutirao_limits AS
SELECT
    m.name, m.queue, m.task, m.`by`,
    coalesce(m.`key`, CASE WHEN m.`by` IS NULL THEN '' ELSE c.`key` END) AS `key`,
    m.most, m.per, m.burst, m.most = 0 AS paused,
    coalesce(c.running, 0) AS running,
    CASE WHEN m.per IS NOT NULL THEN coalesce(least(
        m.burst, c.tokens + m.most / m.per * greatest((${now} - c.touched_at) / 1e6, 0)
    ), m.burst) END AS tokens,
    (SELECT count(*) FROM mutirao_parked p WHERE p.counter = c.id) AS parked,
    m.origin,
    CASE WHEN m.origin = 'code' THEN m.declared_at > ${now} - 180000000 END AS in_code,
    ${epoch} + INTERVAL m.declared_at MICROSECOND AS declared_at,
    m.declared_by,
    ${epoch} + INTERVAL m.created_at MICROSECOND AS created_at,
    ${epoch} + INTERVAL m.changed_at MICROSECOND AS changed_at
FROM mutirao_limit m LEFT JOIN mutirao_counter c ON c.name = m.name
--;
-- Where a graph stands: its stage is that of the earliest step that is not over. A step that died is
-- over only where the graph was to go on without it.
CREATE OR REPLACE VIEW mutirao_graphs AS
SELECT
    g.id, g.name,
    CASE
        WHEN s.running + s.waiting > 0 THEN 'running'
        WHEN s.blocked > 0 THEN 'stopped'
        WHEN s.failed > 0 THEN 'dead'
        WHEN s.halted > 0 THEN 'cancelled'
        ELSE 'succeeded'
    END ${bytes} AS state,
    (
        SELECT t.stage FROM mutirao_step t
        WHERE t.graph = g.id
          AND (t.outcome IS NULL OR (t.outcome <> 'succeeded' AND t.on_dead <> 'continue'))
        ORDER BY t.depth, t.id LIMIT 1
    ) AS stage,
    s.jobs, s.blocked, s.waiting, s.running, s.succeeded, s.dead, s.cancelled,
    ${epoch} + INTERVAL g.created_at MICROSECOND AS created_at
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
