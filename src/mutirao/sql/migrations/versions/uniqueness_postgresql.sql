-- A column that is NULL takes no room: the rows of most jobs have others that are.
ALTER TABLE mutirao_job ADD COLUMN fingerprint text
--;
CREATE INDEX mutirao_job_fingerprint ON mutirao_job (fingerprint, id) WHERE fingerprint IS NOT NULL
--;
-- The job that holds a key, or held it last. A key is the task's and the queue's, or the scope's:
-- then they are empty. Nothing is released when a job ends: whoever wants the key looks whether its
-- job is live. So a job without a key pays nothing, and one with a key next to nothing.
CREATE TABLE mutirao_key (
    scope text NOT NULL CHECK (char_length(scope) <= 200),
    task text NOT NULL,
    queue text NOT NULL,
    key text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 200),
    job bigint NOT NULL,
    -- The running job that it waits for.
    after bigint,
    -- When the first of those was enqueued that it replaced, one after the other.
    since timestamptz NOT NULL,
    -- Seconds that it holds the key once it has finished.
    unique_for double precision CHECK (unique_for > 0 AND unique_for <= 604800),
    PRIMARY KEY (scope, task, queue, key)
) WITH (fillfactor = 70)
--;
CREATE INDEX mutirao_key_job ON mutirao_key (job)
--;
CREATE INDEX mutirao_key_after ON mutirao_key (after) WHERE after IS NOT NULL
--;
-- The job that stands for a key: the one before it, if somebody cancelled what waited for that.
CREATE FUNCTION mutirao_standing(_job bigint, _after bigint)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN coalesce(
        (SELECT id FROM mutirao_live WHERE id = $1), (SELECT id FROM mutirao_live WHERE id = $2), $1
    );
END
$$
--;
-- Whether a job holds its key: it is live, or ended, not by cancelling, less than that long ago.
CREATE FUNCTION mutirao_holds(_job bigint, _unique_for double precision)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM mutirao_live WHERE id = $1) OR ($2 IS NOT NULL AND EXISTS (
        SELECT FROM mutirao_attempt
        WHERE job = $1 AND outcome IN ('succeeded', 'dead')
          AND finished_at + $2 * interval '1 second' > statement_timestamp()
    ));
END
$$
--;
-- Makes sure that a job which this transaction sees live has not ended since, where it sees an old
-- snapshot: then the database raises its serialization failure (40001). The lock is undone at once,
-- so that no worker waits for it; a job that somebody settles in this moment has not ended yet.
CREATE FUNCTION mutirao_not_ended(_job bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        PERFORM FROM mutirao_live WHERE id = _job FOR KEY SHARE SKIP LOCKED;
        RAISE EXCEPTION USING ERRCODE = 'MTUND';
    END IF;
EXCEPTION
    WHEN SQLSTATE 'MTUND' THEN
        NULL;
END
$$
--;
-- Notes which live rows the triggers of this transaction will lock when it commits.
CREATE FUNCTION mutirao_will_lock(_jobs bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('session_replication_role') = 'replica' THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'session_replication_role is replica, so no trigger runs,'
                ' and one would have to put the new job in the place of job ' || _jobs[1],
            HINT = 'Enqueue jobs with a key in a session whose session_replication_role is origin.';
    END IF;
    PERFORM set_config('mutirao.ahead', concat_ws(
        ',', nullif(current_setting('mutirao.ahead', true), ''), array_to_string(_jobs, ',')
    ), true);
END
$$
--;
-- Locks them, in the order of their ids, as everybody locks live rows: the first trigger does so for
-- all. One after the other, as each key comes, two transactions waited for each other.
CREATE FUNCTION mutirao_lock_noted() RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    noted text := current_setting('mutirao.ahead', true);
BEGIN
    IF noted <> '' THEN
        PERFORM set_config('mutirao.ahead', '', true);
        PERFORM FROM mutirao_live WHERE id = ANY(string_to_array(noted, ',')::bigint[])
        ORDER BY id FOR UPDATE;
    END IF;
END
$$
--;
-- Enqueues a job with a unique key, and tells which job stands and how it came to: 'inserted',
-- 'replaced', 'rerun', 'found' or 'refused'. The key's row is the lock: two transactions with one key
-- come one after the other. No row of another job is locked before the commit, because this
-- transaction is the caller's, may last, and must keep no worker from settling. `_id` is the new
-- job's, where somebody has drawn it before.
CREATE FUNCTION mutirao_place(
    _task text, _args json, _queue text, _priority integer, _run_at timestamptz,
    _delay double precision, _max_attempts integer, _timeout double precision, _key text,
    _tags json, _metadata json, _traceparent text, _redrive_of bigint, _on_dead_of bigint,
    _fingerprint text, _on_conflict text, _scope text, _unique_for double precision,
    _debounce_limit double precision, _id bigint DEFAULT NULL
) RETURNS TABLE (id bigint, how text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    parked CONSTANT timestamptz := '9999-05-31 00:00Z';
    moment timestamptz := statement_timestamp();
    due timestamptz := coalesce(_run_at, moment + coalesce(_delay, 0) * interval '1 second');
    longest interval := _debounce_limit * interval '1 second';
    steady boolean := _on_conflict IN ('keep', 'error');
    of_task text := CASE WHEN _scope IS NULL THEN _task ELSE '' END;
    of_queue text := CASE WHEN _scope IS NULL THEN _queue ELSE '' END;
    held mutirao_key;
    began timestamptz := moment;
    waits_for bigint;
    runs boolean;
    planned timestamptz;
    new_id bigint;
    verdict text := 'inserted';
BEGIN
    LOOP
        -- Without the lock first: who only finds keeps nobody waiting, and waits for nobody.
        SELECT * INTO held FROM mutirao_key k
        WHERE k.scope = coalesce(_scope, '') AND k.task = of_task AND k.queue = of_queue
          AND k.key = _key;
        held.job := mutirao_standing(held.job, held.after);
        IF FOUND AND steady AND mutirao_holds(held.job, held.unique_for) THEN
            PERFORM mutirao_not_ended(held.job);
            RETURN QUERY
                SELECT held.job, CASE _on_conflict WHEN 'keep' THEN 'found' ELSE 'refused' END;
            RETURN;
        END IF;
        new_id := coalesce(new_id, _id, mutirao_next_id());
        INSERT INTO mutirao_key (scope, task, queue, key, job, since, unique_for)
        VALUES (coalesce(_scope, ''), of_task, of_queue, _key, new_id, moment, _unique_for)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            held := NULL;
            EXIT;
        END IF;
        SELECT * INTO held FROM mutirao_key k
        WHERE k.scope = coalesce(_scope, '') AND k.task = of_task AND k.queue = of_queue
          AND k.key = _key
        FOR UPDATE;
        EXIT WHEN FOUND; -- otherwise it was pruned at this moment
    END LOOP;
    IF held.job IS NOT NULL THEN
        held.job := mutirao_standing(held.job, held.after);
        IF steady AND mutirao_holds(held.job, held.unique_for) THEN
            PERFORM mutirao_not_ended(held.job);
            RETURN QUERY
                SELECT held.job, CASE _on_conflict WHEN 'keep' THEN 'found' ELSE 'refused' END;
            RETURN;
        END IF;
        SELECT l.worker IS NOT NULL, CASE WHEN l.run_at < parked THEN l.run_at ELSE j.run_at END
        INTO runs, planned
        FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id WHERE l.id = held.job;
        IF FOUND AND NOT steady THEN
            waits_for := coalesce(
                (SELECT l.id FROM mutirao_live l WHERE l.id = held.after), held.job
            );
            verdict := CASE
                WHEN EXISTS (
                    SELECT FROM mutirao_live l WHERE l.id = waits_for AND l.worker IS NOT NULL
                ) THEN 'rerun' ELSE 'replaced'
            END;
            IF NOT runs THEN
                began := held.since;
                due := CASE _on_conflict WHEN 'rerun' THEN least(due, planned) ELSE due END;
            END IF;
        END IF;
    END IF;
    due := least(due, began + longest);
    INSERT INTO mutirao_job (
        id, task, args, queue, priority, run_at, max_attempts, timeout, key, tags, metadata,
        traceparent, redrive_of, on_dead_of, fingerprint
    ) VALUES (
        new_id, _task, _args, _queue, _priority, due, _max_attempts, _timeout, _key, _tags,
        _metadata, _traceparent, _redrive_of, _on_dead_of, _fingerprint
    );
    INSERT INTO mutirao_live (id, queue, priority, run_at)
    VALUES (new_id, _queue, _priority, CASE WHEN waits_for IS NULL THEN due ELSE parked END);
    IF waits_for IS NOT NULL THEN
        PERFORM mutirao_will_lock(ARRAY[waits_for, held.job]);
    END IF;
    -- Last: its trigger may run at once, where all constraints are IMMEDIATE.
    IF held.job IS NOT NULL THEN
        UPDATE mutirao_key k
        SET job = new_id, after = waits_for, since = began, unique_for = _unique_for
        WHERE k.scope = coalesce(_scope, '') AND k.task = of_task AND k.queue = of_queue
          AND k.key = _key;
    END IF;
    IF waits_for IS NULL THEN
        PERFORM mutirao_wake(_queue, _priority, due);
    END IF;
    RETURN QUERY SELECT new_id, verdict;
END
$$
--;
-- At the commit of a transaction in which a key went from one live job to the next: what waits is
-- cancelled, what runs is waited for. Rows of live jobs are locked in the order of their ids.
CREATE FUNCTION mutirao_take_turn() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    ahead bigint;
    found_live mutirao_live;
    running bigint;
BEGIN
    PERFORM mutirao_lock_noted();
    FOREACH ahead IN ARRAY ARRAY[least(NEW.after, OLD.job), greatest(NEW.after, OLD.job)] LOOP
        SELECT * INTO found_live FROM mutirao_live WHERE id = ahead FOR UPDATE;
        IF found_live.worker IS NOT NULL THEN
            running := ahead;
        ELSIF found_live.id IS NOT NULL THEN
            INSERT INTO mutirao_attempt
                (job, run, attempt, outcome, started_at, finished_at, error_type, error)
            VALUES (
                ahead, found_live.run % 2147483647 + 1, found_live.attempt, 'cancelled', statement_timestamp(),
                statement_timestamp(), 'Replaced', 'replaced by job ' || NEW.job
            );
            DELETE FROM mutirao_live WHERE id = ahead;
            DELETE FROM mutirao_parked WHERE job = ahead;
        END IF;
    END LOOP;
    UPDATE mutirao_key SET after = running WHERE job = NEW.job;
    IF running IS NULL THEN
        UPDATE mutirao_live l SET run_at = j.run_at
        FROM mutirao_job j WHERE l.id = NEW.job AND j.id = l.id;
        PERFORM mutirao_wake(queue, priority, run_at) FROM mutirao_live WHERE id = NEW.job;
    END IF;
    RETURN NULL;
END
$$
--;
CREATE CONSTRAINT TRIGGER mutirao_key_moved AFTER UPDATE ON mutirao_key
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (OLD.job <> NEW.job AND NEW.after IS NOT NULL)
EXECUTE FUNCTION mutirao_take_turn()
