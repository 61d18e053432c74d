-- How workers learn what waits, and claim it.
--
-- What workers do to the live table is in functions, here and in settle.sql, rescue.sql, limits.sql and
-- fairness.sql, so that their plans can be pinned: to the planner 500 look-ups by key seem dearer than a
-- sequential scan of 100,000 rows, which takes ten times as long (settling 500 jobs: 78 ms instead of
-- 7), and statistics of a queue are out of date at once. One plan serves every call, so a call is not
-- planned either. A function that only these call carries no settings of its own, as theirs hold in it,
-- and each takes about a microsecond at every call.
-- Subqueries that cannot be pulled up (OFFSET 0) are looked into by key: a join that was planned
-- while the table held a few rows may walk it for each row of the other side, when it has grown.

-- What a claim is asked.
--: claim_arguments
    _worker bigint, _queues text[], _priorities smallint[], _run_ats timestamptz[], _ids bigint[],
    _most integer, _without text[], _now timestamptz
--;
-- What a claim returns: a row for each job.
--: claim_columns
    id bigint, run integer, attempt integer, task text, args text, queue text, priority smallint,
    run_at timestamptz, enqueued_at timestamptz, max_attempts integer, timeout double precision,
    key text, tags text, metadata text, traceparent text, redrive_of bigint, on_dead_of bigint,
    cancel boolean, lost smallint, cut_off smallint, tenant text, "group" text
--;
-- Limits: whoever makes or changes one waits until no claim goes on that does not know it.
--: begin_claim
    PERFORM mutirao_require(_worker);
    _run_ats := array_replace(_run_ats, '0001-06-01 00:00Z', '-infinity');
    PERFORM pg_advisory_xact_lock_shared(hashtext('mutirao limits'));
    IF EXISTS (SELECT FROM mutirao_limit) THEN
        paused := mutirao_paused();
    END IF;
--;
-- The jobs that were found become the worker's; `queue` may be the job's, or that of its lane.
--: take_found sets last_columns queue rows order
    RETURN QUERY
    WITH taken AS (
        UPDATE mutirao_live SET worker = _worker, run = run % 2147483647 + 1,
            attempt = least(attempt, 2147483646) + 1, claimed_at = moment${sets}
        WHERE id = ANY(found)
        RETURNING id, run, attempt, greatest(run_at, '0001-06-01 00:00Z') AS run_at, cancel, lost,
                  ${last_columns}
    )
    SELECT t.id, t.run, t.attempt, j.task, j.args::text, ${queue}, j.priority, t.run_at,
           j.enqueued_at, j.max_attempts, j.timeout, j.key, j.tags::text, j.metadata::text,
           j.traceparent, j.redrive_of, j.on_dead_of, t.cancel, t.lost, t.cut_off, j.tenant, j."group"
    FROM ${rows} t
    CROSS JOIN LATERAL (SELECT * FROM mutirao_job WHERE id = t.id OFFSET 0) j ${order};
--;
-- Limits: a last row without a job says that it is worth asking once more.
--: say_again
    IF again IS NOT NULL THEN
        id := 0;
        run := 0;
        attempt := 0;
        task := again;
        RETURN NEXT;
    END IF;
--;
-- Whether a live job `l` is of none of the tasks `_without`.
--: of_other_tasks
(_without IS NULL OR ((SELECT task FROM mutirao_job WHERE id = l.id) = ANY(_without)) IS NOT TRUE)
--;
-- A loose index scan: one descent of the index for each lane, however many jobs are in it. Programs
-- hold the years 1 to 9999 only: what somebody has set to an earlier time is told as of the year 1.
CREATE FUNCTION mutirao_lanes(_queues text[], _now timestamptz)
RETURNS TABLE (
    queue text, priority smallint, run_at timestamptz, id bigint, due_in double precision
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := coalesce(_now, statement_timestamp());
BEGIN
    RETURN QUERY
    WITH RECURSIVE head AS (
        (SELECT queue, priority, run_at, id FROM mutirao_live
         WHERE worker IS NULL AND run_at < ${beyond}
         ORDER BY queue, priority, run_at, id LIMIT 1)
        UNION ALL
        SELECT next.* FROM head CROSS JOIN LATERAL (
            SELECT l.queue, l.priority, l.run_at, l.id FROM mutirao_live l
            WHERE l.worker IS NULL AND l.run_at < ${beyond}
              AND (l.queue, l.priority) > (head.queue, head.priority)
            ORDER BY l.queue, l.priority, l.run_at, l.id LIMIT 1
        ) next
    )
    SELECT queue, priority, at, id, extract(epoch FROM at - moment)::double precision
    FROM head CROSS JOIN LATERAL (
        SELECT greatest(head.run_at, '0001-06-01 00:00Z') AS at
    ) shown
    WHERE _queues IS NULL OR queue = ANY(_queues) ORDER BY priority, queue;
END
$$
--;
-- A worker that was taken for gone claims nothing more: nobody would rescue that from it, nor know
-- that it was begun. Not a part of the claims, which would be planned with it. Where sessions have
-- another isolation level by default, what is settled next to a commit would not see what that wrote.
-- Claims wait for a lock no longer than a second: one whose connection was given up would go on waiting,
-- with the rows it has locked, and in the end take jobs that nobody knows of.
CREATE FUNCTION mutirao_require(_worker bigint) RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM mutirao_worker WHERE id = _worker) THEN
        RAISE EXCEPTION USING ERRCODE = 'MTGON',
            MESSAGE = 'worker ' || _worker || ' is not registered (any more)';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING ERRCODE = 'MTISO', MESSAGE = 'the session''s level is '
            || current_setting('transaction_isolation');
    END IF;
END
$$
--;
-- Whether a job waits in a lane, at its bound or behind, and is due. Inlined where it is used, so that
-- the lane's index serves it; the condition on the year is that index's.
CREATE FUNCTION mutirao_is_due(
    _live mutirao_live, _queue text, _priority smallint, _run_at timestamptz, _id bigint,
    _now timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN (_live).worker IS NULL AND (_live).queue = _queue AND (_live).priority = _priority
    AND (_live).run_at < ${beyond}
    AND ((_live).run_at, (_live).id) >= (_run_at, _id) AND (_live).run_at <= _now
--;
-- Locks the first due jobs of some lanes, up to `_most`; none of the tasks `_without`, nor of the queues
-- `_paused`. What others are taking is passed over.
-- First the same from each lane in front: what came together lies on the same pages. With a million
-- jobs in 1,000 lanes that is 46 instead of 58 microseconds for a job.
CREATE FUNCTION mutirao_lock_due(
    _queues text[], _priorities smallint[], _run_ats timestamptz[], _ids bigint[], _most integer,
    _without text[], _paused text[], _now timestamptz
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found bigint[] := '{}';
    front integer := 1; -- lanes of the first priority
    share integer; -- of each lane
    passed integer := 0; -- in each lane in front, because they are locked already
BEGIN
    IF cardinality(_priorities) > 1 THEN
        front := (
            SELECT coalesce(min(u.place) - 1, cardinality(_priorities))
            FROM unnest(_priorities) WITH ORDINALITY AS u (priority, place)
            WHERE u.priority <> _priorities[1]
        );
    END IF;
    share := (_most + front - 1) / front;
    LOOP
        found := found || ARRAY(
            SELECT w.id FROM unnest(_queues, _priorities, _run_ats, _ids)
                WITH ORDINALITY AS lane (queue, priority, run_at, id, place)
            CROSS JOIN LATERAL (
                SELECT l.id FROM mutirao_live l
                WHERE mutirao_is_due(l, lane.queue, lane.priority, lane.run_at, lane.id, _now)
                  AND ${of_other_tasks}
                ORDER BY l.run_at, l.id
                OFFSET CASE WHEN lane.place <= front THEN passed ELSE 0 END LIMIT share
                FOR UPDATE SKIP LOCKED
            ) w
            WHERE (share = _most OR lane.place <= front)
              AND (_paused IS NULL OR lane.queue <> ALL(_paused))
            LIMIT _most - cardinality(found)
        );
        EXIT WHEN share = _most OR cardinality(found) = _most;
        passed := share;
        share := _most;
    END LOOP;
    RETURN found;
END
$$
--;
CREATE FUNCTION mutirao_claim(
    ${claim_arguments}
) RETURNS TABLE (
    ${claim_columns}
) LANGUAGE plpgsql VOLATILE
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := coalesce(_now, statement_timestamp());
    found bigint[];
    paused text[]; -- NULL: there are no limits
    again text;
BEGIN
    ${begin_claim}
    found := mutirao_lock_due(
        _queues, _priorities, _run_ats, _ids, _most, _without, paused, moment
    );
    IF paused IS NOT NULL THEN
        SELECT a.taken, a.again INTO found, again FROM mutirao_admit(found, _most, moment) a;
    END IF;
    ${take_found: ; cut_off; j.queue; taken; }
    ${say_again}
END
$$
