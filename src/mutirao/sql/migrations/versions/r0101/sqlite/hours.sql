CREATE TRIGGER IF NOT EXISTS mutirao_job_gone AFTER DELETE ON mutirao_job
BEGIN
    INSERT INTO mutirao_kept (queue, outcome, hour, jobs)
    SELECT OLD.queue, outcome, finished_at - finished_at % 3600000000, -1
    FROM mutirao_attempt
    WHERE job = OLD.id AND outcome IN ('succeeded', 'dead', 'cancelled') AND came_late IS NULL
      AND finished_at < (SELECT until FROM mutirao_rolled);
END
