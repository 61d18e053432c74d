-- How many jobs run at once, how many start in a time, and where those wait that are too many.

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
    -- Of what runs at once: how many at first, until some have proven that it goes well.
    start integer CHECK (start >= 1),
    origin text NOT NULL,
    -- What the code said when it last said something new.
    declared text,
    declared_at integer,
    declared_by text,
    created_at integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000),
    changed_at integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000),
    CHECK ((queue IS NULL) <> (task IS NULL)),
    CHECK ((per IS NULL) = (burst IS NULL)),
    CHECK (key IS NULL OR by IS NOT NULL),
    CHECK (start IS NULL OR per IS NULL)
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
    -- How many more than at first have proven to go well.
    proven integer NOT NULL DEFAULT 0,
    touched_at integer NOT NULL,
    -- When the first of the parked jobs is in its lane again, because there will be a token.
    probe_at integer,
    -- 1: where late jobs wait and others, it calls a late one next.
    late_next integer NOT NULL DEFAULT 0,
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
-- again before one of those that run has ended. `late`: it took turns, and takes none any more, as it
-- is tried again.
CREATE TABLE mutirao_parked (
    job integer PRIMARY KEY,
    counter integer NOT NULL,
    priority integer NOT NULL,
    run_at integer NOT NULL,
    late integer NOT NULL DEFAULT 0
)
--;
CREATE INDEX mutirao_parked_order ON mutirao_parked (counter, late, priority, run_at, job)
