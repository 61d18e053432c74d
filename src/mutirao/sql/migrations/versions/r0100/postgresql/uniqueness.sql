-- Keys that at most one job holds, and jobs of a key that supersede each other or come one after the other.

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
    -- Seconds that it holds the key once it has finished; infinity: until it is pruned.
    unique_for double precision
        CHECK (unique_for > 0 AND (unique_for <= 1e10 OR unique_for = 'Infinity')),
    PRIMARY KEY (scope, task, queue, key)
) WITH (fillfactor = 70)
--;
CREATE INDEX mutirao_key_job ON mutirao_key (job)
--;
CREATE INDEX mutirao_key_after ON mutirao_key (after) WHERE after IS NOT NULL
--;
-- The job that stands for a key: the one before it, if somebody cancelled what waited for that.
CREATE FUNCTION mutirao_key_holder(_job bigint, _after bigint)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN coalesce(
        (SELECT id FROM mutirao_live WHERE id = $1), (SELECT id FROM mutirao_live WHERE id = $2), $1
    );
END
$$
--;
-- Whether a job holds its key: it is live, or ended, not by cancelling, less than that long ago. A
-- transaction that sees an old snapshot makes sure that it is still so.
CREATE FUNCTION mutirao_holds(_job bigint, _unique_for double precision)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF EXISTS (SELECT FROM mutirao_live WHERE id = _job) OR (_unique_for IS NOT NULL AND EXISTS (
        SELECT FROM mutirao_attempt
        WHERE job = _job AND outcome IN ('succeeded', 'dead') AND (
            _unique_for = 'Infinity'
            OR finished_at + nullif(_unique_for, 'Infinity') * interval '1 second' > statement_timestamp()
        )
    )) THEN
        PERFORM mutirao_not_ended(_job);
        RETURN true;
    END IF;
    RETURN false;
END
$$
--;
-- The job that holds a key, told without a lock: who only finds keeps nobody waiting, and waits for nobody.
CREATE FUNCTION mutirao_holds_now(_scope text, _task text, _queue text, _key text)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    held mutirao_key;
BEGIN
    SELECT * INTO held FROM mutirao_key k
    WHERE k.scope = _scope AND k.task = _task AND k.queue = _queue AND k.key = _key;
    IF FOUND THEN
        held.job := mutirao_key_holder(held.job, held.after);
        IF mutirao_holds(held.job, held.unique_for) THEN
            RETURN held.job;
        END IF;
    END IF;
    RETURN NULL;
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
-- These jobs, and of each those that it waits for, up to the second that is live: where a job
-- was cancelled meanwhile, the one before that is locked in its place.
CREATE FUNCTION mutirao_ahead(_noted bigint[]) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE waiting (job, met) AS (
            SELECT u.job, (SELECT count(*) FROM mutirao_live WHERE id = u.job)
            FROM unnest(_noted) AS u (job)
            UNION
            SELECT t.after, w.met + (SELECT count(*) FROM mutirao_live WHERE id = t.after)
            FROM waiting w JOIN mutirao_supersede_wait t ON t.job = w.job WHERE w.met < 2
        )
        SELECT job FROM waiting
    );
END
$$
--;
-- Locks them, in the order of their ids, as everybody locks live rows: the first trigger does so for
-- all. One after the other, as each key comes, two transactions waited for each other. Should one
-- before them end while this waits, all are locked in another try, in order.
CREATE FUNCTION mutirao_lock_noted() RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    noted bigint[] := string_to_array(nullif(current_setting('mutirao.ahead', true), ''), ',');
    held bigint[];
BEGIN
    IF noted IS NULL THEN
        RETURN;
    END IF;
    PERFORM set_config('mutirao.ahead', '', true);
    IF current_setting('mutirao.supersede', true) IS DISTINCT FROM 'on' THEN
        PERFORM FROM mutirao_live WHERE id = ANY(noted) ORDER BY id FOR UPDATE;
        RETURN;
    END IF;
    LOOP
        held := mutirao_ahead(noted);
        BEGIN
            PERFORM FROM mutirao_live WHERE id = ANY(held) ORDER BY id FOR UPDATE;
            EXIT WHEN mutirao_ahead(noted) <@ held;
            RAISE EXCEPTION USING ERRCODE = 'MTUND';
        EXCEPTION
            WHEN SQLSTATE 'MTUND' THEN
                NULL; -- and nothing is locked
        END;
    END LOOP;
END
$$
--;
-- Locks a key and returns its row, whose `job` is then the one that stands for the key. Where there is
-- none it is made for the new job `_id`, and NULL returned. The row is the lock: two transactions with one
-- key come one after the other.
CREATE FUNCTION mutirao_lock_key(
    _scope text, _task text, _queue text, _key text, _id bigint, _unique_for double precision
) RETURNS mutirao_key LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    held mutirao_key;
BEGIN
    LOOP
        INSERT INTO mutirao_key (scope, task, queue, key, job, since, unique_for)
        VALUES (_scope, _task, _queue, _key, _id, statement_timestamp(), _unique_for)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        SELECT * INTO held FROM mutirao_key k
        WHERE k.scope = _scope AND k.task = _task AND k.queue = _queue AND k.key = _key
        FOR UPDATE;
        EXIT WHEN FOUND; -- otherwise it was pruned at this moment
    END LOOP;
    held.job := mutirao_key_holder(held.job, held.after);
    RETURN held;
END
$$
--;
-- The newest job of a key, if what it is about is newer than a version: however it has ended since, as
-- long as it is known. The caller has the lock of the key.
CREATE FUNCTION mutirao_newer(
    _scope text, _task text, _queue text, _key text, _version numeric
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        SELECT j.id FROM mutirao_key k JOIN mutirao_job j ON j.id = k.job
        WHERE k.scope = _scope AND k.task = _task AND k.queue = _queue AND k.key = _key
          AND j.version > _version
    );
END
$$
--;
-- What it means for a new job that another one has the key: which live one it waits for, and how it came to
-- stand. Before one that waits itself it is due as that would have been, where it reruns, and put off
-- from when that was enqueued.
CREATE FUNCTION mutirao_take_over(
    _held mutirao_key, _on_conflict text, INOUT due timestamptz, INOUT began timestamptz,
    OUT waits_for bigint, OUT verdict text
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    runs boolean;
    planned timestamptz;
BEGIN
    SELECT l.worker IS NOT NULL,
           CASE WHEN l.run_at < ${parked} THEN l.run_at ELSE j.run_at END
    INTO runs, planned
    FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id WHERE l.id = _held.job;
    IF NOT FOUND THEN
        verdict := 'inserted';
        RETURN;
    END IF;
    waits_for := coalesce((SELECT l.id FROM mutirao_live l WHERE l.id = _held.after), _held.job);
    verdict := CASE
        WHEN EXISTS (SELECT FROM mutirao_live l WHERE l.id = waits_for AND l.worker IS NOT NULL)
        THEN 'rerun' ELSE 'replaced'
    END;
    IF NOT runs THEN
        began := _held.since;
        due := CASE _on_conflict WHEN 'rerun' THEN least(due, planned) ELSE due END;
    END IF;
END
$$
--;
-- Writes a job down; where it waits for another one it is live in the year 9999.
CREATE FUNCTION mutirao_write_job(
    _id bigint, _task text, _args json, _queue text, _priority integer, _run_at timestamptz,
    _max_attempts integer, _timeout double precision, _key text, _tags json, _metadata json,
    _traceparent text, _redrive_of bigint, _on_dead_of bigint, _fingerprint text, _waits boolean,
    _version numeric DEFAULT NULL, _tenant text DEFAULT NULL, _group text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO mutirao_job (
        id, task, args, queue, priority, run_at, max_attempts, timeout, key, tags, metadata,
        traceparent, redrive_of, on_dead_of, fingerprint, version, tenant, "group"
    ) VALUES (
        _id, _task, _args, _queue, _priority, _run_at, _max_attempts, _timeout, _key, _tags,
        _metadata, _traceparent, _redrive_of, _on_dead_of, _fingerprint, _version, _tenant, _group
    );
    INSERT INTO mutirao_live (id, queue, priority, run_at)
    VALUES (_id, _queue, _priority, CASE WHEN _waits THEN ${parked} ELSE _run_at END);
END
$$
--;
-- Enqueues a job with a unique key, and tells which job stands and how it came to: 'inserted',
-- 'replaced', 'rerun', 'found', 'outdated' or 'refused'. No row of another job is locked before the commit, because
-- this transaction is the caller's, may last, and must keep no worker from settling. `_id` is the new
-- job's, where somebody has drawn it before.
CREATE FUNCTION mutirao_enqueue_unique(
    _task text, _args json, _queue text, _priority integer, _run_at timestamptz,
    _delay double precision, _max_attempts integer, _timeout double precision, _key text,
    _tags json, _metadata json, _traceparent text, _redrive_of bigint, _on_dead_of bigint,
    _fingerprint text, _on_conflict text, _scope text, _unique_for double precision,
    _debounce_limit double precision, _id bigint DEFAULT NULL, _version numeric DEFAULT NULL,
    _tenant text DEFAULT NULL, _group text DEFAULT NULL
) RETURNS TABLE (id bigint, how text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    began timestamptz := statement_timestamp();
    due timestamptz := coalesce(_run_at, began + coalesce(_delay, 0) * interval '1 second');
    steady boolean := _on_conflict IN ('keep', 'error');
    of_scope text := coalesce(_scope, '');
    of_task text := CASE WHEN _scope IS NULL THEN _task ELSE '' END;
    of_queue text := CASE WHEN _scope IS NULL THEN _queue ELSE '' END;
    held mutirao_key;
    stands bigint; waits_for bigint; new_id bigint;
    verdict text := 'inserted';
BEGIN
    IF steady THEN
        stands := mutirao_holds_now(of_scope, of_task, of_queue, _key);
    END IF;
    IF stands IS NULL THEN
        new_id := coalesce(_id, mutirao_next_id());
        held := mutirao_lock_key(of_scope, of_task, of_queue, _key, new_id, _unique_for);
        IF steady AND mutirao_holds(held.job, held.unique_for) THEN
            stands := held.job;
        ELSIF _version IS NOT NULL THEN
            stands := mutirao_newer(of_scope, of_task, of_queue, _key, _version);
        END IF;
    END IF;
    IF stands IS NOT NULL THEN
        verdict := CASE _on_conflict WHEN 'keep' THEN 'found' WHEN 'error' THEN 'refused' ELSE 'outdated' END;
        RETURN QUERY SELECT stands, verdict;
        RETURN;
    ELSIF held.job IS NOT NULL AND NOT steady THEN
        SELECT * INTO due, began, waits_for, verdict
        FROM mutirao_take_over(held, _on_conflict, due, began);
    END IF;
    due := least(due, began + _debounce_limit * interval '1 second');
    PERFORM mutirao_write_job(
        new_id, _task, _args, _queue, _priority, due, _max_attempts, _timeout, _key, _tags, _metadata,
        _traceparent, _redrive_of, _on_dead_of, _fingerprint, waits_for IS NOT NULL, _version, _tenant, _group
    );
    IF waits_for IS NULL THEN
        PERFORM mutirao_wake(_queue, _priority, due, new_id, 1, _task);
    ELSE
        PERFORM mutirao_will_lock(ARRAY[waits_for, held.job]);
    END IF;
    -- Last: its trigger may run at once, where all constraints are IMMEDIATE.
    IF held.job IS NOT NULL THEN
        UPDATE mutirao_key k
        SET job = new_id, after = waits_for, since = began, unique_for = _unique_for
        WHERE k.scope = of_scope AND k.task = of_task AND k.queue = of_queue AND k.key = _key;
    END IF;
    RETURN QUERY SELECT new_id, verdict;
END
$$
--;
-- At the commit of a transaction in which a key went from one live job to the next: what waits is
-- cancelled, what runs is waited for. Rows of live jobs are locked in the order of their ids.
CREATE FUNCTION mutirao_replace_at_commit() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
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
                (job, run, attempt, outcome, started_at, finished_at, error_type, error, came_late)
            VALUES (
                ahead, found_live.run % 2147483647 + 1, found_live.attempt, 'cancelled', statement_timestamp(),
                statement_timestamp(), 'Replaced', 'replaced by job ' || NEW.job,
                nullif(statement_timestamp() < mutirao_closed(), false)
            );
            DELETE FROM mutirao_live WHERE id = ahead;
            DELETE FROM mutirao_parked WHERE job = ahead;
        END IF;
    END LOOP;
    UPDATE mutirao_key SET after = running WHERE job = NEW.job;
    IF running IS NULL THEN
        UPDATE mutirao_live l SET run_at = j.run_at
        FROM mutirao_job j WHERE l.id = NEW.job AND j.id = l.id;
        PERFORM mutirao_wake(queue, priority, run_at, id) FROM mutirao_live WHERE id = NEW.job;
    END IF;
    RETURN NULL;
END
$$
--;
CREATE CONSTRAINT TRIGGER mutirao_key_moved AFTER UPDATE ON mutirao_key
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (OLD.job <> NEW.job AND NEW.after IS NOT NULL)
EXECUTE FUNCTION mutirao_replace_at_commit()
--;
-- The job of each key that was enqueued last, for tasks with a supersede rule. A key is the task's
-- and the queue's, or the scope's: then they are empty.
CREATE TABLE mutirao_supersede_last (
    scope text NOT NULL CHECK (char_length(scope) <= 200),
    task text NOT NULL,
    queue text NOT NULL,
    key text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 200),
    last bigint NOT NULL,
    -- The last one that succeeded, if after it nobody had tried any when `last` was enqueued, and somebody
    -- wants to know.
    done bigint,
    PRIMARY KEY (scope, task, queue, key)
) WITH (fillfactor = 70)
--;
CREATE INDEX mutirao_supersede_last_job ON mutirao_supersede_last (last)
--;
-- Who waits for the end of whom: as long as the other is live. Until the commit also what is to
-- become of the two by the rule: `how`, and the arguments if they are merged.
CREATE TABLE mutirao_supersede_wait (
    job bigint PRIMARY KEY,
    after bigint NOT NULL,
    how text CHECK (how IN ('replaced', 'merged', 'superseded')),
    args json
)
--;
CREATE INDEX mutirao_supersede_wait_after ON mutirao_supersede_wait (after)
--;
-- The nearest live job that one waits for, locked; NULL if there is none. Where the one
-- before was cancelled while it waited itself, its own turn says what comes before that.
CREATE FUNCTION mutirao_lock_ahead(_job bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    ahead bigint := _job;
BEGIN
    LOOP
        SELECT after INTO ahead FROM mutirao_supersede_wait WHERE job = ahead;
        IF ahead IS NULL THEN
            RETURN NULL;
        END IF;
        PERFORM FROM mutirao_live WHERE id = ahead FOR UPDATE;
        IF FOUND THEN
            RETURN ahead;
        END IF;
    END LOOP;
END
$$
--;
CREATE FUNCTION mutirao_cancel_superseded(_job bigint, _error text)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO mutirao_attempt
        (job, run, attempt, outcome, started_at, finished_at, error_type, error, came_late)
    SELECT id, run % 2147483647 + 1, attempt, 'cancelled', statement_timestamp(), statement_timestamp(),
           'Superseded', _error, nullif(statement_timestamp() < mutirao_closed(), false)
    FROM mutirao_live WHERE id = _job;
    DELETE FROM mutirao_live WHERE id = _job;
    DELETE FROM mutirao_parked WHERE job = _job;
END
$$
--;
-- Puts a new job in its place: does what the rule said if nobody has taken the one before it
-- meanwhile, and lets it wait for the nearest live one ahead, or go. Live rows are locked in the
-- order in which they wait, because whoever settles one of them goes on to the next.
CREATE FUNCTION mutirao_supersede_at_commit(_job bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    turn mutirao_supersede_wait;
    older mutirao_live;
    ahead bigint;
BEGIN
    SELECT * INTO turn FROM mutirao_supersede_wait WHERE job = _job;
    IF turn.how IS NULL THEN
        ahead := mutirao_lock_ahead(_job);
    ELSE
        ahead := mutirao_lock_ahead(turn.after);
        SELECT * INTO older FROM mutirao_live WHERE id = turn.after FOR UPDATE;
        IF older.worker IS NULL AND older.attempt = 0 THEN
            PERFORM mutirao_cancel_superseded(older.id, CASE turn.how
                WHEN 'merged' THEN 'merged into job ' ELSE 'superseded by job ' END || _job);
            DELETE FROM mutirao_supersede_wait WHERE job = older.id;
            IF turn.how = 'superseded' THEN
                PERFORM mutirao_cancel_superseded(_job, 'superseded together with job ' || older.id);
            ELSIF turn.how = 'merged' THEN
                UPDATE mutirao_job
                SET args = turn.args, fingerprint = NULL,
                    run_at = (
                        SELECT least(j.run_at, older.run_at) FROM mutirao_job j WHERE j.id = older.id
                    )
                WHERE id = _job;
            END IF;
        ELSE
            ahead := coalesce(older.id, ahead);
            UPDATE mutirao_supersede_last SET done = NULL WHERE last = _job AND done IS NOT NULL;
        END IF;
    END IF;
    IF ahead IS NOT NULL THEN
        UPDATE mutirao_supersede_wait SET after = ahead, how = NULL, args = NULL
        WHERE job = _job AND (after <> ahead OR how IS NOT NULL);
        RETURN;
    END IF;
    DELETE FROM mutirao_supersede_wait WHERE job = _job;
    UPDATE mutirao_live l SET run_at = j.run_at
    FROM mutirao_job j WHERE l.id = _job AND j.id = l.id;
    PERFORM mutirao_wake(queue, priority, run_at, id) FROM mutirao_live WHERE id = _job;
END
$$
--;
CREATE FUNCTION mutirao_supersede_wait_made() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM mutirao_lock_noted();
    IF EXISTS (SELECT FROM mutirao_supersede_wait WHERE job = NEW.job) THEN
        PERFORM mutirao_supersede_at_commit(NEW.job);
    END IF;
    RETURN NULL;
END
$$
--;
-- At the commit only: the caller's transaction may last, and must keep no worker from settling.
CREATE CONSTRAINT TRIGGER mutirao_supersede_wait_made AFTER INSERT ON mutirao_supersede_wait
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mutirao_supersede_wait_made()
--;
-- Locks a key and returns its last live job. The lock is the key's row: two transactions with one
-- key come one after the other.
CREATE FUNCTION mutirao_lock_supersede_last(_scope text, _task text, _queue text, _key text)
RETURNS TABLE (id bigint, task text, args text, untouched boolean) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    latest bigint;
BEGIN
    LOOP
        SELECT s.last INTO latest FROM mutirao_supersede_last s
        WHERE s.scope = _scope AND s.task = _task AND s.queue = _queue AND s.key = _key
        FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO mutirao_supersede_last (scope, task, queue, key, last)
        VALUES (_scope, _task, _queue, _key, 0) ON CONFLICT DO NOTHING;
    END LOOP;
    -- What this very transaction decided before has to be done before the next decision.
    IF EXISTS (SELECT FROM mutirao_supersede_wait WHERE job = latest AND how IS NOT NULL) THEN
        PERFORM mutirao_supersede_at_commit(latest);
    END IF;
    RETURN QUERY
        SELECT l.id, j.task, j.args::text, l.worker IS NULL AND l.attempt = 0
        FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
        WHERE l.id IN (latest, (SELECT t.after FROM mutirao_supersede_wait t WHERE t.job = latest))
        ORDER BY l.id = latest DESC LIMIT 1;
END
$$
--;
-- Enqueues a job as the last of its key, which `mutirao_lock_supersede_last` has locked: behind `after`, if that is
-- given, or in its place, as `how` says, once the transaction commits.
CREATE FUNCTION mutirao_enqueue_superseding(
    _task text, _args json, _queue text, _priority integer, _run_at timestamptz,
    _delay double precision, _max_attempts integer, _timeout double precision, _key text,
    _tags json, _metadata json, _traceparent text, _redrive_of bigint, _on_dead_of bigint,
    _fingerprint text, _scope text, _after bigint, _how text, _merged json, _done bigint,
    _id bigint DEFAULT NULL, _tenant text DEFAULT NULL, _group text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    due timestamptz := coalesce(
        _run_at, statement_timestamp() + coalesce(_delay, 0) * interval '1 second'
    );
    new_id bigint;
BEGIN
    new_id := coalesce(_id, mutirao_next_id());
    PERFORM mutirao_write_job(
        new_id, _task, _args, _queue, _priority, due, _max_attempts, _timeout, _key, _tags,
        _metadata, _traceparent, _redrive_of, _on_dead_of, _fingerprint, _after IS NOT NULL,
        _tenant => _tenant, _group => _group
    );
    UPDATE mutirao_supersede_last s SET last = new_id, done = _done
    WHERE s.scope = coalesce(_scope, '') AND s.key = _key
      AND s.task = CASE WHEN _scope IS NULL THEN _task ELSE '' END
      AND s.queue = CASE WHEN _scope IS NULL THEN _queue ELSE '' END;
    IF _after IS NULL THEN
        PERFORM mutirao_wake(_queue, _priority, due, new_id, 1, _task);
    ELSE
        PERFORM mutirao_will_lock(ARRAY[
            _after, (SELECT t.after FROM mutirao_supersede_wait t WHERE t.job = _after)
        ]);
        PERFORM set_config('mutirao.supersede', 'on', true); -- not all may read who waits for whom
        INSERT INTO mutirao_supersede_wait (job, after, how, args) VALUES (new_id, _after, _how, _merged);
    END IF;
    RETURN new_id;
END
$$
--;
-- The tasks that have a rule in the code of workers, and who shares keys there. The rule itself is theirs.
CREATE TABLE mutirao_supersede_task (
    task text PRIMARY KEY CHECK (char_length(task) BETWEEN 1 AND 200),
    scope text CHECK (char_length(scope) <= 200)
)
--;
-- The jobs of such tasks that SQL enqueued with a key. They are parked until somebody who has the rule
-- has asked it, in the order of their ids.
CREATE TABLE mutirao_unjudged (
    job bigint PRIMARY KEY,
    scope text NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    key text NOT NULL
)
--;
CREATE INDEX mutirao_unjudged_key ON mutirao_unjudged (scope, task, queue, key, job)
--;
-- Enqueues a job that the rule has to be asked about. Nobody is woken: workers that have the rule look.
CREATE FUNCTION mutirao_enqueue_unjudged(
    _task text, _args json, _queue text, _priority integer, _run_at timestamptz,
    _delay double precision, _max_attempts integer, _timeout double precision, _key text,
    _tags json, _metadata json, _traceparent text, _fingerprint text, _fair_by text,
    _tenant text, _group text
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    new_id bigint := mutirao_next_id();
BEGIN
    PERFORM mutirao_write_job(
        new_id, _task, _args, _queue, _priority,
        coalesce(_run_at, statement_timestamp() + coalesce(_delay, 0) * interval '1 second'),
        _max_attempts, _timeout, _key, _tags, _metadata, _traceparent, NULL, NULL, _fingerprint, true,
        _tenant => _tenant, _group => _group
    );
    PERFORM mutirao_apply_fairness(new_id, _fair_by);
    INSERT INTO mutirao_unjudged (job, scope, task, queue, key)
    SELECT new_id, coalesce(t.scope, ''), CASE WHEN t.scope IS NULL THEN _task ELSE '' END,
           CASE WHEN t.scope IS NULL THEN _queue ELSE '' END, _key
    FROM mutirao_supersede_task t WHERE t.task = _task;
    RETURN new_id;
END
$$
--;
-- Puts such a job in its place, as the last of its key, once the rule was asked: as
-- `mutirao_enqueue_superseding` does with a new one.
CREATE FUNCTION mutirao_place_judged(
    _id bigint, _scope text, _task text, _queue text, _key text, _after bigint, _how text,
    _merged json, _done bigint
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE mutirao_supersede_last s SET last = _id, done = _done
    WHERE s.scope = _scope AND s.task = _task AND s.queue = _queue AND s.key = _key;
    IF _after IS NULL THEN
        UPDATE mutirao_live l SET run_at = j.run_at
        FROM mutirao_job j WHERE l.id = _id AND j.id = l.id;
        PERFORM mutirao_wake(l.queue, l.priority, l.run_at, l.id, 1, j.task)
        FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id WHERE l.id = _id;
        RETURN;
    END IF;
    PERFORM mutirao_will_lock(ARRAY[
        _id, _after, (SELECT t.after FROM mutirao_supersede_wait t WHERE t.job = _after)
    ]);
    PERFORM set_config('mutirao.supersede', 'on', true);
    INSERT INTO mutirao_supersede_wait (job, after, how, args) VALUES (_id, _after, _how, _merged);
END
$$
