DROP TRIGGER IF EXISTS mutirao_job_enqueued
--;
-- How jobs come in: whoever inserts into mutirao_job enqueues.
CREATE TRIGGER mutirao_job_enqueued AFTER INSERT ON mutirao_job
BEGIN
    INSERT INTO mutirao_live (id, queue, priority, run_at, fairness)
    SELECT NEW.id, CASE WHEN f.task IS NULL THEN NEW.queue ELSE char(31) || NEW.queue END,
           NEW.priority,
           CASE WHEN NEW.key IS NOT NULL AND NEW.id IN (SELECT job FROM mutirao_unjudged)
               THEN ${parked} ELSE NEW.run_at END,
           CASE WHEN f.task IS NULL THEN '' ELSE
               '=' || substr(coalesce(
                   (SELECT value FROM json_each(NEW.args) WHERE key = f.by),
                   CASE f.by WHEN 'tenant' THEN NEW.tenant WHEN 'group' THEN NEW."group" END, ''
               ), 1, 200)
           END
    FROM (SELECT 1) LEFT JOIN mutirao_fairness f ON f.task = NEW.task;
END
--;
-- A job that a supersede rule has to be asked about is parked, by either of the two triggers, as these come
-- in no order that is promised. What the library enqueues under a rule goes on in the same transaction.
CREATE TRIGGER IF NOT EXISTS mutirao_job_unjudged AFTER INSERT ON mutirao_job
WHEN NEW.key IS NOT NULL AND NEW.redrive_of IS NULL AND NEW.on_dead_of IS NULL
BEGIN
    INSERT INTO mutirao_unjudged (job, scope, task, queue, key)
    SELECT NEW.id, coalesce(t.scope, ''), CASE WHEN t.scope IS NULL THEN NEW.task ELSE '' END,
           CASE WHEN t.scope IS NULL THEN NEW.queue ELSE '' END, NEW.key
    FROM mutirao_supersede_task t WHERE t.task = NEW.task;
    UPDATE mutirao_live SET run_at = ${parked}
    WHERE id = (SELECT job FROM mutirao_unjudged WHERE job = NEW.id);
END
