-- What happened, added up by the hour, so that views need not read the whole history. Who adds it up is a
-- statement of the dialect.

-- All attempts that finished before this moment are added up, but for those that came later and say so
-- (`came_late`). `closing` is the same, and `seen` empty: here locks tell what is under way.
CREATE TABLE IF NOT EXISTS mutirao_rolled (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    until bigint NOT NULL,
    closing bigint NOT NULL,
    seen text NOT NULL
) ENGINE InnoDB COLLATE utf8mb4_nopad_bin
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
) ENGINE InnoDB COLLATE utf8mb4_nopad_bin
--;
-- How many finished jobs there are, by the hour in which they finished, as far as they are added up. A
-- journal: whoever deletes some appends a negative number.
CREATE TABLE IF NOT EXISTS mutirao_kept (
    queue varchar(100) NOT NULL,
    outcome varchar(20) NOT NULL,
    hour bigint NOT NULL,
    jobs bigint NOT NULL,
    INDEX mutirao_kept_queue (queue, outcome, hour, jobs)
) ENGINE InnoDB COLLATE utf8mb4_nopad_bin
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
) ENGINE InnoDB COLLATE utf8mb4_nopad_bin
--;
-- Live jobs as they were counted last, where they are too many to be counted whenever somebody looks.
CREATE TABLE IF NOT EXISTS mutirao_backlog (
    queue varchar(100) NOT NULL,
    state varchar(20) NOT NULL,
    jobs bigint NOT NULL,
    since bigint,
    counted_at bigint NOT NULL,
    PRIMARY KEY (queue, state)
) ENGINE InnoDB COLLATE utf8mb4_nopad_bin
--;
-- An attempt that finished long ago may have come late. Whoever writes one shares a lock until the commit:
-- who adds up waits for none of them, and adds nothing up meanwhile (`Words.closed`).
CREATE OR REPLACE TRIGGER mutirao_attempt_late BEFORE INSERT ON mutirao_attempt FOR EACH ROW
    IF NEW.finished_at < ${now} - 45000000 THEN
        SET NEW.came_late = (
            SELECT 1 FROM mutirao_lock WHERE name = 'hours' LOCK IN SHARE MODE
        );
        SET NEW.came_late = (SELECT nullif(NEW.finished_at < until, false) FROM mutirao_rolled);
    END IF
--;
-- Takes finished jobs that are added up from the number of those kept.
CREATE OR REPLACE TRIGGER mutirao_attempt_gone AFTER DELETE ON mutirao_attempt FOR EACH ROW
    INSERT INTO mutirao_kept (queue, outcome, hour, jobs)
    SELECT queue, OLD.outcome, OLD.finished_at - OLD.finished_at MOD 3600000000, -1
    FROM mutirao_job
    WHERE id = OLD.job AND OLD.came_late IS NULL
      AND OLD.outcome IN ('succeeded', 'dead', 'cancelled')
      AND OLD.finished_at < (SELECT until FROM mutirao_rolled)
--;
CREATE OR REPLACE TRIGGER mutirao_job_gone AFTER DELETE ON mutirao_job FOR EACH ROW
    INSERT INTO mutirao_kept (queue, outcome, hour, jobs)
    SELECT OLD.queue, outcome, finished_at - finished_at MOD 3600000000, -1
    FROM mutirao_attempt
    WHERE job = OLD.id AND outcome IN ('succeeded', 'dead', 'cancelled') AND came_late IS NULL
      AND finished_at < (SELECT until FROM mutirao_rolled)
