-- The tables that every job needs, with their indexes. Tables of one subject are in its file.
-- One text for MariaDB and MySQL: what stands in /*M! … */ is read by the former only, /*!80000 … */ by the
-- latter. No triggers, procedures or events: many a server that others run lets nobody make them.
-- Times are integers: microseconds since 1970-01-01 UTC. The views show them as datetime(6), in UTC.
-- Each statement may be said again: here none is undone when a migration is cut off. Texts are compared
-- byte for byte, blanks at the end included.

-- What was asked. Written once, and changed only by people's commands, while the job waits.
-- To enqueue from any language, insert here; a worker makes the job live.
CREATE TABLE IF NOT EXISTS mutirao_job (
    id bigint PRIMARY KEY AUTO_INCREMENT,
    task varchar(200) NOT NULL CHECK (char_length(task) >= 1),
    -- Half a character (\\ud83d) is no JSON here, though every program may write it: left out of the check.
    args longtext NOT NULL DEFAULT ('{}') CHECK (args REGEXP '^\\s*[{]' AND json_valid(
        if(instr(args, '\\u'), regexp_replace(
            args, '(?<!\\\\)((\\\\\\\\)*)\\\\u[Dd][89A-Fa-f][0-9A-Fa-f]{2}',
            /*M! '\\1' */ /*!80000 '$1' */
        ), args)
    ) = 1),
    -- The names of lanes in which jobs take turns begin with the character 31, those of jobs whose
    -- doorbell was rung with 29.
    queue varchar(100) NOT NULL DEFAULT 'default' CHECK (
        char_length(queue) >= 1 AND ascii(queue) NOT IN (29, 31)
    ),
    priority smallint NOT NULL DEFAULT 0,
    -- Programs read it in whatever time zone, and many hold the years 1 to 9999 only.
    run_at bigint NOT NULL DEFAULT (${now})
        CHECK (run_at BETWEEN -62122550400000000 AND ${parked} - 1),
    enqueued_at bigint NOT NULL DEFAULT (${now}),
    max_attempts int CHECK (max_attempts >= 1),
    timeout double CHECK (timeout > 0 AND timeout < 1e10),
    `key` varchar(200) CHECK (char_length(`key`) >= 1),
    fingerprint varchar(200), -- by which equal jobs are found
    tags longtext CHECK (json_valid(tags) = 1 AND json_type(tags) = 'ARRAY'),
    metadata longtext CHECK (json_valid(metadata) = 1 AND json_type(metadata) = 'OBJECT'),
    traceparent text,
    -- Whose job it is.
    tenant varchar(200) CHECK (char_length(tenant) >= 1),
    `group` varchar(200) CHECK (char_length(`group`) >= 1),
    redrive_of bigint,
    on_dead_of bigint,
    -- Of the update that it is about: the key's row leads here.
    version decimal(65, 20),
    -- True until a worker has made it live; NULL of what was live from the beginning.
    unplaced boolean DEFAULT true,
    INDEX mutirao_job_unplaced (unplaced),
    INDEX mutirao_job_redrive_of (redrive_of),
    INDEX mutirao_job_on_dead_of (on_dead_of),
    INDEX mutirao_job_fingerprint (fingerprint, id),
    INDEX mutirao_job_key (`key`, id)
) ENGINE InnoDB ${bytes}
--;
-- What is pending. The only table that changes; a finished job leaves it.
CREATE TABLE IF NOT EXISTS mutirao_live (
    id bigint PRIMARY KEY,
    queue varchar(102) NOT NULL,
    priority smallint NOT NULL,
    run_at bigint NOT NULL,
    attempt int NOT NULL DEFAULT 0,
    run int NOT NULL DEFAULT 0,
    worker bigint,
    claimed_at bigint,
    cancel boolean NOT NULL DEFAULT false,
    -- How many workers in a row ended while they had it, and how many of its attempts in a row lost
    -- their connection.
    lost smallint NOT NULL DEFAULT 0,
    cut_off smallint NOT NULL DEFAULT 0,
    -- Whose turn a job takes: = and the value; empty for jobs that take no turns. Its `queue` is then the
    -- character 31 and the one that was asked for, and no claim finds it in the queue's other lanes.
    fairness varchar(201) NOT NULL DEFAULT '',
    -- The same, empty for what is blocked: who claims passes each value that is there.
    turn varchar(201) AS (if(run_at < ${parked}, fairness, '')) STORED,
    -- No index leaves rows out here: those that wait are the ones whose `worker` is NULL.
    INDEX mutirao_live_waiting (worker, queue, priority, run_at, id),
    INDEX mutirao_live_running (worker),
    INDEX mutirao_live_blocked (run_at),
    INDEX mutirao_live_fairness (worker, queue, turn, priority, run_at, id)
) ENGINE InnoDB ${bytes}
--;
-- What happened. One row appended for each attempt; the last one is the job's outcome.
CREATE TABLE IF NOT EXISTS mutirao_attempt (
    job bigint NOT NULL,
    run int NOT NULL,
    attempt int NOT NULL,
    worker bigint,
    outcome varchar(20) NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    error_type text,
    error longtext,
    came_late boolean, -- true: it came after its hour had been added up
    PRIMARY KEY (job, run),
    INDEX mutirao_attempt_outcome (outcome, finished_at),
    INDEX mutirao_attempt_late (came_late)
) ENGINE InnoDB ${bytes}
--;
-- What handlers returned, as JSON, where somebody asked to keep it.
CREATE TABLE IF NOT EXISTS mutirao_result (
    job bigint PRIMARY KEY,
    value longtext NOT NULL,
    expires_at bigint,
    INDEX mutirao_result_expires (expires_at)
) ENGINE InnoDB ${bytes}
--;
-- How far attempts have come, by what their handlers told last.
CREATE TABLE IF NOT EXISTS mutirao_progress (
    job bigint PRIMARY KEY,
    run int NOT NULL,
    done double NOT NULL,
    total double,
    note text,
    told_at bigint NOT NULL
) ENGINE InnoDB ${bytes}
--;
-- Nobody writes here: who waits for the end of a job looks now and then.
CREATE TABLE IF NOT EXISTS mutirao_waiter (
    job bigint PRIMARY KEY
) ENGINE InnoDB ${bytes}
--;
CREATE TABLE IF NOT EXISTS mutirao_worker (
    id bigint PRIMARY KEY AUTO_INCREMENT,
    name text NOT NULL,
    host text NOT NULL,
    pid int NOT NULL,
    queues longtext, -- NULL: all, but these:
    exclude_queues longtext,
    tasks longtext, -- NULL: all of its application
    concurrency int NOT NULL,
    version text NOT NULL,
    app_version text, -- NULL: it was not said
    started_at bigint NOT NULL,
    beat_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    listening boolean NOT NULL DEFAULT true,
    stuck int NOT NULL DEFAULT 0,
    late double NOT NULL DEFAULT 0 -- seconds that a beat came late lately, at most
) ENGINE InnoDB ${bytes}
--;
CREATE TABLE IF NOT EXISTS mutirao_duty (
    name varchar(200) PRIMARY KEY,
    worker bigint NOT NULL,
    taken_at bigint NOT NULL,
    expires_at bigint NOT NULL
) ENGINE InnoDB ${bytes}
--;
-- Who must not do a thing at the same time as others locks the row of its name, until the transaction
-- ends. Never a named lock (GET_LOCK): those outlive transactions.
CREATE TABLE IF NOT EXISTS mutirao_lock (
    name varchar(20) PRIMARY KEY,
    -- How many transactions of ours were tried again, because the server had given them up for others.
    retries bigint NOT NULL DEFAULT 0
) ENGINE InnoDB ${bytes}
--;
INSERT IGNORE INTO mutirao_lock (name) VALUES ('limits'), ('redrive'), ('hours'), ('retries')
