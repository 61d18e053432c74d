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
    origin text NOT NULL CHECK (origin IN ('code', 'call')),
    paused integer NOT NULL,
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
--;
-- A worker notes every minute that a schedule is in its code.
CREATE VIEW mutirao_schedules AS
SELECT
    s.name, s.task, s.args AS args, s.queue, s.cron, s.every, s.timezone,
    CASE
        WHEN s.next_at IS NULL AND NOT s.awaiting THEN 'finished'
        WHEN s.paused THEN 'paused'
        WHEN s.awaiting THEN 'awaiting'
        ELSE 'active'
    END AS status,
    strftime('%Y-%m-%dT%H:%M:%S', s.next_at / 1000000, 'unixepoch') || printf('.%06dZ', s.next_at % 1000000) AS next_at,
    strftime('%Y-%m-%dT%H:%M:%S', s.last_tick / 1000000, 'unixepoch') || printf('.%06dZ', s.last_tick % 1000000) AS last_tick,
    s.last_job,
    CASE
        WHEN l.worker IS NOT NULL THEN 'running'
        WHEN l.run_at = 253383724800000000 THEN 'blocked'
        WHEN l.run_at > (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) THEN 'scheduled'
        WHEN l.id IS NOT NULL THEN 'ready'
        ELSE a.outcome
    END AS last_state,
    strftime('%Y-%m-%dT%H:%M:%S', coalesce(l.claimed_at, a.started_at) / 1000000, 'unixepoch') || printf('.%06dZ', coalesce(l.claimed_at, a.started_at) % 1000000) AS last_started_at,
    strftime('%Y-%m-%dT%H:%M:%S', CASE WHEN l.id IS NULL THEN a.finished_at END / 1000000, 'unixepoch') || printf('.%06dZ', CASE WHEN l.id IS NULL THEN a.finished_at END % 1000000) AS last_finished_at,
    (coalesce(CASE WHEN l.id IS NULL THEN a.finished_at END, CASE WHEN l.worker IS NOT NULL THEN (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) END)
        - coalesce(l.claimed_at, a.started_at)
    ) / 1e6 AS last_duration,
    a.error AS last_error,
    s.runs, s.skipped, s.catch_up, s.overlap, s.jitter,
    strftime('%Y-%m-%dT%H:%M:%S', s.until / 1000000, 'unixepoch') || printf('.%06dZ', s.until % 1000000) AS until,
    s.max_runs, s.origin,
    CASE WHEN s.origin = 'code' THEN s.declared_at > (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999) - 180000000 END AS in_code,
    strftime('%Y-%m-%dT%H:%M:%S', s.declared_at / 1000000, 'unixepoch') || printf('.%06dZ', s.declared_at % 1000000) AS declared_at,
    s.declared_by,
    strftime('%Y-%m-%dT%H:%M:%S', s.created_at / 1000000, 'unixepoch') || printf('.%06dZ', s.created_at % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', s.changed_at / 1000000, 'unixepoch') || printf('.%06dZ', s.changed_at % 1000000) AS changed_at
FROM mutirao_schedule s
LEFT JOIN mutirao_live l ON l.id = s.last_job
LEFT JOIN mutirao_attempt a ON a.job = s.last_job
    AND a.run = (SELECT max(run) FROM mutirao_attempt WHERE job = s.last_job)
