-- A graph of jobs, named by the id of its first one. Its row is the lock: whatever changes how its steps
-- stand holds it, before any row of a live job.
CREATE TABLE mutirao_graph (
    id integer PRIMARY KEY,
    name text CHECK (length(name) BETWEEN 1 AND 200),
    -- How many steps have not ended.
    unfinished integer NOT NULL,
    -- Nothing more is started, because a step that asks for compensation has failed.
    undoing integer NOT NULL DEFAULT 0,
    created_at integer NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000)
)
--;
-- A job's place in a graph. `id` is that of the job that had the place first, `job` the one that has it
-- now: they differ once a dead step was redriven.
CREATE TABLE mutirao_step (
    id integer PRIMARY KEY,
    job integer NOT NULL,
    graph integer NOT NULL,
    depth integer NOT NULL,
    stage text NOT NULL,
    on_dead text NOT NULL CHECK (on_dead IN ('stop', 'continue', 'compensate')),
    -- The gate that it waits at, and how the step ended; NULL: it waits for nothing, it has not.
    gate integer,
    outcome text,
    -- JSON: the steps whose results are its arguments; the job that undoes it.
    needs text,
    compensate text
)
--;
CREATE UNIQUE INDEX mutirao_step_job ON mutirao_step (job)
--;
CREATE INDEX mutirao_step_graph ON mutirao_step (graph)
--;
CREATE INDEX mutirao_step_gate ON mutirao_step (gate) WHERE gate IS NOT NULL
--;
-- What steps wait at: so many steps have to end first. Named by the first that waits there.
CREATE TABLE mutirao_gate (
    id integer PRIMARY KEY,
    unfinished integer NOT NULL
)
--;
-- Which steps lead to which gates.
CREATE TABLE mutirao_edge (
    step integer NOT NULL,
    gate integer NOT NULL,
    PRIMARY KEY (step, gate)
) WITHOUT ROWID
--;
CREATE INDEX mutirao_edge_gate ON mutirao_edge (gate)
--;
-- What handlers returned, as JSON, where somebody asked to keep it.
CREATE TABLE mutirao_result (
    job integer PRIMARY KEY,
    value text NOT NULL,
    expires_at integer
)
--;
CREATE INDEX mutirao_result_expires ON mutirao_result (expires_at) WHERE expires_at IS NOT NULL
--;
-- How far attempts have come, by what their handlers told last.
CREATE TABLE mutirao_progress (
    job integer PRIMARY KEY,
    run integer NOT NULL,
    done real NOT NULL,
    total real,
    note text,
    told_at integer NOT NULL
)
--;
-- Nobody writes here: who waits for the end of a job sees that the file has changed.
CREATE TABLE mutirao_waiter (
    job integer PRIMARY KEY
)
--;
DROP VIEW mutirao_jobs
--;
CREATE VIEW mutirao_jobs AS
SELECT
    l.id, j.task, j.queue, j.priority, CAST('running' AS text) AS state,
    l.attempt, j.max_attempts, j.timeout,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', l.run_at / 1000000, 'unixepoch') || printf('.%06dZ', l.run_at % 1000000) AS text) AS run_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', j.enqueued_at / 1000000, 'unixepoch') || printf('.%06dZ', j.enqueued_at % 1000000) AS text) AS enqueued_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', l.claimed_at / 1000000, 'unixepoch') || printf('.%06dZ', l.claimed_at % 1000000) AS text) AS started_at,
    CAST(NULL AS text) AS finished_at,
    CAST(((CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) - l.claimed_at) / 1e6 AS real) AS duration,
    l.worker, l.run,
    (
        SELECT a.error_type FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error_type,
    (
        SELECT a.error FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error,
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = l.id) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = l.id) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = l.id) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = l.id) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = l.id) AS progress_note
FROM mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NOT NULL
UNION ALL
SELECT
    l.id, j.task, j.queue, j.priority, CAST('ready' AS text) AS state,
    l.attempt, j.max_attempts, j.timeout,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', l.run_at / 1000000, 'unixepoch') || printf('.%06dZ', l.run_at % 1000000) AS text) AS run_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', j.enqueued_at / 1000000, 'unixepoch') || printf('.%06dZ', j.enqueued_at % 1000000) AS text) AS enqueued_at,
    CAST(NULL AS text) AS started_at,
    CAST(NULL AS text) AS finished_at,
    CAST(NULL AS real) AS duration,
    l.worker, l.run,
    (
        SELECT a.error_type FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error_type,
    (
        SELECT a.error FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error,
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = l.id) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = l.id) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = l.id) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = l.id) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = l.id) AS progress_note
FROM mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NULL AND l.run_at <= (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) AND ltrim(l.queue, char(31)) NOT IN (SELECT m.queue FROM mutirao_limit m WHERE m.queue IS NOT NULL AND m.most = 0 AND m.by IS NULL)
UNION ALL
SELECT
    l.id, j.task, j.queue, j.priority, CAST('blocked' AS text) AS state,
    l.attempt, j.max_attempts, j.timeout,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', l.run_at / 1000000, 'unixepoch') || printf('.%06dZ', l.run_at % 1000000) AS text) AS run_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', j.enqueued_at / 1000000, 'unixepoch') || printf('.%06dZ', j.enqueued_at % 1000000) AS text) AS enqueued_at,
    CAST(NULL AS text) AS started_at,
    CAST(NULL AS text) AS finished_at,
    CAST(NULL AS real) AS duration,
    l.worker, l.run,
    (
        SELECT a.error_type FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error_type,
    (
        SELECT a.error FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error,
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = l.id) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = l.id) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = l.id) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = l.id) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = l.id) AS progress_note
FROM mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NULL AND l.run_at <= (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) AND ltrim(l.queue, char(31)) IN (SELECT m.queue FROM mutirao_limit m WHERE m.queue IS NOT NULL AND m.most = 0 AND m.by IS NULL)
UNION ALL
SELECT
    l.id, j.task, j.queue, j.priority, CAST('scheduled' AS text) AS state,
    l.attempt, j.max_attempts, j.timeout,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', l.run_at / 1000000, 'unixepoch') || printf('.%06dZ', l.run_at % 1000000) AS text) AS run_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', j.enqueued_at / 1000000, 'unixepoch') || printf('.%06dZ', j.enqueued_at % 1000000) AS text) AS enqueued_at,
    CAST(NULL AS text) AS started_at,
    CAST(NULL AS text) AS finished_at,
    CAST(NULL AS real) AS duration,
    l.worker, l.run,
    (
        SELECT a.error_type FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error_type,
    (
        SELECT a.error FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error,
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = l.id) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = l.id) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = l.id) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = l.id) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = l.id) AS progress_note
FROM mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NULL AND l.run_at > (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) AND l.run_at < 253383724800000000
UNION ALL
SELECT
    l.id, j.task, j.queue, j.priority, CAST('blocked' AS text) AS state,
    l.attempt, j.max_attempts, j.timeout,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', coalesce((SELECT p.run_at FROM mutirao_parked p WHERE p.job = l.id), l.run_at) / 1000000, 'unixepoch') || printf('.%06dZ', coalesce((SELECT p.run_at FROM mutirao_parked p WHERE p.job = l.id), l.run_at) % 1000000) AS text) AS run_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', j.enqueued_at / 1000000, 'unixepoch') || printf('.%06dZ', j.enqueued_at % 1000000) AS text) AS enqueued_at,
    CAST(NULL AS text) AS started_at,
    CAST(NULL AS text) AS finished_at,
    CAST(NULL AS real) AS duration,
    l.worker, l.run,
    (
        SELECT a.error_type FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error_type,
    (
        SELECT a.error FROM mutirao_attempt a
        WHERE a.job = l.id AND a.error_type IS NOT NULL ORDER BY a.run DESC LIMIT 1
    ) AS error,
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = l.id) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = l.id) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = l.id) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = l.id) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = l.id) AS progress_note
FROM mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NULL AND l.run_at >= 253383724800000000
UNION ALL
SELECT
    a.job AS id, j.task, j.queue, j.priority, CAST('succeeded' AS text) AS state,
    a.attempt, j.max_attempts, j.timeout,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', j.run_at / 1000000, 'unixepoch') || printf('.%06dZ', j.run_at % 1000000) AS text) AS run_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', j.enqueued_at / 1000000, 'unixepoch') || printf('.%06dZ', j.enqueued_at % 1000000) AS text) AS enqueued_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', a.started_at / 1000000, 'unixepoch') || printf('.%06dZ', a.started_at % 1000000) AS text) AS started_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', a.finished_at / 1000000, 'unixepoch') || printf('.%06dZ', a.finished_at % 1000000) AS text) AS finished_at,
    CAST((a.finished_at - a.started_at) / 1e6 AS real) AS duration,
    a.worker, a.run, a.error_type, a.error,
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = a.job) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = a.job) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = a.job) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = a.job) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = a.job) AS progress_note
FROM mutirao_attempt a CROSS JOIN mutirao_job j ON j.id = a.job
WHERE +a.outcome = 'succeeded'
UNION ALL
SELECT
    a.job AS id, j.task, j.queue, j.priority, a.outcome AS state,
    a.attempt, j.max_attempts, j.timeout,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', j.run_at / 1000000, 'unixepoch') || printf('.%06dZ', j.run_at % 1000000) AS text) AS run_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', j.enqueued_at / 1000000, 'unixepoch') || printf('.%06dZ', j.enqueued_at % 1000000) AS text) AS enqueued_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', a.started_at / 1000000, 'unixepoch') || printf('.%06dZ', a.started_at % 1000000) AS text) AS started_at,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', a.finished_at / 1000000, 'unixepoch') || printf('.%06dZ', a.finished_at % 1000000) AS text) AS finished_at,
    CAST((a.finished_at - a.started_at) / 1e6 AS real) AS duration,
    a.worker, a.run, a.error_type, a.error,
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of,
    (SELECT graph FROM mutirao_step WHERE job = a.job) AS graph,
    (SELECT stage FROM mutirao_step WHERE job = a.job) AS stage,
    (SELECT done FROM mutirao_progress WHERE job = a.job) AS progress,
    (SELECT total FROM mutirao_progress WHERE job = a.job) AS progress_of,
    (SELECT note FROM mutirao_progress WHERE job = a.job) AS progress_note
FROM mutirao_attempt a CROSS JOIN mutirao_job j ON j.id = a.job
WHERE a.outcome IN ('dead', 'cancelled')
--;
DROP VIEW mutirao_queues
--;
CREATE VIEW mutirao_queues AS
SELECT ltrim(queue, char(31)) AS queue, state, count(*) AS jobs, ((CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) - min(since)) / 1e6 AS oldest_age
FROM (
    SELECT queue, CAST('running' AS text) AS state, claimed_at AS since
    FROM mutirao_live WHERE worker IS NOT NULL
    UNION ALL
    SELECT l.queue, CASE WHEN ltrim(l.queue, char(31)) IN (SELECT m.queue FROM mutirao_limit m WHERE m.queue IS NOT NULL AND m.most = 0 AND m.by IS NULL) THEN 'blocked' ELSE 'ready' END, l.run_at
    FROM mutirao_live l WHERE l.worker IS NULL AND l.run_at <= (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999)
    UNION ALL
    SELECT l.queue, CAST('scheduled' AS text), j.enqueued_at
    FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
    WHERE l.worker IS NULL AND l.run_at > (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) AND l.run_at < 253383724800000000
    UNION ALL
    SELECT l.queue, CAST('blocked' AS text), coalesce(p.run_at, j.enqueued_at)
    FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
    LEFT JOIN mutirao_parked p ON p.job = l.id
    WHERE l.worker IS NULL AND l.run_at = 253383724800000000
    UNION ALL
    SELECT j.queue, a.outcome, a.finished_at
    FROM mutirao_attempt a JOIN mutirao_job j ON j.id = a.job
    WHERE a.outcome IN ('succeeded', 'dead', 'cancelled')
)
GROUP BY 1, state
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
    strftime('%Y-%m-%dT%H:%M:%S', g.created_at / 1000000, 'unixepoch') || printf('.%06dZ', g.created_at % 1000000) AS created_at
FROM mutirao_graph g
JOIN (
    SELECT
        t.graph, count(*) AS jobs,
        count(CASE WHEN l.worker IS NULL AND p.job IS NULL AND l.run_at = 253383724800000000 THEN 1 END)
            AS blocked,
        -- Those that wait for a limit, too: they need no other step to end.
        count(CASE WHEN l.worker IS NULL AND (l.run_at < 253383724800000000 OR p.job IS NOT NULL) THEN 1 END)
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
