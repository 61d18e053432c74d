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
    origin text NOT NULL CHECK (origin IN ('code', 'call')),
    paused boolean NOT NULL,
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
--;
-- A worker notes every minute that a schedule is in its code.
CREATE VIEW mutirao_schedules AS
SELECT
    s.name, s.task, s.args::json AS args, s.queue, s.cron, s.every, s.timezone,
    CASE
        WHEN s.next_at IS NULL AND NOT s.awaiting THEN 'finished'
        WHEN s.paused THEN 'paused'
        WHEN s.awaiting THEN 'awaiting'
        ELSE 'active'
    END AS status,
    s.next_at AS next_at,
    s.last_tick AS last_tick,
    s.last_job,
    CASE
        WHEN l.worker IS NOT NULL THEN 'running'
        WHEN l.run_at = '9999-05-31 00:00Z' THEN 'blocked'
        WHEN l.run_at > statement_timestamp() THEN 'scheduled'
        WHEN l.id IS NOT NULL THEN 'ready'
        ELSE a.outcome
    END AS last_state,
    coalesce(l.claimed_at, a.started_at) AS last_started_at,
    CASE WHEN l.id IS NULL THEN a.finished_at END AS last_finished_at,
    extract(epoch FROM
        coalesce(CASE WHEN l.id IS NULL THEN a.finished_at END, CASE WHEN l.worker IS NOT NULL THEN statement_timestamp() END)
        - coalesce(l.claimed_at, a.started_at)
    )::float8 AS last_duration,
    a.error AS last_error,
    s.runs, s.skipped, s.catch_up, s.overlap, s.jitter,
    s.until AS until,
    s.max_runs, s.origin,
    CASE WHEN s.origin = 'code' THEN s.declared_at > statement_timestamp() - interval '3 minutes' END AS in_code,
    s.declared_at AS declared_at,
    s.declared_by,
    s.created_at AS created_at,
    s.changed_at AS changed_at
FROM mutirao_schedule s
LEFT JOIN mutirao_live l ON l.id = s.last_job
LEFT JOIN mutirao_attempt a ON a.job = s.last_job
    AND a.run = (SELECT max(run) FROM mutirao_attempt WHERE job = s.last_job)
