-- By which argument the jobs of a task take turns. Written by whoever has it in its code.
CREATE TABLE mutirao_fair (
    task text PRIMARY KEY CHECK (length(task) BETWEEN 1 AND 200),
    by text NOT NULL CHECK (length(by) BETWEEN 1 AND 200)
) WITHOUT ROWID
--;
-- Whose turn came last. There is one writer at a time: one row serves all workers.
CREATE TABLE mutirao_served (
    worker integer NOT NULL DEFAULT 0,
    lane text NOT NULL,
    fair text NOT NULL,
    PRIMARY KEY (worker, lane)
) WITHOUT ROWID
--;
-- Whose turn a job takes: = and the value; empty for jobs that take no turns. Its `queue` is then the
-- character 31 and the one that was asked for, and no claim finds it in the queue's other lanes.
ALTER TABLE mutirao_live ADD COLUMN fair text NOT NULL DEFAULT ''
--;
CREATE INDEX mutirao_live_fair ON mutirao_live (queue, fair, priority, run_at, id)
WHERE worker IS NULL AND fair <> ''
--;
DROP TRIGGER mutirao_job_enqueued
--;
CREATE TRIGGER mutirao_job_enqueued AFTER INSERT ON mutirao_job
BEGIN
    INSERT INTO mutirao_live (id, queue, priority, run_at, fair)
    SELECT NEW.id, CASE WHEN f.task IS NULL THEN NEW.queue ELSE char(31) || NEW.queue END,
           NEW.priority, NEW.run_at, CASE WHEN f.task IS NULL THEN '' ELSE
               '=' || substr(coalesce(json_extract(NEW.args, '$."' || f.by || '"'), ''), 1, 200)
           END
    FROM (SELECT 1) LEFT JOIN mutirao_fair f ON f.task = NEW.task;
END
