-- How jobs come in: whoever inserts into mutirao_job enqueues.
CREATE TRIGGER mutirao_job_enqueued AFTER INSERT ON mutirao_job
BEGIN
    INSERT INTO mutirao_live (id, queue, priority, run_at, fairness)
    SELECT NEW.id, CASE WHEN f.task IS NULL THEN NEW.queue ELSE char(31) || NEW.queue END,
           NEW.priority, NEW.run_at, CASE WHEN f.task IS NULL THEN '' ELSE
               '=' || substr(coalesce(json_extract(NEW.args, '$."' || f.by || '"'), ''), 1, 200)
           END
    FROM (SELECT 1) LEFT JOIN mutirao_fairness f ON f.task = NEW.task;
END
