-- How many jobs run at once, how many start in a time, and where those wait that are too many.

-- At most so many jobs of a queue or of a task run at once, or start in a time; `by` counts each value
-- of an argument apart, `key` is about one of them. A pause is a limit of 0.
CREATE TABLE IF NOT EXISTS mutirao_limit (
    name varchar(200) PRIMARY KEY CHECK (char_length(name) >= 1),
    queue varchar(100) CHECK (char_length(queue) >= 1),
    task varchar(200) CHECK (char_length(task) >= 1),
    `by` varchar(200) CHECK (char_length(`by`) >= 1),
    `key` varchar(200),
    most int NOT NULL CHECK (most >= 0),
    -- Seconds in which so many may start; without, so many run at once.
    per double CHECK (per > 0),
    burst int CHECK (burst >= 1),
    -- Of what runs at once: how many at first, until some have proven that it goes well.
    start int CHECK (start >= 1),
    origin varchar(20) NOT NULL,
    -- What the code said when it last said something new.
    declared text,
    declared_at bigint,
    declared_by text,
    created_at bigint NOT NULL DEFAULT (${now}),
    changed_at bigint NOT NULL DEFAULT (${now}),
    CHECK ((queue IS NULL) <> (task IS NULL)),
    CHECK ((per IS NULL) = (burst IS NULL)),
    CHECK (`key` IS NULL OR `by` IS NOT NULL),
    CHECK (start IS NULL OR per IS NULL)
) ENGINE InnoDB ${bytes}
--;
-- How full a limit is, for each value of its argument.
CREATE TABLE IF NOT EXISTS mutirao_counter (
    id bigint PRIMARY KEY AUTO_INCREMENT,
    name varchar(200) NOT NULL,
    `key` varchar(200) NOT NULL,
    running int NOT NULL DEFAULT 0,
    -- Of a rate: what was left when it was last looked at.
    tokens double NOT NULL DEFAULT 0,
    -- How many more than at first have proven to go well.
    proven int NOT NULL DEFAULT 0,
    touched_at bigint NOT NULL,
    -- When the first of the parked jobs is in its lane again, because there will be a token.
    probe_at bigint,
    -- 1: where late jobs wait and others, it calls a late one next.
    late_next smallint NOT NULL DEFAULT 0,
    UNIQUE (name, `key`),
    INDEX mutirao_counter_probe (probe_at)
) ENGINE InnoDB ${bytes}
--;
-- What a running job holds, so that the end of its run gives back what was taken.
CREATE TABLE IF NOT EXISTS mutirao_slot (
    job bigint NOT NULL,
    counter bigint NOT NULL,
    PRIMARY KEY (job, counter)
) ENGINE InnoDB ${bytes}
--;
-- Jobs that would be one too many. They left their lanes for the year 9999, so no claim meets them
-- again before one of those that run has ended. `late`: it took turns, and takes none any more, as it
-- is tried again.
CREATE TABLE IF NOT EXISTS mutirao_parked (
    job bigint PRIMARY KEY,
    counter bigint NOT NULL,
    priority smallint NOT NULL,
    run_at bigint NOT NULL,
    late boolean NOT NULL DEFAULT false,
    INDEX mutirao_parked_order (counter, late, priority, run_at, job)
) ENGINE InnoDB ${bytes}
