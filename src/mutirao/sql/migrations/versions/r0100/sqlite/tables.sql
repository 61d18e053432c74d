-- The tables that every job needs, with their indexes. Tables of one subject are in its file.
-- Times are integers: microseconds since 1970-01-01 UTC. The views show them as ISO 8601 text.

-- What was asked. Written once, and changed only by people's commands, while the job waits.
-- To enqueue from any language, insert here; a trigger makes the job live.
CREATE TABLE mutirao_job (
    id integer PRIMARY KEY AUTOINCREMENT,
    -- SQLite would keep a value of any type.
    task text NOT NULL CHECK (typeof(task) = 'text' AND length(task) BETWEEN 1 AND 200),
    args text NOT NULL DEFAULT '{}' CHECK (json_valid(args) AND json_type(args) = 'object'),
    -- The names of lanes in which jobs take turns begin with the character 31, those of jobs whose
    -- doorbell was rung with 29.
    queue text NOT NULL DEFAULT 'default' CHECK (
        typeof(queue) = 'text' AND length(queue) BETWEEN 1 AND 100 AND unicode(queue) NOT IN (29, 31)
    ),
    priority integer NOT NULL DEFAULT 0 CHECK (priority BETWEEN -32768 AND 32767),
    -- Programs read it in whatever time zone, and many hold the years 1 to 9999 only.
    run_at integer NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000)
        CHECK (run_at BETWEEN -62122550400000000 AND ${parked} - 1),
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
    fingerprint text, -- by which equal jobs are found
    tags text CHECK (tags IS NULL OR json_valid(tags) AND json_type(tags) = 'array'),
    metadata text CHECK (
        metadata IS NULL OR json_valid(metadata) AND json_type(metadata) = 'object'
    ),
    traceparent text,
    -- Whose job it is.
    tenant text CHECK (length(tenant) BETWEEN 1 AND 200),
    "group" text CHECK (length("group") BETWEEN 1 AND 200),
    redrive_of integer,
    on_dead_of integer,
    -- Of the update that it is about: the key's row leads here.
    version numeric CHECK (version IS NULL OR typeof(version) IN ('integer', 'real'))
)
--;
CREATE INDEX mutirao_job_redrive_of ON mutirao_job (redrive_of) WHERE redrive_of IS NOT NULL
--;
CREATE INDEX mutirao_job_on_dead_of ON mutirao_job (on_dead_of) WHERE on_dead_of IS NOT NULL
--;
CREATE INDEX mutirao_job_fingerprint ON mutirao_job (fingerprint, id) WHERE fingerprint IS NOT NULL
--;
CREATE INDEX mutirao_job_key ON mutirao_job (key, id) WHERE key IS NOT NULL
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
    cut_off integer NOT NULL DEFAULT 0,
    -- Whose turn a job takes: = and the value; empty for jobs that take no turns. Its `queue` is then the
    -- character 31 and the one that was asked for, and no claim finds it in the queue's other lanes.
    fairness text NOT NULL DEFAULT ''
)
--;
CREATE INDEX mutirao_live_waiting ON mutirao_live (queue, priority, run_at, id) WHERE worker IS NULL
--;
CREATE INDEX mutirao_live_running ON mutirao_live (worker) WHERE worker IS NOT NULL
--;
CREATE INDEX mutirao_live_blocked ON mutirao_live (id) WHERE run_at >= ${parked}
--;
-- What is blocked has no turn: who claims passes each value that is there.
CREATE INDEX mutirao_live_fairness ON mutirao_live (queue, fairness, priority, run_at, id)
WHERE worker IS NULL AND fairness <> '' AND run_at < ${parked}
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
    came_late integer, -- 1: it came after its hour had been added up
    PRIMARY KEY (job, run)
) WITHOUT ROWID
--;
CREATE INDEX mutirao_attempt_outcome ON mutirao_attempt (outcome, finished_at)
--;
-- The few that people look for among the many. SQLite keeps no account of how rare a value is.
CREATE INDEX mutirao_attempt_failed ON mutirao_attempt (job) WHERE outcome IN ('dead', 'cancelled')
--;
CREATE INDEX mutirao_attempt_late ON mutirao_attempt (job, run) WHERE came_late
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
CREATE TABLE mutirao_worker (
    id integer PRIMARY KEY AUTOINCREMENT,
    name text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    queues text, -- NULL: all, but these:
    exclude_queues text,
    tasks text, -- NULL: all of its application
    concurrency integer NOT NULL,
    version text NOT NULL,
    app_version text, -- NULL: it was not said
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
