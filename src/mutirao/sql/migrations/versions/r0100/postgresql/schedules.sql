-- What makes jobs by the clock.

-- What makes jobs, when, and how far it has got. `args` and `options` are JSON, as the text it came as.
CREATE TABLE mutirao_schedule (
    name text PRIMARY KEY CHECK (char_length(name) BETWEEN 1 AND 200),
    task text NOT NULL,
    args text NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    options text NOT NULL,
    cron text,
    every double precision CHECK (every > 0),
    timezone text NOT NULL,
    catch_up text NOT NULL CHECK (catch_up IN ('none', 'last', 'all')),
    catch_up_limit integer NOT NULL,
    overlap text NOT NULL CHECK (overlap IN ('allow', 'skip', 'after')),
    jitter double precision NOT NULL,
    until timestamptz,
    max_runs integer,
    pause_after integer,
    origin text NOT NULL CHECK (origin IN ('code', 'call')),
    paused boolean NOT NULL,
    reason text, -- why it is paused
    forgiven bigint, -- the deaths of jobs up to this one do not count any more
    awaiting boolean NOT NULL,
    next_at timestamptz,
    last_tick timestamptz,
    last_job bigint,
    runs bigint NOT NULL,
    skipped bigint NOT NULL,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    declared text,
    declared_at timestamptz,
    declared_by text,
    CHECK ((cron IS NULL) <> (every IS NULL))
) WITH (fillfactor = 50)
--;
CREATE INDEX mutirao_schedule_next ON mutirao_schedule (next_at) WHERE next_at IS NOT NULL AND NOT paused
--;
CREATE INDEX mutirao_schedule_awaiting ON mutirao_schedule (last_job) WHERE awaiting AND NOT paused
--;
-- The latest jobs of each schedule, and never two of a tick. Those that somebody asked for have none.
CREATE TABLE mutirao_tick (
    schedule text NOT NULL,
    job bigint NOT NULL,
    tick timestamptz,
    PRIMARY KEY (schedule, job)
)
--;
CREATE UNIQUE INDEX mutirao_tick_once ON mutirao_tick (schedule, tick)
