-- What makes jobs by the clock.

-- What makes jobs, when, and how far it has got. `args` and `options` are JSON, as the text it came as.
CREATE TABLE IF NOT EXISTS mutirao_schedule (
    name varchar(200) PRIMARY KEY CHECK (char_length(name) >= 1),
    task text NOT NULL,
    args longtext NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    options longtext NOT NULL,
    cron text,
    every double CHECK (every > 0),
    timezone text NOT NULL,
    catch_up varchar(20) NOT NULL CHECK (catch_up IN ('none', 'last', 'all')),
    catch_up_limit int NOT NULL,
    overlap varchar(20) NOT NULL CHECK (overlap IN ('allow', 'skip', 'after')),
    jitter double NOT NULL,
    until bigint,
    max_runs int,
    pause_after int,
    origin varchar(20) NOT NULL CHECK (origin IN ('code', 'call')),
    paused boolean NOT NULL,
    reason text, -- why it is paused
    forgiven bigint, -- the deaths of jobs up to this one do not count any more
    awaiting boolean NOT NULL,
    next_at bigint,
    last_tick bigint,
    last_job bigint,
    runs bigint NOT NULL,
    skipped bigint NOT NULL,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    declared text,
    declared_at bigint,
    declared_by text,
    INDEX mutirao_schedule_next (paused, next_at),
    INDEX mutirao_schedule_awaiting (awaiting, paused),
    CHECK ((cron IS NULL) <> (every IS NULL))
) ENGINE InnoDB ${bytes}
--;
-- The latest jobs of each schedule, and never two of a tick. Those that somebody asked for have none.
CREATE TABLE IF NOT EXISTS mutirao_tick (
    schedule varchar(200) NOT NULL,
    job bigint NOT NULL,
    tick bigint,
    PRIMARY KEY (schedule, job),
    UNIQUE mutirao_tick_once (schedule, tick)
) ENGINE InnoDB ${bytes}
