-- Who holds what, and what becomes of it when its worker is gone.

-- The jobs of a worker that are to be cancelled. A function, so that they are looked for in their own
-- index whatever the statistics say.
CREATE FUNCTION mutirao_cancelled(_worker bigint) RETURNS bigint[] LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN ARRAY(SELECT id FROM mutirao_live WHERE cancel AND worker = _worker);
END
$$
--;
-- The jobs that some workers hold, or all (NULL); with `_orphans` those, too, whose worker is gone. No
-- index tells who runs what, so all lanes are looked through for what has been due: that takes as long
-- as there are such jobs. One hour more, as the clock may have been set back since the claim, by a
-- failover perhaps.
CREATE FUNCTION mutirao_held(_workers bigint[], _orphans boolean, _now timestamptz)
RETURNS bigint[] LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    latest timestamptz := coalesce(_now, statement_timestamp()) + interval '1 hour';
BEGIN
    IF cardinality(_workers) = 0 AND NOT _orphans THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        WITH RECURSIVE lane AS (
            (SELECT queue, priority FROM mutirao_live WHERE run_at < ${beyond}
             ORDER BY queue, priority LIMIT 1)
            UNION ALL
            SELECT next.* FROM lane CROSS JOIN LATERAL (
                SELECT l.queue, l.priority FROM mutirao_live l
                WHERE l.run_at < ${beyond} AND (l.queue, l.priority) > (lane.queue, lane.priority)
                ORDER BY l.queue, l.priority LIMIT 1
            ) next
        )
        SELECT h.id FROM lane CROSS JOIN LATERAL (
            SELECT l.id, l.worker FROM mutirao_live l
            WHERE l.queue = lane.queue AND l.priority = lane.priority
              AND l.run_at < ${beyond} AND l.run_at <= latest AND l.worker IS NOT NULL OFFSET 0
        ) h
        WHERE _workers IS NULL OR h.worker = ANY(_workers)
           OR _orphans AND h.worker NOT IN (SELECT id FROM mutirao_worker)
    );
END
$$
--;
-- Writes down that attempts were lost with their workers, and lets the jobs wait again. The caller has
-- their live rows.
CREATE FUNCTION mutirao_lose(_ids bigint[], _now timestamptz)
RETURNS TABLE (id bigint, run integer) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO mutirao_attempt
        (job, run, attempt, worker, outcome, started_at, finished_at, error_type, error, came_late)
    SELECT id, run, attempt, worker, 'lost', claimed_at, _now, 'WorkerLost',
           'the heartbeat of worker ' || worker || ' stopped',
           nullif(_now < (SELECT mutirao_closed()), false)
    FROM mutirao_live WHERE id = ANY(_ids);
    RETURN QUERY UPDATE mutirao_live
    SET worker = NULL, claimed_at = NULL, run = run % 2147483647 + 1, lost = least(lost, 30000) + 1,
        queue = ltrim(queue, E'\x1d')
    WHERE id = ANY(_ids) RETURNING id, run;
END
$$
--;
-- The new run fences the vanished worker off, should it only have been slow. A worker that was
-- suspended may claim once more before it hears that it is gone, and vanish: hence the orphans. They
-- are looked for now and then only, because that looks through all that is due.
-- Waits for no lock, and for counters of limits no longer than a second: a machine paused inside a
-- transaction keeps its locks for as long as the server believes in its connection, and must not hold
-- up the rescue of everybody else's jobs.
CREATE FUNCTION mutirao_rescue(_orphans boolean, _now timestamptz)
RETURNS TABLE (id bigint, run integer) LANGUAGE plpgsql VOLATILE
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := coalesce(_now, statement_timestamp());
    gone bigint[];
    held bigint[];
BEGIN
    WITH expired AS (
        DELETE FROM mutirao_worker WHERE id = ANY(ARRAY(
            SELECT id FROM mutirao_worker WHERE expires_at < moment FOR UPDATE SKIP LOCKED
        )) RETURNING id
    )
    SELECT coalesce(array_agg(id), '{}') INTO gone FROM expired;
    held := mutirao_held(gone, _orphans, moment);
    -- Which workers these are is settled here: whoever claims one of the jobs from now on is alive.
    IF _orphans THEN
        gone := gone || ARRAY(
            SELECT DISTINCT worker FROM mutirao_live
            WHERE id = ANY(held) AND worker NOT IN (SELECT id FROM mutirao_worker)
        );
    END IF;
    RETURN QUERY SELECT l.id, l.run FROM mutirao_lose(ARRAY(
        SELECT id FROM mutirao_live
        WHERE id = ANY(held) AND worker = ANY(gone) FOR UPDATE SKIP LOCKED
    ), moment) l ORDER BY l.id;
    IF FOUND THEN
        PERFORM mutirao_wake();
    END IF;
    IF EXISTS (SELECT FROM mutirao_counter) THEN -- limits
        BEGIN
            PERFORM mutirao_mend(moment);
        EXCEPTION
            WHEN lock_not_available THEN
                NULL; -- the next one mends them
        END;
    END IF;
END
$$
--;
-- The same of runs that a worker had begun before it was taken for gone, and knows of.
CREATE FUNCTION mutirao_lose_runs(_ids bigint[], _runs integer[], _now timestamptz)
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_nestloop = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT l.id FROM mutirao_lose(ARRAY(
        SELECT v.id FROM mutirao_live v JOIN unnest(_ids, _runs) AS s (id, run)
            ON v.id = s.id AND v.run = s.run
        WHERE v.id = ANY(_ids) AND v.claimed_at IS NOT NULL FOR UPDATE OF v SKIP LOCKED
    ), coalesce(_now, statement_timestamp())) l;
    IF FOUND THEN
        PERFORM mutirao_wake();
    END IF;
    IF EXISTS (SELECT FROM mutirao_counter) THEN -- limits
        PERFORM mutirao_let_go(_ids, _now);
    END IF;
END
$$
