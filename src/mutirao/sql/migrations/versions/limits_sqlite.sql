-- At most so many jobs of a queue or of a task run at once, or start in a time; `by` counts each value
-- of an argument apart, `key` is about one of them. A pause is a limit of 0.
CREATE TABLE mutirao_limit (
    name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200),
    queue text CHECK (length(queue) BETWEEN 1 AND 100),
    task text CHECK (length(task) BETWEEN 1 AND 200),
    by text CHECK (length(by) BETWEEN 1 AND 200),
    key text CHECK (length(key) <= 200),
    most integer NOT NULL CHECK (most >= 0),
    -- Seconds in which so many may start; without, so many run at once.
    per real CHECK (per > 0),
    burst integer CHECK (burst >= 1),
    origin text NOT NULL,
    -- What the code said when it last said something new.
    declared text,
    declared_at integer,
    declared_by text,
    created_at integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000),
    changed_at integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000),
    CHECK ((queue IS NULL) <> (task IS NULL)),
    CHECK ((per IS NULL) = (burst IS NULL)),
    CHECK (key IS NULL OR by IS NOT NULL)
)
--;
-- How full a limit is, for each value of its argument.
CREATE TABLE mutirao_counter (
    id integer PRIMARY KEY,
    name text NOT NULL,
    key text NOT NULL,
    running integer NOT NULL DEFAULT 0,
    -- Of a rate: what was left when it was last looked at.
    tokens real NOT NULL DEFAULT 0,
    touched_at integer NOT NULL,
    -- When the first of the parked jobs is in its lane again, because there will be a token.
    probe_at integer,
    UNIQUE (name, key)
)
--;
CREATE INDEX mutirao_counter_probe ON mutirao_counter (probe_at) WHERE probe_at IS NOT NULL
--;
-- What a running job holds, so that the end of its run gives back what was taken.
CREATE TABLE mutirao_slot (
    job integer NOT NULL,
    counter integer NOT NULL,
    PRIMARY KEY (job, counter)
) WITHOUT ROWID
--;
-- Jobs that would be one too many. They left their lanes for the year 9999, so no claim meets them
-- again before one of those that run has ended.
CREATE TABLE mutirao_parked (
    job integer PRIMARY KEY,
    counter integer NOT NULL,
    priority integer NOT NULL,
    run_at integer NOT NULL
)
--;
CREATE INDEX mutirao_parked_order ON mutirao_parked (counter, priority, run_at, job)
--;
DROP VIEW mutirao_jobs
--;
DROP VIEW mutirao_queues
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
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of
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
    j.args, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of, j.on_dead_of
FROM mutirao_live l CROSS JOIN mutirao_job j ON j.id = l.id
WHERE l.worker IS NULL AND l.run_at > (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) AND (l.run_at < 253383724800000000 OR l.id NOT IN (SELECT job FROM mutirao_parked))
UNION ALL
SELECT
    l.id, j.task, j.queue, j.priority, CAST('blocked' AS text) AS state,
    l.attempt, j.max_attempts, j.timeout,
    CAST(strftime('%Y-%m-%dT%H:%M:%S', p.run_at / 1000000, 'unixepoch') || printf('.%06dZ', p.run_at % 1000000) AS text) AS run_at,
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
FROM mutirao_parked p CROSS JOIN mutirao_live l ON l.id = p.job CROSS JOIN mutirao_job j ON j.id = l.id
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
SELECT ltrim(queue, char(31)) AS queue, state, count(*) AS jobs, ((CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) - min(since)) / 1e6 AS oldest_age
FROM (
    SELECT queue, CAST('running' AS text) AS state, claimed_at AS since
    FROM mutirao_live WHERE worker IS NOT NULL
    UNION ALL
    SELECT l.queue, CASE WHEN ltrim(l.queue, char(31)) IN (SELECT m.queue FROM mutirao_limit m WHERE m.queue IS NOT NULL AND m.most = 0 AND m.by IS NULL) THEN 'blocked' ELSE 'ready' END, l.run_at
    FROM mutirao_live l WHERE l.worker IS NULL AND l.run_at <= (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999)
    UNION ALL
    SELECT l.queue, CASE WHEN p.job IS NULL THEN 'scheduled' ELSE 'blocked' END,
           coalesce(p.run_at, j.enqueued_at)
    FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
    LEFT JOIN mutirao_parked p ON p.job = l.id AND l.run_at = 253383724800000000
    WHERE l.worker IS NULL AND l.run_at > (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999)
    UNION ALL
    SELECT j.queue, a.outcome, a.finished_at
    FROM mutirao_attempt a JOIN mutirao_job j ON j.id = a.job
    WHERE a.outcome IN ('succeeded', 'dead', 'cancelled')
)
GROUP BY 1, state
--;
-- One row for each limit and key. A worker notes every minute that a limit is in its code.
CREATE VIEW mutirao_limits AS
SELECT
    m.name, m.queue, m.task, m.by,
    coalesce(m.key, CASE WHEN m.by IS NULL THEN '' ELSE c.key END) AS key,
    m.most, m.per, m.burst, m.most = 0 AS paused,
    coalesce(c.running, 0) AS running,
    CASE WHEN m.per IS NOT NULL THEN coalesce(min(
        m.burst, c.tokens + m.most / m.per * max(((CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) - c.touched_at) / 1e6, 0)
    ), m.burst) END AS tokens,
    (SELECT count(*) FROM mutirao_parked p WHERE p.counter = c.id) AS parked,
    m.origin,
    CASE WHEN m.origin = 'code' THEN m.declared_at > (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) - 180000000 END AS in_code,
    strftime('%Y-%m-%dT%H:%M:%S', m.declared_at / 1000000, 'unixepoch') || printf('.%06dZ', m.declared_at % 1000000) AS declared_at,
    m.declared_by,
    strftime('%Y-%m-%dT%H:%M:%S', m.created_at / 1000000, 'unixepoch') || printf('.%06dZ', m.created_at % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', m.changed_at / 1000000, 'unixepoch') || printf('.%06dZ', m.changed_at % 1000000) AS changed_at
FROM mutirao_limit m LEFT JOIN mutirao_counter c ON c.name = m.name
