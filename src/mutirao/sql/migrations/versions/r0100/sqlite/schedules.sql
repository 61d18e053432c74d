-- What makes jobs by the clock.

-- What makes jobs, when, and how far it has got. `args` and `options` are JSON, as the text it came as.
CREATE TABLE mutirao_schedule (
    name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200),
    task text NOT NULL,
    args text NOT NULL,
    queue text NOT NULL,
    priority integer NOT NULL,
    options text NOT NULL,
    cron text,
    every real CHECK (every > 0),
    timezone text NOT NULL,
    catch_up text NOT NULL CHECK (catch_up IN ('none', 'last', 'all')),
    catch_up_limit integer NOT NULL,
    overlap text NOT NULL CHECK (overlap IN ('allow', 'skip', 'after')),
    jitter real NOT NULL,
    until integer,
    max_runs integer,
    pause_after integer,
    origin text NOT NULL CHECK (origin IN ('code', 'call')),
    paused integer NOT NULL,
    reason text, -- why it is paused
    forgiven integer, -- the deaths of jobs up to this one do not count any more
    awaiting integer NOT NULL,
    next_at integer,
    last_tick integer,
    last_job integer,
    runs integer NOT NULL,
    skipped integer NOT NULL,
    created_at integer NOT NULL,
    changed_at integer NOT NULL,
    declared text,
    declared_at integer,
    declared_by text,
    CHECK ((cron IS NULL) <> (every IS NULL))
)
--;
CREATE INDEX mutirao_schedule_next ON mutirao_schedule (next_at) WHERE next_at IS NOT NULL AND paused = 0
--;
CREATE INDEX mutirao_schedule_awaiting ON mutirao_schedule (last_job) WHERE awaiting = 1 AND paused = 0
--;
-- The latest jobs of each schedule, and never two of a tick. Those that somebody asked for have none.
CREATE TABLE mutirao_tick (
    schedule text NOT NULL,
    job integer NOT NULL,
    tick integer,
    PRIMARY KEY (schedule, job)
) WITHOUT ROWID
--;
CREATE UNIQUE INDEX mutirao_tick_once ON mutirao_tick (schedule, tick)
