-- A graph of jobs, named by the id of its first one. Its row is the lock: whatever changes how its steps
-- stand holds it, before any row of a live job.
CREATE TABLE mutirao_graph (
    id bigint PRIMARY KEY,
    name text CHECK (char_length(name) BETWEEN 1 AND 200),
    -- How many steps have not ended.
    unfinished integer NOT NULL,
    -- Nothing more is started, because a step that asks for compensation has failed.
    undoing boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp()
) WITH (fillfactor = 70)
--;
-- A job's place in a graph. `id` is that of the job that had the place first, `job` the one that has it
-- now: they differ once a dead step was redriven.
CREATE TABLE mutirao_step (
    id bigint PRIMARY KEY,
    job bigint NOT NULL,
    graph bigint NOT NULL,
    depth integer NOT NULL,
    stage text NOT NULL,
    on_dead text NOT NULL CHECK (on_dead IN ('stop', 'continue', 'compensate')),
    -- The gate that it waits at, and how the step ended; NULL: it waits for nothing, it has not.
    gate bigint,
    outcome text,
    -- JSON: the steps whose results are its arguments; the job that undoes it.
    needs text,
    compensate text
) WITH (fillfactor = 70)
--;
CREATE UNIQUE INDEX mutirao_step_job ON mutirao_step (job)
--;
CREATE INDEX mutirao_step_graph ON mutirao_step (graph)
--;
CREATE INDEX mutirao_step_gate ON mutirao_step (gate) WHERE gate IS NOT NULL
--;
-- What steps wait at: so many steps have to end first. Named by the first that waits there.
CREATE TABLE mutirao_gate (
    id bigint PRIMARY KEY,
    unfinished integer NOT NULL
) WITH (fillfactor = 50)
--;
-- Which steps lead to which gates.
CREATE TABLE mutirao_edge (
    step bigint NOT NULL,
    gate bigint NOT NULL,
    PRIMARY KEY (step, gate)
)
--;
CREATE INDEX mutirao_edge_gate ON mutirao_edge (gate)
--;
-- What handlers returned, as JSON, where somebody asked to keep it.
CREATE TABLE mutirao_result (
    job bigint PRIMARY KEY,
    value text NOT NULL,
    expires_at timestamptz
)
--;
CREATE INDEX mutirao_result_expires ON mutirao_result (expires_at) WHERE expires_at IS NOT NULL
--;
-- How far attempts have come, by what their handlers told last.
CREATE TABLE mutirao_progress (
    job bigint PRIMARY KEY,
    run integer NOT NULL,
    done double precision NOT NULL,
    total double precision,
    note text,
    told_at timestamptz NOT NULL
) WITH (fillfactor = 50)
--;
-- Jobs whose end somebody waits for: only then does it take a NOTIFY, and the lock of that.
CREATE TABLE mutirao_waiter (
    job bigint PRIMARY KEY
)
--;
CREATE FUNCTION mutirao_tell_waiters(_jobs bigint[])
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM mutirao_waiter WHERE job = ANY(_jobs);
    IF FOUND THEN
        PERFORM pg_notify('mutirao_ended', '');
    END IF;
END
$$
--;
CREATE OR REPLACE VIEW mutirao_jobs AS
SELECT
    j.id, j.task, j.queue, j.priority, s.state, s.attempt, j.max_attempts, j.timeout,
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
    (SELECT note FROM mutirao_progress WHERE job = j.id) AS progress_note
FROM mutirao_job j
JOIN (
    SELECT
        id,
        CASE
            WHEN worker IS NOT NULL THEN 'running'
            WHEN run_at = '9999-05-31 00:00Z' THEN 'blocked'
            WHEN run_at > statement_timestamp() THEN 'scheduled'
            WHEN ltrim(queue, E'\x1f') IN (
                SELECT m.queue FROM mutirao_limit m WHERE m.most = 0 AND m.by IS NULL
            ) THEN 'blocked'
            ELSE 'ready'
        END AS state,
        attempt,
        CASE WHEN run_at < '9999-05-31 00:00Z' THEN run_at ELSE coalesce(
            (SELECT p.run_at FROM mutirao_parked p WHERE p.job = id), run_at
        ) END AS run_at, claimed_at AS started_at, NULL::timestamptz AS finished_at,
        worker, run, NULL::text AS error_type, NULL::text AS error
    FROM mutirao_live
    UNION ALL
    SELECT
        job, outcome, attempt, NULL::timestamptz, started_at, finished_at,
        worker, run, error_type, error
    FROM mutirao_attempt
) s ON s.id = j.id
WHERE s.state IN ('running', 'scheduled', 'ready', 'blocked', 'succeeded', 'dead', 'cancelled')
--;
CREATE OR REPLACE VIEW mutirao_queues AS
SELECT
    ltrim(queue, E'\x1f') AS queue, state, count(*) AS jobs,
    extract(epoch FROM statement_timestamp() - min(since))::float8 AS oldest_age
FROM (
    SELECT queue, 'running'::text AS state, claimed_at AS since
    FROM mutirao_live WHERE worker IS NOT NULL
    UNION ALL
    SELECT l.queue, CASE WHEN p.queue IS NULL THEN 'ready' ELSE 'blocked' END, l.run_at
    FROM mutirao_live l
    LEFT JOIN mutirao_limit p ON p.queue = ltrim(l.queue, E'\x1f') AND p.most = 0 AND p.by IS NULL
    WHERE l.worker IS NULL AND l.run_at <= statement_timestamp()
    UNION ALL
    SELECT l.queue, CASE WHEN l.run_at = '9999-05-31 00:00Z' THEN 'blocked' ELSE 'scheduled' END,
           coalesce(p.run_at, j.enqueued_at)
    FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
    LEFT JOIN mutirao_parked p ON p.job = l.id AND l.run_at = '9999-05-31 00:00Z'
    WHERE l.worker IS NULL AND l.run_at > statement_timestamp()
    UNION ALL
    SELECT j.queue, a.outcome, a.finished_at
    FROM mutirao_attempt a JOIN mutirao_job j ON j.id = a.job
    WHERE a.outcome IN ('succeeded', 'dead', 'cancelled')
) s
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
    g.created_at
FROM mutirao_graph g
CROSS JOIN LATERAL (
    SELECT
        count(*) AS jobs,
        count(CASE WHEN l.worker IS NULL AND p.job IS NULL AND l.run_at = '9999-05-31 00:00Z' THEN 1 END)
            AS blocked,
        -- Those that wait for a limit, too: they need no other step to end.
        count(CASE WHEN l.worker IS NULL AND (l.run_at < '9999-05-31 00:00Z' OR p.job IS NOT NULL) THEN 1 END)
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
