-- Jobs that a broker carries: handed over, and claimed by what it brings back.
--
-- A job whose doorbell was rung waits in a lane of its own, which no claim reads: its `queue` is the
-- character 29 and the lane it came from, and its `run_at` when the doorbell was rung. So nothing else
-- knows of brokers, and no column is there for them. While the job runs it stays there, as no index is
-- written to then (1,056 -> 872 bytes of WAL for a carried job, and less of the server); whatever has
-- it wait again brings it back to where it came from.

-- Rings the doorbells of the first due jobs of some lanes, up to `_most`; not of paused queues.
CREATE FUNCTION mutirao_ring(
    _queues text[], _priorities smallint[], _run_ats timestamptz[], _ids bigint[], _most integer,
    _now timestamptz
) RETURNS TABLE (
    id bigint, run integer, queue text, priority smallint, task text, "group" text
) LANGUAGE plpgsql VOLATILE
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := coalesce(_now, statement_timestamp());
    found bigint[];
    paused text[];
BEGIN
    IF EXISTS (SELECT FROM mutirao_limit) THEN
        paused := mutirao_paused();
    END IF;
    found := mutirao_lock_due(
        _queues, _priorities, array_replace(_run_ats, '0001-06-01 00:00Z', '-infinity'), _ids, _most,
        NULL, paused, moment
    );
    RETURN QUERY
    WITH rung AS (
        UPDATE mutirao_live l SET queue = E'\x1d' || l.queue, run_at = moment
        WHERE l.id = ANY(found)
        RETURNING l.id, l.run
    )
    SELECT r.id, r.run, j.queue, j.priority, j.task, j."group" FROM rung r
    CROSS JOIN LATERAL (SELECT * FROM mutirao_job WHERE id = r.id OFFSET 0) j;
END
$$
--;
-- Claims the jobs of doorbells that still wait with that run. Where there are limits, all are back in their
-- lanes first, as one may park them; what is not claimed is rung again.
CREATE FUNCTION mutirao_answer(_worker bigint, _ids bigint[], _runs integer[], _now timestamptz)
RETURNS TABLE (
    ${claim_columns}
) LANGUAGE plpgsql VOLATILE
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := coalesce(_now, statement_timestamp());
    found bigint[];
    paused text[];
BEGIN
    PERFORM mutirao_require(_worker);
    PERFORM pg_advisory_xact_lock_shared(hashtext('mutirao limits'));
    found := ARRAY(
        SELECT w.id FROM unnest(_ids, _runs) AS rung (id, run)
        CROSS JOIN LATERAL (
            SELECT l.id FROM mutirao_live l
            WHERE l.id = rung.id AND l.run = rung.run AND l.worker IS NULL AND l.run_at <= moment
            FOR UPDATE SKIP LOCKED
        ) w
    );
    IF EXISTS (SELECT FROM mutirao_limit) THEN
        paused := mutirao_paused();
        UPDATE mutirao_live SET queue = ltrim(queue, E'\x1d') WHERE id = ANY(found);
        found := ARRAY(
            SELECT l.id FROM unnest(found) AS one (id) JOIN mutirao_live l ON l.id = one.id
            WHERE l.queue <> ALL(paused)
        );
        found := (SELECT a.taken FROM mutirao_admit(found, cardinality(found), moment) a);
    END IF;
    ${take_found: ; cut_off; j.queue; taken; }
END
$$
