-- Writes down that attempts were lost with their workers, and lets the jobs wait again. The caller has
-- their live rows.
CREATE OR REPLACE FUNCTION mutirao_lose(_ids bigint[], _now timestamptz)
RETURNS TABLE (id bigint, run integer) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO mutirao_attempt
        (job, run, attempt, worker, outcome, started_at, finished_at, error_type, error, came_late)
    SELECT id, run, attempt, worker, 'lost', claimed_at, _now, 'WorkerLost',
           E'its worker\'s heartbeat stopped\nworker ' || worker,
           nullif(_now < (SELECT mutirao_closed()), false)
    FROM mutirao_live WHERE id = ANY(_ids);
    RETURN QUERY UPDATE mutirao_live
    SET worker = NULL, claimed_at = NULL, run = run % 2147483647 + 1, lost = least(lost, 30000) + 1,
        queue = ltrim(queue, E'\x1d')
    WHERE id = ANY(_ids) RETURNING id, run;
END
$$
