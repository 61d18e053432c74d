-- What happened, added up by the hour, so that views need not read the whole history. Who adds it up is a
-- statement of the dialect.

-- All attempts that finished before this moment are added up, but for those that came later and say so
-- (`came_late`). `closing` is the same, and `seen` empty: here locks tell what is under way.
CREATE TABLE IF NOT EXISTS mutirao_rolled (
    one boolean PRIMARY KEY DEFAULT true CHECK (one = true),
    until bigint NOT NULL,
    closing bigint NOT NULL,
    seen text NOT NULL
) ENGINE InnoDB ${bytes}
--;
-- What was done in each hour, as far as it is added up: `durations` has how many attempts took how
-- many seconds, to two digits. It outlives the attempts. Times are as views show them.
CREATE TABLE IF NOT EXISTS mutirao_hour (
    hour datetime(6) NOT NULL,
    queue varchar(100) NOT NULL,
    task varchar(200) NOT NULL,
    outcome varchar(20) NOT NULL,
    attempts bigint NOT NULL,
    seconds double NOT NULL,
    durations longtext NOT NULL,
    p50 double NOT NULL,
    p95 double NOT NULL,
    p99 double NOT NULL,
    PRIMARY KEY (hour, queue, task, outcome),
    -- For the last hours, the busiest tasks first.
    INDEX mutirao_hour_attempts (hour, attempts)
) ENGINE InnoDB ${bytes}
--;
-- How many finished jobs there are, by the hour in which they finished, as far as they are added up. A
-- journal: who prunes appends negative numbers.
CREATE TABLE IF NOT EXISTS mutirao_kept (
    queue varchar(100) NOT NULL,
    outcome varchar(20) NOT NULL,
    hour bigint NOT NULL,
    jobs bigint NOT NULL,
    INDEX mutirao_kept_queue (queue, outcome, hour, jobs)
) ENGINE InnoDB ${bytes}
--;
-- Errors, as far as they are added up. It outlives the attempts.
CREATE TABLE IF NOT EXISTS mutirao_error (
    task varchar(200) NOT NULL,
    error_type varchar(200) NOT NULL,
    message varchar(200) NOT NULL,
    jobs bigint NOT NULL,
    attempts bigint NOT NULL,
    first_at datetime(6) NOT NULL,
    last_at datetime(6) NOT NULL,
    PRIMARY KEY (task, error_type, message),
    INDEX mutirao_error_last_at (last_at)
) ENGINE InnoDB ${bytes}
--;
-- Live jobs as they were counted last, where they are too many to be counted whenever somebody looks.
CREATE TABLE IF NOT EXISTS mutirao_backlog (
    queue varchar(100) NOT NULL,
    state varchar(20) NOT NULL,
    jobs bigint NOT NULL,
    since bigint,
    counted_at bigint NOT NULL,
    PRIMARY KEY (queue, state)
) ENGINE InnoDB ${bytes}
