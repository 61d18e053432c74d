-- What happened, added up by the hour, so that views need not read the whole history. Who adds it up is a
-- statement of the dialect.

-- All attempts that finished before this moment are added up, but for those that came later and say so
-- (`came_late`). Nothing is under way beside the only writer: `closing` is the same, and `seen` empty.
CREATE TABLE mutirao_rolled (
    one integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    until integer NOT NULL,
    closing integer NOT NULL,
    seen text NOT NULL
)
--;
-- What was done in each hour, as far as it is added up: `durations` has how many attempts took how
-- many seconds, to two digits. It outlives the attempts. Times are as views show them, for the order.
CREATE TABLE mutirao_hour (
    hour text NOT NULL,
    queue text NOT NULL,
    task text NOT NULL,
    outcome text NOT NULL,
    attempts integer NOT NULL,
    seconds real NOT NULL,
    durations text NOT NULL,
    p50 real NOT NULL,
    p95 real NOT NULL,
    p99 real NOT NULL,
    PRIMARY KEY (hour, queue, task, outcome)
) WITHOUT ROWID
--;
-- For the last hours, the busiest tasks first.
CREATE INDEX mutirao_hour_attempts ON mutirao_hour (hour, attempts)
--;
-- How many finished jobs there are, by the hour in which they finished, as far as they are added up. A
-- journal: whoever deletes some appends a negative number.
CREATE TABLE mutirao_kept (
    queue text NOT NULL,
    outcome text NOT NULL,
    hour integer NOT NULL,
    jobs integer NOT NULL
)
--;
CREATE INDEX mutirao_kept_queue ON mutirao_kept (queue, outcome, hour, jobs)
--;
-- Errors, as far as they are added up. It outlives the attempts.
CREATE TABLE mutirao_error (
    task text NOT NULL,
    error_type text NOT NULL,
    message text NOT NULL,
    jobs integer NOT NULL,
    attempts integer NOT NULL,
    first_at text NOT NULL,
    last_at text NOT NULL,
    PRIMARY KEY (task, error_type, message)
)
--;
CREATE INDEX mutirao_error_last_at ON mutirao_error (last_at)
--;
-- Live jobs as they were counted last, where they are too many to be counted whenever somebody looks.
CREATE TABLE mutirao_backlog (
    queue text NOT NULL,
    state text NOT NULL,
    jobs integer NOT NULL,
    since integer,
    counted_at integer NOT NULL,
    PRIMARY KEY (queue, state)
) WITHOUT ROWID
--;
CREATE TRIGGER mutirao_attempt_late AFTER INSERT ON mutirao_attempt
WHEN NEW.finished_at < (SELECT until FROM mutirao_rolled)
BEGIN
    UPDATE mutirao_attempt SET came_late = 1 WHERE job = NEW.job AND run = NEW.run;
END
--;
-- Takes finished jobs that are added up from the number of those kept.
CREATE TRIGGER mutirao_attempt_gone AFTER DELETE ON mutirao_attempt
WHEN OLD.came_late IS NULL AND OLD.outcome IN ('succeeded', 'dead', 'cancelled')
BEGIN
    INSERT INTO mutirao_kept (queue, outcome, hour, jobs)
    SELECT queue, OLD.outcome, OLD.finished_at - OLD.finished_at % 3600000000, -1
    FROM mutirao_job
    WHERE id = OLD.job AND OLD.finished_at < (SELECT until FROM mutirao_rolled);
END
--;
CREATE TRIGGER mutirao_job_gone AFTER DELETE ON mutirao_job
BEGIN
    INSERT INTO mutirao_kept (queue, outcome, hour, jobs)
    SELECT OLD.queue, outcome, finished_at - finished_at % 3600000000, -1
    FROM mutirao_attempt
    WHERE job = OLD.id AND outcome IN ('succeeded', 'dead', 'cancelled') AND came_late IS NULL
      AND finished_at < (SELECT until FROM mutirao_rolled);
END
