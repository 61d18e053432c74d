-- Times are integers: microseconds since 1970-01-01 UTC. The views show them as ISO 8601 text.
-- What was asked. Written once, never updated.
-- To enqueue from any language, insert here; a trigger makes the job live.
CREATE TABLE mutirao_job (
    id integer PRIMARY KEY AUTOINCREMENT,
    task text NOT NULL CHECK (length(task) BETWEEN 1 AND 200),
    args text NOT NULL DEFAULT '{}' CHECK (json_type(args) = 'object'),
    queue text NOT NULL DEFAULT 'default' CHECK (length(queue) BETWEEN 1 AND 100),
    priority integer NOT NULL DEFAULT 0 CHECK (priority BETWEEN -32768 AND 32767),
    run_at integer NOT NULL
        DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer) * 1000),
    enqueued_at integer NOT NULL
        DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer) * 1000),
    max_attempts integer CHECK (max_attempts >= 1),
    timeout real CHECK (timeout > 0),
    key text CHECK (length(key) BETWEEN 1 AND 200),
    tags text CHECK (json_type(tags) = 'array'),
    metadata text CHECK (json_type(metadata) = 'object'),
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
    cancel integer NOT NULL DEFAULT 0
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
    stuck integer NOT NULL DEFAULT 0
)
--;
CREATE TABLE mutirao_duty (
    name text PRIMARY KEY,
    worker integer NOT NULL,
    taken_at integer NOT NULL,
    expires_at integer NOT NULL
)
