-- For people and their tools: the columns stay as docs/sql.md says.

-- Whether an argument has a value: a text, a number, true, false or null, as JSON. Other programs may write
-- what is no text here (a NUL, half a character): such a job is not found by its arguments.
CREATE FUNCTION mutirao_has_argument(_args json, _name text, _value json)
RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN strpos(_args::text, '\u') > 0 AND regexp_replace(
        replace(_args::text, '\\', ''),
        '\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}', '', 'g'
    ) ~ '\\u(0000|[dD][89a-fA-F])' THEN false
    WHEN json_typeof(_args -> _name) IS DISTINCT FROM json_typeof(_value) THEN false
    WHEN json_typeof(_value) <> 'number'
        THEN (_args ->> _name) IS NOT DISTINCT FROM (_value #>> '{}')
    WHEN length(_args ->> _name) < 300 AND (_args ->> _name) ~ '^[-\d.]+([eE][-+]?\d{1,3})?$'
        THEN (_args ->> _name)::numeric = (_value #>> '{}')::numeric
    ELSE false
END
--;
-- Each branch of a union is one plain table without conditions, which are a column (`counts`) that is
-- asked for outside: only so does the planner look into each by index, for an id, for a state, and in the
-- order asked for. Which states a branch has is among its conditions, so that a search for another one
-- skips it; that takes constants, and a time that the planner takes for one, hence the SELECT around it.
-- By `+ 0` it cannot read jobs in their order beside attempts, past all that are live; the other two
-- conditions find a job's state by index all the same.
CREATE VIEW mutirao_jobs AS
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
    j.fingerprint, j.tenant, j."group"
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
--;
-- One row for each attempt that has ended. What a handler said last stays with the run that said it.
CREATE VIEW mutirao_attempts AS
SELECT
    a.job, a.run, a.attempt, j.task, j.queue, a.outcome, a.started_at, a.finished_at,
    extract(epoch FROM a.finished_at - a.started_at)::float8 AS duration,
    a.worker, a.error_type, a.error,
    CASE WHEN a.error IS NOT NULL THEN left(split_part(a.error, E'\n', 1), 200) ELSE (
        SELECT p.note FROM mutirao_progress p WHERE p.job = a.job AND p.run = a.run
    ) END AS message,
    CASE WHEN a.outcome = 'succeeded' THEN (
        SELECT r.value::json FROM mutirao_result r
        WHERE r.job = a.job AND (r.expires_at IS NULL OR r.expires_at > statement_timestamp())
    ) END AS result,
    j.tenant, j."group"
FROM mutirao_attempt a JOIN mutirao_job j ON j.id = a.job
--;
-- What is not added up yet is read by index: of attempts, what has finished since, and what came late. An
-- upper bound and a limit let the planner expect few of what it knows no number of: a hundred, and not
-- millions, for which it would compile the query. OFFSET 0 lets it look jobs up one by one.
-- Live jobs are counted, unless they were too many and have been counted lately.
CREATE VIEW mutirao_queues AS
SELECT
    ltrim(queue, E'\x1d\x1f') AS queue, state, sum(jobs)::bigint AS jobs,
    extract(epoch FROM statement_timestamp() - min(since))::float8 AS oldest_age,
    coalesce(min(counted_at), statement_timestamp()) AS counted_at
FROM (
    SELECT queue, state, jobs, since, counted_at
    FROM mutirao_backlog WHERE counted_at > statement_timestamp() - interval '3 minutes'
    UNION ALL
    SELECT queue, 'running'::text, count(*), min(claimed_at), NULL::timestamptz
    FROM (
        SELECT queue, claimed_at FROM mutirao_live
        WHERE worker IS NOT NULL AND NOT EXISTS (
            SELECT FROM mutirao_backlog WHERE counted_at > statement_timestamp() - interval '3 minutes'
        ) LIMIT (SELECT 1000000000000)
    ) running GROUP BY queue
    UNION ALL
    SELECT queue, 'ready', count(*), min(run_at), NULL
    FROM (
        SELECT queue, run_at FROM mutirao_live
        WHERE worker IS NULL AND run_at <= statement_timestamp() AND NOT EXISTS (
            SELECT FROM mutirao_backlog WHERE counted_at > statement_timestamp() - interval '3 minutes'
        )
        LIMIT (SELECT 1000000000000)
    ) due GROUP BY queue HAVING ltrim(queue, E'\x1d\x1f') <> ALL(ARRAY(
        SELECT m.queue FROM mutirao_limit m WHERE m.most = 0 AND m.by IS NULL AND m.queue <> ''
    ))
    UNION ALL
    SELECT queue, 'blocked', count(*), min(run_at), NULL
    FROM (
        SELECT queue, run_at FROM mutirao_live
        WHERE worker IS NULL AND run_at <= statement_timestamp() AND EXISTS (
            SELECT FROM mutirao_limit m WHERE m.most = 0 AND m.by IS NULL AND m.queue <> ''
        ) AND NOT EXISTS (
            SELECT FROM mutirao_backlog WHERE counted_at > statement_timestamp() - interval '3 minutes'
        )
        LIMIT (SELECT 1000000000000)
    ) due GROUP BY queue HAVING ltrim(queue, E'\x1d\x1f') = ANY(ARRAY(
        SELECT m.queue FROM mutirao_limit m WHERE m.most = 0 AND m.by IS NULL AND m.queue <> ''
    ))
    UNION ALL
    SELECT queue, 'scheduled', count(*), (SELECT enqueued_at FROM mutirao_job WHERE id = min(ahead.id)), NULL
    FROM (
        SELECT queue, id FROM mutirao_live
        WHERE worker IS NULL AND run_at > statement_timestamp() AND run_at <> ${parked}
          AND NOT EXISTS (
            SELECT FROM mutirao_backlog WHERE counted_at > statement_timestamp() - interval '3 minutes'
        ) LIMIT (SELECT 1000000000000)
    ) ahead GROUP BY queue
    UNION ALL
    SELECT queue, 'blocked', count(*), least(min(since), (
        SELECT enqueued_at FROM mutirao_job WHERE id = min(parked.id) FILTER (WHERE since IS NULL)
    )), NULL
    FROM (
        SELECT l.queue, l.id, p.run_at AS since FROM mutirao_live l LEFT JOIN mutirao_parked p ON p.job = l.id
        WHERE l.worker IS NULL AND l.run_at = ${parked} AND NOT EXISTS (
            SELECT FROM mutirao_backlog WHERE counted_at > statement_timestamp() - interval '3 minutes'
        )
        LIMIT (SELECT 1000000000000)
    ) parked GROUP BY queue
    UNION ALL
    SELECT queue, outcome, sum(jobs), min(hour) FILTER (WHERE jobs > 0), NULL
    FROM mutirao_kept GROUP BY queue, outcome HAVING sum(jobs) > 0
    UNION ALL
    SELECT j.queue, e.outcome, count(*), min(e.finished_at), NULL
    FROM (
        (SELECT job, outcome, finished_at FROM mutirao_attempt
         WHERE outcome = ANY('{succeeded,dead,cancelled}')
           AND finished_at >= coalesce((SELECT until FROM mutirao_rolled), '-infinity')
           AND finished_at <= 'infinity' AND came_late IS NULL
         LIMIT (SELECT 1000000000000))
        UNION ALL
        SELECT job, outcome, finished_at FROM mutirao_attempt
        WHERE came_late AND outcome IN ('succeeded', 'dead', 'cancelled')
    ) e CROSS JOIN LATERAL (SELECT queue FROM mutirao_job WHERE id = e.job OFFSET 0) j
    GROUP BY j.queue, e.outcome
) s
GROUP BY 1, state HAVING sum(jobs) > 0
--;
-- Errors that have occurred since are added to what is known of them; the others are as they stand.
CREATE VIEW mutirao_errors AS
SELECT task, error_type, message, jobs, attempts, first_at, last_at
FROM (
SELECT
    task, nullif(error_type, '') AS error_type, nullif(message, '') AS message, jobs, attempts,
    first_at, last_at, (task, error_type, message) NOT IN (
    SELECT j.task, left(coalesce(e.error_type, ''), 200),
           left(split_part(coalesce(e.error, ''), E'\n', 1), 200)
    FROM (
        (SELECT job, error_type, error FROM mutirao_attempt
         WHERE outcome = ANY('{retried,dead,lost}')
           AND finished_at >= coalesce((SELECT until FROM mutirao_rolled), '-infinity')
           AND finished_at <= 'infinity' AND came_late IS NULL
         LIMIT (SELECT 1000000000000))
        UNION ALL
        SELECT job, error_type, error FROM mutirao_attempt
        WHERE came_late AND outcome = ANY('{retried,dead,lost}')
    ) e CROSS JOIN LATERAL (SELECT task FROM mutirao_job WHERE id = e.job OFFSET 0) j
) AS counts
FROM mutirao_error
UNION ALL
SELECT
    f.task, nullif(f.error_type, ''), nullif(f.message, ''), f.jobs + coalesce(k.jobs, 0),
    f.attempts + coalesce(k.attempts, 0), least(f.first_at, k.first_at),
    greatest(f.last_at, k.last_at), true
FROM (
    SELECT
        j.task, left(coalesce(e.error_type, ''), 200) AS error_type,
        left(split_part(coalesce(e.error, ''), E'\n', 1), 200) AS message,
        count(*) FILTER (WHERE NOT EXISTS (
            SELECT FROM mutirao_attempt b
            WHERE b.job = e.job AND b.run < e.run AND b.outcome IN ('retried', 'dead', 'lost')
              AND left(coalesce(b.error_type, ''), 200) = left(coalesce(e.error_type, ''), 200)
              AND left(split_part(coalesce(b.error, ''), E'\n', 1), 200)
                  = left(split_part(coalesce(e.error, ''), E'\n', 1), 200)
        )) AS jobs, count(*) AS attempts, min(e.finished_at) AS first_at, max(e.finished_at) AS last_at
    FROM (
        (SELECT job, run, error_type, error, finished_at FROM mutirao_attempt
         WHERE outcome = ANY('{retried,dead,lost}')
           AND finished_at >= coalesce((SELECT until FROM mutirao_rolled), '-infinity')
           AND finished_at <= 'infinity' AND came_late IS NULL
         LIMIT (SELECT 1000000000000))
        UNION ALL
        SELECT job, run, error_type, error, finished_at FROM mutirao_attempt
        WHERE came_late AND outcome = ANY('{retried,dead,lost}')
    ) e CROSS JOIN LATERAL (SELECT task FROM mutirao_job WHERE id = e.job OFFSET 0) j
    GROUP BY 1, 2, 3
) f LEFT JOIN mutirao_error k USING (task, error_type, message)
) s WHERE counts
--;
-- Of an hour that has ended, and is added up, all is known. Others are read anew.
CREATE VIEW mutirao_throughput AS
SELECT hour, queue, task, outcome, attempts, mean_duration, p95_duration, p50_duration, p99_duration
FROM (
SELECT
    hour, queue, task, outcome, attempts, seconds / attempts AS mean_duration,
    p95 AS p95_duration, p50 AS p50_duration, p99 AS p99_duration,
    hour < (SELECT date_trunc('hour', until, 'UTC') FROM mutirao_rolled) AND hour NOT IN (
        SELECT date_trunc('hour', finished_at, 'UTC') FROM mutirao_attempt WHERE came_late
    ) AS counts
FROM mutirao_hour
UNION ALL
SELECT
    hour, queue, task, outcome, attempts::bigint, sum(seconds) / attempts::float8,
    min(about) FILTER (WHERE place >= attempts * 0.95),
    min(about) FILTER (WHERE place >= attempts * 0.5),
    min(about) FILTER (WHERE place >= attempts * 0.99), true
FROM (
    SELECT
        hour, queue, task, outcome, about::float8 AS about, sum(seconds) AS seconds,
        sum(sum(number)) OVER (each ORDER BY about::float8) AS place,
        sum(sum(number)) OVER each AS attempts
    FROM (
        SELECT h.hour, h.queue, h.task, h.outcome, d.about, d.number, d.seconds
        FROM (
            (SELECT * FROM mutirao_hour
             WHERE hour >= (SELECT date_trunc('hour', until, 'UTC') FROM mutirao_rolled) AND hour <= 'infinity'
             LIMIT (SELECT 1000000000000))
            UNION ALL
            SELECT * FROM mutirao_hour
            WHERE hour < (SELECT date_trunc('hour', until, 'UTC') FROM mutirao_rolled) AND hour = ANY(ARRAY(
                SELECT date_trunc('hour', finished_at, 'UTC') FROM mutirao_attempt WHERE came_late
            ))
        ) h CROSS JOIN LATERAL (
            SELECT key AS about, value::bigint AS number, 0::float8 AS seconds FROM json_each_text(h.durations)
            UNION ALL
            SELECT '0', 0, h.seconds
        ) d
        UNION ALL
        SELECT date_trunc('hour', e.finished_at, 'UTC'), j.queue, j.task, e.outcome,
               ltrim(to_char(e.seconds, '9.9EEEE')), 1, e.seconds
        FROM (
            SELECT *, greatest(extract(epoch FROM finished_at - started_at)::float8, 0) AS seconds
            FROM (
                (SELECT job, outcome, started_at, finished_at FROM mutirao_attempt
                 WHERE outcome = ANY('{succeeded,retried,snoozed,dead,cancelled,lost,released}')
                   AND finished_at >= coalesce((SELECT until FROM mutirao_rolled), '-infinity')
                   AND finished_at <= 'infinity' AND came_late IS NULL
                 LIMIT (SELECT 1000000000000))
                UNION ALL
                SELECT job, outcome, started_at, finished_at FROM mutirao_attempt
                WHERE came_late AND outcome = ANY('{succeeded,retried,snoozed,dead,cancelled,lost,released}')
            ) o
        ) e CROSS JOIN LATERAL (SELECT queue, task FROM mutirao_job WHERE id = e.job OFFSET 0) j
    ) together GROUP BY hour, queue, task, outcome, about::float8
    WINDOW each AS (PARTITION BY hour, queue, task, outcome)
) placed GROUP BY hour, queue, task, outcome, attempts
) s WHERE counts
--;
CREATE VIEW mutirao_workers AS
SELECT
    w.id, w.name, w.host, w.pid, w.queues, w.exclude_queues, w.tasks, w.concurrency, w.version,
    w.app_version, w.started_at, w.beat_at, w.expires_at, w.expires_at > statement_timestamp() AS alive, w.listening, w.stuck, w.late,
    coalesce(l.running, 0) AS running, coalesce(l.jobs, '[]') AS jobs
FROM mutirao_worker w
LEFT JOIN (
    SELECT worker, count(*) AS running, json_agg(id ORDER BY id) AS jobs
    FROM mutirao_live WHERE worker IS NOT NULL GROUP BY worker
) l ON l.worker = w.id
--;
-- A worker notes every minute that a schedule is in its code.
CREATE VIEW mutirao_schedules AS
SELECT
    s.name, s.task, s.args::json AS args, s.queue, s.cron, s.every, s.timezone,
    CASE
        WHEN s.next_at IS NULL AND NOT s.awaiting THEN 'finished'
        WHEN s.paused THEN 'paused'
        WHEN s.awaiting THEN 'awaiting'
        ELSE 'active'
    END AS status,
    s.next_at AS next_at,
    s.last_tick AS last_tick,
    s.last_job,
    CASE
        WHEN l.worker IS NOT NULL THEN 'running'
        WHEN l.run_at = ${parked} THEN 'blocked'
        WHEN l.run_at > statement_timestamp() THEN 'scheduled'
        WHEN l.id IS NOT NULL THEN 'ready'
        ELSE a.outcome
    END AS last_state,
    coalesce(l.claimed_at, a.started_at) AS last_started_at,
    CASE WHEN l.id IS NULL THEN a.finished_at END AS last_finished_at,
    extract(epoch FROM
        coalesce(CASE WHEN l.id IS NULL THEN a.finished_at END, CASE WHEN l.worker IS NOT NULL THEN statement_timestamp() END)
        - coalesce(l.claimed_at, a.started_at)
    )::float8 AS last_duration,
    a.error AS last_error,
    s.runs, s.skipped, s.catch_up, s.overlap, s.jitter,
    s.until AS until,
    s.max_runs, s.pause_after, CASE WHEN s.paused THEN s.reason END AS reason, s.origin,
    CASE WHEN s.origin = 'code' THEN s.declared_at > statement_timestamp() - interval '3 minutes' END AS in_code,
    s.declared_at AS declared_at,
    s.declared_by,
    s.created_at AS created_at,
    s.changed_at AS changed_at
FROM mutirao_schedule s
LEFT JOIN mutirao_live l ON l.id = s.last_job
LEFT JOIN mutirao_attempt a ON a.job = s.last_job
    AND a.run = (SELECT max(run) FROM mutirao_attempt WHERE job = s.last_job)
--;
-- One row for each limit and key. A worker notes every minute that a limit is in its code.
CREATE VIEW mutirao_limits AS
SELECT
    m.name, m.queue, m.task, m.by, coalesce(m.key, CASE WHEN m.by IS NULL THEN '' ELSE c.key END) AS key,
    m.most, m.per, m.burst, m.most = 0 AS paused,
    coalesce(c.running, 0) AS running,
    CASE WHEN m.per IS NOT NULL THEN
        coalesce(mutirao_room(c, m, statement_timestamp()), m.burst)
    END AS tokens,
    (SELECT count(*) FROM mutirao_parked p WHERE p.counter = c.id) AS parked,
    m.origin,
    CASE WHEN m.origin = 'code' THEN m.declared_at > statement_timestamp() - interval '3 minutes' END
        AS in_code,
    m.declared_at, m.declared_by, m.created_at, m.changed_at
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
    g.created_at
FROM mutirao_graph g
CROSS JOIN LATERAL (
    SELECT
        count(*) AS jobs,
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
    WHERE t.graph = g.id
) s
