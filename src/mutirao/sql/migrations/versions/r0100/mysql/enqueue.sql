-- How jobs come in: whoever inserts into mutirao_job enqueues.
CREATE OR REPLACE TRIGGER mutirao_job_enqueued AFTER INSERT ON mutirao_job FOR EACH ROW
    INSERT INTO mutirao_live (id, queue, priority, run_at, fairness)
    SELECT NEW.id, if(f.task IS NULL, NEW.queue, concat(x'1F', NEW.queue)), NEW.priority, NEW.run_at,
           if(f.task IS NULL, '', concat('=', left(coalesce(json_unquote(nullif(
               json_extract(NEW.args, concat('$."', f.`by`, '"')), 'null'
           )), ''), 200)))
    FROM (SELECT 1) one LEFT JOIN mutirao_fairness f ON f.task = NEW.task
