-- How runs end: for good, to be tried again, or given back.

-- The live jobs that the end of these will touch: they themselves, those that wait for them, and for
-- which they wait.
CREATE FUNCTION mutirao_around(_jobs bigint[]) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN _jobs || ARRAY(
        SELECT k.job FROM mutirao_key k WHERE k.after = ANY(_jobs)
        UNION ALL
        SELECT t.job FROM mutirao_supersede_wait t WHERE t.after = ANY(_jobs)
        UNION ALL
        SELECT t.after FROM mutirao_supersede_wait t WHERE t.job = ANY(_jobs)
    );
END
$$
--;
-- Locks what the end of these jobs will touch, in the order in which everybody locks: live rows by id,
-- with those that this transaction would lock when it commits; then counters by id. Who comes to wait
-- for one of them waits for this lock first; who came meanwhile is locked in order, too, in another
-- try. In an old snapshot it could not be seen who waits.
CREATE FUNCTION mutirao_hold(_jobs bigint[], _counters boolean DEFAULT true)
RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_nestloop = on SET enable_indexscan = on SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    noted bigint[] := string_to_array(nullif(current_setting('mutirao.ahead', true), ''), ',');
    held bigint[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING ERRCODE = 'MTLEV',
            MESSAGE = 'the transaction is ' || upper(current_setting('transaction_isolation'));
    END IF;
    LOOP
        held := mutirao_around(_jobs) || CASE WHEN noted <> '{}' THEN mutirao_ahead(noted) END;
        BEGIN
            PERFORM FROM mutirao_live WHERE id = ANY(held) ORDER BY id FOR UPDATE;
            EXIT WHEN mutirao_around(_jobs) <@ held AND (noted IS NULL OR mutirao_ahead(noted) <@ held);
            RAISE EXCEPTION USING ERRCODE = 'MTUND';
        EXCEPTION
            WHEN SQLSTATE 'MTUND' THEN
                NULL; -- and nothing is locked
        END;
    END LOOP;
    IF noted IS NOT NULL THEN
        PERFORM set_config('mutirao.ahead', '', true);
    END IF;
    IF _counters AND EXISTS (SELECT FROM mutirao_counter) THEN
        PERFORM FROM mutirao_counter WHERE id = ANY(ARRAY(
            SELECT s.counter FROM unnest(_jobs) AS u (job)
            CROSS JOIN LATERAL (SELECT counter FROM mutirao_slot WHERE job = u.job OFFSET 0) s
        )) ORDER BY id FOR UPDATE;
    END IF;
END
$$
--;
-- Joined on id and run. `claimed_at` tells that the job is still held: a run that was given back may
-- not settle any more. Where all succeeded, which is the rule, the arrays of outcomes and errors are
-- NULL and do not travel; nor do the settled ids, where none was stale. Times are so many microseconds
-- ago; multiplying intervals would cost more.
-- The ids are looked up first, then joined by hash. A nested loop that was planned while the table
-- was nearly empty walks all of it, and its plan is kept after the table has grown.
CREATE FUNCTION mutirao_finish(
    _ids bigint[], _runs integer[], _outcomes text[], _started bigint[],
    _finished bigint[], _error_types text[], _errors text[], _now timestamptz
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_nestloop = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    micros bigint := extract(epoch FROM coalesce(_now, statement_timestamp())) * 1000000;
    settled bigint[];
BEGIN
    IF current_setting('mutirao.ahead', true) <> '' THEN
        PERFORM mutirao_hold(_ids); -- a handler's transaction, in which it enqueued jobs with keys
    END IF;
    WITH done AS (
        DELETE FROM mutirao_live l
        USING unnest(_ids, _runs, _outcomes, _started, _finished, _error_types, _errors)
            AS s (id, run, outcome, started, finished, error_type, error)
        WHERE l.id = ANY(_ids) AND l.id = s.id AND l.run = s.run AND l.claimed_at IS NOT NULL
        RETURNING l.id, l.run, l.attempt, l.worker, s.outcome, s.started, s.finished,
                  s.error_type, s.error
    ), told AS (
        INSERT INTO mutirao_attempt
            (job, run, attempt, worker, outcome, started_at, finished_at, error_type, error, came_late)
        SELECT id, run, attempt, worker, coalesce(outcome, 'succeeded'),
               to_timestamp((micros - started) / 1e6::float8),
               to_timestamp((micros - finished) / 1e6::float8), error_type, error,
               nullif(to_timestamp((micros - finished) / 1e6::float8) < (SELECT mutirao_closed()), false)
        FROM done RETURNING job
    )
    SELECT coalesce(array_agg(job), '{}') INTO settled FROM told;
    IF EXISTS (SELECT FROM mutirao_counter) THEN -- limits
        PERFORM mutirao_give_back(settled, _now);
    END IF;
    RETURN CASE WHEN cardinality(settled) < cardinality(_ids) THEN settled END;
END
$$
--;
-- The success of the one job whose handler's transaction this is, as its last statement: the COMMIT may
-- travel with it, so what must not be committed raises. Returns the lanes that limits call others to.
CREATE FUNCTION mutirao_complete(_job bigint, _run integer, _started bigint)
RETURNS text LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment timestamptz := statement_timestamp();
BEGIN
    IF current_setting('mutirao.ahead', true) <> '' THEN
        PERFORM mutirao_hold(ARRAY[_job]); -- it enqueued jobs with keys
    END IF;
    WITH done AS (
        DELETE FROM mutirao_live WHERE id = _job AND run = _run AND claimed_at IS NOT NULL
        RETURNING id, run, attempt, worker
    )
    INSERT INTO mutirao_attempt
        (job, run, attempt, worker, outcome, started_at, finished_at, came_late)
    SELECT id, run, attempt, worker, 'succeeded', moment - _started * interval '1 microsecond',
           moment, nullif(moment < (SELECT mutirao_closed()), false)
    FROM done;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'MTSTL',
            MESSAGE = format('run %s does not hold job %s', _run, _job);
    END IF;
    IF EXISTS (SELECT FROM mutirao_counter) THEN -- limits
        PERFORM mutirao_give_back(ARRAY[_job], NULL);
    END IF;
    RETURN current_setting('mutirao.called', true);
END
$$
--;
-- Like workers' other statements for live rows it waits for a lock no longer than a second: one row that
-- somebody has locked is settled later, by itself.
-- `_back`: 0 counts as an attempt, 1 does not; nor do the others, after which what is counted in
-- `lost` and `cut_off` goes on: 2, and with one more, 3 (cut off) and 4 (lost). -1 counts as an attempt, after
-- which the job takes no turns any more.
CREATE FUNCTION mutirao_resume(
    _worker bigint, _ids bigint[], _runs integer[], _outcomes text[],
    _started bigint[], _finished bigint[], _error_types text[],
    _errors text[], _back integer[], _ats timestamptz[], _afters double precision[],
    _now timestamptz
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_nestloop = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment timestamptz := coalesce(_now, statement_timestamp());
    micros bigint := extract(epoch FROM moment) * 1000000;
BEGIN
    RETURN QUERY
    WITH waiting AS (
        UPDATE mutirao_live l
        SET worker = NULL, claimed_at = NULL,
            queue = ltrim(l.queue, CASE WHEN s.back < 0 THEN E'\x1d\x1f' ELSE E'\x1d' END),
            attempt = l.attempt - (s.back > 0)::integer,
            lost = CASE
                WHEN s.back < 2 THEN 0 WHEN s.back = 4 THEN least(l.lost, 30000) + 1 ELSE l.lost
            END,
            cut_off = CASE
                WHEN s.back < 2 THEN 0 WHEN s.back = 3 THEN least(l.cut_off, 30000) + 1
                ELSE l.cut_off
            END,
            run_at = CASE
                WHEN l.cancel THEN moment
                ELSE coalesce(s.at, moment + coalesce(s.after, 0) * interval '1 second')
            END
        FROM unnest(
            _ids, _runs, _outcomes, _started, _finished, _error_types, _errors, _back, _ats,
            _afters
        ) AS s (id, run, outcome, started, finished, error_type, error, back, at, after)
        WHERE l.id = ANY(_ids) AND l.id = s.id AND l.run = s.run AND l.claimed_at IS NOT NULL
        RETURNING l.id, l.run, l.attempt + (s.back > 0)::integer AS attempt, s.outcome, s.started,
                  s.finished, s.error_type, s.error
    )
    INSERT INTO mutirao_attempt
        (job, run, attempt, worker, outcome, started_at, finished_at, error_type, error, came_late)
    SELECT id, run, attempt, _worker, outcome, to_timestamp((micros - started) / 1e6::float8),
           to_timestamp((micros - finished) / 1e6::float8), error_type, error,
           nullif(to_timestamp((micros - finished) / 1e6::float8) < (SELECT mutirao_closed()), false)
    FROM waiting RETURNING job;
    IF EXISTS (SELECT FROM mutirao_counter) THEN -- limits
        PERFORM mutirao_let_go(_ids, _now);
    END IF;
END
$$
--;
CREATE FUNCTION mutirao_release(_ids bigint[], _runs integer[])
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_nestloop = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    UPDATE mutirao_live l
    SET worker = NULL, claimed_at = NULL, attempt = l.attempt - 1, queue = ltrim(l.queue, E'\x1d')
    FROM unnest(_ids, _runs) AS s (id, run)
    WHERE l.id = ANY(_ids) AND l.id = s.id AND l.run = s.run AND l.claimed_at IS NOT NULL
    RETURNING l.id;
    IF FOUND THEN
        PERFORM mutirao_wake();
    END IF;
    IF EXISTS (SELECT FROM mutirao_counter) THEN -- limits
        PERFORM mutirao_let_go(_ids, NULL);
    END IF;
END
$$
--;
CREATE FUNCTION mutirao_tell_waiters(_jobs bigint[])
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM mutirao_waiter WHERE job = ANY(_jobs);
    IF FOUND THEN
        PERFORM pg_notify('mutirao_ended', '');
    END IF;
END
$$
