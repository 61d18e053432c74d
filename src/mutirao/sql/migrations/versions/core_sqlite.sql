-- Times are integers: microseconds since 1970-01-01 UTC. The views show them as ISO 8601 text.
-- What was asked. Written once, never updated.
-- To enqueue from any language, insert here; a trigger makes the job live.
CREATE TABLE mutirao_job (
    id integer PRIMARY KEY AUTOINCREMENT,
    -- SQLite would keep a value of any type.
    task text NOT NULL CHECK (typeof(task) = 'text' AND length(task) BETWEEN 1 AND 200),
    args text NOT NULL DEFAULT '{}' CHECK (json_valid(args) AND json_type(args) = 'object'),
    -- The names of lanes in which jobs take turns begin with the character 31.
    queue text NOT NULL DEFAULT 'default' CHECK (
        typeof(queue) = 'text' AND length(queue) BETWEEN 1 AND 100 AND unicode(queue) <> 31
    ),
    priority integer NOT NULL DEFAULT 0 CHECK (priority BETWEEN -32768 AND 32767),
    -- Programs read it in whatever time zone, and many hold the years 1 to 9999 only.
    run_at integer NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000)
        CHECK (run_at BETWEEN -62122550400000000 AND 253383811200000000),
    enqueued_at integer NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000)
        CHECK (typeof(enqueued_at) = 'integer'),
    max_attempts integer CHECK (
        max_attempts IS NULL OR typeof(max_attempts) = 'integer' AND max_attempts >= 1
    ),
    timeout real CHECK (
        timeout IS NULL OR typeof(timeout) = 'real' AND timeout > 0 AND timeout < 1e10
    ),
    key text CHECK (key IS NULL OR typeof(key) = 'text' AND length(key) BETWEEN 1 AND 200),
    tags text CHECK (tags IS NULL OR json_valid(tags) AND json_type(tags) = 'array'),
    metadata text CHECK (
        metadata IS NULL OR json_valid(metadata) AND json_type(metadata) = 'object'
    ),
    traceparent text,
    redrive_of integer,
    on_dead_of integer
)
--;
CREATE INDEX mutirao_job_redrive_of ON mutirao_job (redrive_of) WHERE redrive_of IS NOT NULL
--;
CREATE INDEX mutirao_job_on_dead_of ON mutirao_job (on_dead_of) WHERE on_dead_of IS NOT NULL
--;
-- What is pending. The only table that changes; a finished job leaves it.
CREATE TABLE mutirao_live (
    id integer PRIMARY KEY,
    queue text NOT NULL,
    priority integer NOT NULL,
    run_at integer NOT NULL,
    attempt integer NOT NULL DEFAULT 0,
    run integer NOT NULL DEFAULT 0,
    worker integer,
    claimed_at integer,
    cancel integer NOT NULL DEFAULT 0,
    -- How many workers in a row ended while they had it, and how many of its attempts in a row lost
    -- their connection.
    lost integer NOT NULL DEFAULT 0,
    cut_off integer NOT NULL DEFAULT 0
)
--;
CREATE INDEX mutirao_live_waiting ON mutirao_live (queue, priority, run_at, id) WHERE worker IS NULL
--;
CREATE INDEX mutirao_live_running ON mutirao_live (worker) WHERE worker IS NOT NULL
--;
CREATE TRIGGER mutirao_job_enqueued AFTER INSERT ON mutirao_job
BEGIN
    INSERT INTO mutirao_live (id, queue, priority, run_at)
    VALUES (NEW.id, NEW.queue, NEW.priority, NEW.run_at);
END
--;
-- What happened. One row appended for each attempt; the last one is the job's outcome.
CREATE TABLE mutirao_attempt (
    job integer NOT NULL,
    run integer NOT NULL,
    attempt integer NOT NULL,
    worker integer,
    outcome text NOT NULL,
    started_at integer NOT NULL,
    finished_at integer NOT NULL,
    error_type text,
    error text,
    PRIMARY KEY (job, run)
) WITHOUT ROWID
--;
CREATE INDEX mutirao_attempt_outcome ON mutirao_attempt (outcome, finished_at)
--;
-- The few that people look for among the many. SQLite keeps no account of how rare a value is.
CREATE INDEX mutirao_attempt_failed ON mutirao_attempt (job) WHERE outcome IN ('dead', 'cancelled')
--;
CREATE TABLE mutirao_worker (
    id integer PRIMARY KEY AUTOINCREMENT,
    name text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    queues text,
    concurrency integer NOT NULL,
    version text NOT NULL,
    started_at integer NOT NULL,
    beat_at integer NOT NULL,
    expires_at integer NOT NULL,
    listening integer NOT NULL DEFAULT 1,
    stuck integer NOT NULL DEFAULT 0,
    late real NOT NULL DEFAULT 0 -- seconds that a beat came late lately, at most
)
--;
CREATE TABLE mutirao_duty (
    name text PRIMARY KEY,
    worker integer NOT NULL,
    taken_at integer NOT NULL,
    expires_at integer NOT NULL
)
--;
-- The views below are for people and their tools: their columns stay as docs/sql.md says.
-- The state of a live job is constant in each branch, so that a search for another state skips it;
-- equal affinities in all branches let SQLite look into them by index.
-- SQLite's clock counts milliseconds: now is the end of the present one, in which a job may have
-- been enqueued that is ready.
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
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of
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
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of
FROM mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NULL AND l.run_at <= (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999)
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
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of
FROM mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NULL AND l.run_at > (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999)
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
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of
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
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of
FROM mutirao_attempt a CROSS JOIN mutirao_job j ON j.id = a.job
WHERE a.outcome IN ('dead', 'cancelled')
--;
CREATE VIEW mutirao_queues AS
SELECT queue, state, count(*) AS jobs, ((CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) - min(since)) / 1e6 AS oldest_age
FROM (
    SELECT queue, CAST('running' AS text) AS state, claimed_at AS since
    FROM mutirao_live WHERE worker IS NOT NULL
    UNION ALL
    SELECT queue, CAST('ready' AS text), run_at
    FROM mutirao_live WHERE worker IS NULL AND run_at <= (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999)
    UNION ALL
    SELECT l.queue, CAST('scheduled' AS text), j.enqueued_at
    FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
    WHERE l.worker IS NULL AND l.run_at > (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999)
    UNION ALL
    SELECT j.queue, a.outcome, a.finished_at
    FROM mutirao_attempt a JOIN mutirao_job j ON j.id = a.job
    WHERE a.outcome IN ('succeeded', 'dead', 'cancelled')
)
GROUP BY queue, state
--;
CREATE VIEW mutirao_errors AS
SELECT
    task, error_type, message, count(DISTINCT job) AS jobs, count(*) AS attempts,
    strftime('%Y-%m-%dT%H:%M:%S', min(finished_at) / 1000000, 'unixepoch') || printf('.%06dZ', min(finished_at) % 1000000) AS first_at,
    strftime('%Y-%m-%dT%H:%M:%S', max(finished_at) / 1000000, 'unixepoch') || printf('.%06dZ', max(finished_at) % 1000000) AS last_at
FROM (
    SELECT
        j.task, a.error_type, a.job, a.finished_at,
        substr(a.error, 1, instr(a.error || char(10), char(10)) - 1) AS message
    FROM mutirao_attempt a JOIN mutirao_job j ON j.id = a.job
    WHERE a.outcome IN ('retried', 'dead', 'lost')
)
GROUP BY task, error_type, message
--;
CREATE VIEW mutirao_throughput AS
SELECT
    hour, queue, task, outcome, count(*) AS attempts, avg(duration) AS mean_duration,
    min(CASE WHEN place * 100 >= attempts * 95 THEN duration END) AS p95_duration
FROM (
    SELECT
        hour, queue, task, outcome, duration,
        count(*) OVER (PARTITION BY hour, queue, task, outcome) AS attempts,
        row_number() OVER (PARTITION BY hour, queue, task, outcome ORDER BY duration) AS place
    FROM (
        SELECT
            strftime('%Y-%m-%dT%H:00:00.000000Z', a.finished_at / 1000000, 'unixepoch') AS hour,
            j.queue, j.task, a.outcome, (a.finished_at - a.started_at) / 1e6 AS duration
        FROM mutirao_attempt a JOIN mutirao_job j ON j.id = a.job
    )
)
GROUP BY hour, queue, task, outcome
--;
CREATE VIEW mutirao_workers AS
SELECT
    w.id, w.name, w.host, w.pid, w.queues, w.concurrency, w.version,
    strftime('%Y-%m-%dT%H:%M:%S', w.started_at / 1000000, 'unixepoch') || printf('.%06dZ', w.started_at % 1000000) AS started_at,
    strftime('%Y-%m-%dT%H:%M:%S', w.beat_at / 1000000, 'unixepoch') || printf('.%06dZ', w.beat_at % 1000000) AS beat_at,
    strftime('%Y-%m-%dT%H:%M:%S', w.expires_at / 1000000, 'unixepoch') || printf('.%06dZ', w.expires_at % 1000000) AS expires_at,
    w.expires_at > (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) AS alive, w.listening, w.stuck, w.late,
    (SELECT count(*) FROM mutirao_live WHERE worker = w.id) AS running,
    (
        SELECT json_group_array(id)
        FROM (SELECT id FROM mutirao_live WHERE worker = w.id ORDER BY id)
    ) AS jobs
FROM mutirao_worker w
