-- The job of each key that was enqueued last, for tasks with a supersede rule. A key is the task's
-- and the queue's, or the scope's: then they are empty.
CREATE TABLE mutirao_series (
    scope text NOT NULL CHECK (char_length(scope) <= 200),
    task text NOT NULL,
    queue text NOT NULL,
    key text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 200),
    last bigint NOT NULL,
    PRIMARY KEY (scope, task, queue, key)
) WITH (fillfactor = 70)
--;
CREATE INDEX mutirao_series_last ON mutirao_series (last)
--;
-- Who waits for the end of whom: as long as the other is live. Until the commit also what is to
-- become of the two by the rule: `how`, and the arguments if they are merged.
CREATE TABLE mutirao_turn (
    job bigint PRIMARY KEY,
    after bigint NOT NULL,
    how text CHECK (how IN ('replaced', 'merged', 'superseded')),
    args json
)
--;
CREATE INDEX mutirao_turn_after ON mutirao_turn (after)
--;
-- The nearest live job before one in its series, locked; NULL if there is none. Where the one
-- before was cancelled while it waited itself, its own turn says what comes before that.
CREATE FUNCTION mutirao_lock_ahead(_job bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    ahead bigint := _job;
BEGIN
    LOOP
        SELECT after INTO ahead FROM mutirao_turn WHERE job = ahead;
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
CREATE FUNCTION mutirao_supersede(_job bigint, _error text)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO mutirao_attempt
        (job, run, attempt, outcome, started_at, finished_at, error_type, error)
    SELECT id, run % 2147483647 + 1, attempt, 'cancelled', statement_timestamp(), statement_timestamp(),
           'Superseded', _error
    FROM mutirao_live WHERE id = _job;
    DELETE FROM mutirao_live WHERE id = _job;
    DELETE FROM mutirao_parked WHERE job = _job;
END
$$
--;
-- Puts a new job in its place: does what the rule said if nobody has taken the one before it
-- meanwhile, and lets it wait for the nearest live one ahead, or go. Live rows are locked in the
-- order of the series, because whoever settles one of them goes on to the next.
CREATE FUNCTION mutirao_take_place(_job bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    turn mutirao_turn;
    older mutirao_live;
    ahead bigint;
BEGIN
    SELECT * INTO turn FROM mutirao_turn WHERE job = _job;
    IF turn.how IS NULL THEN
        ahead := mutirao_lock_ahead(_job);
    ELSE
        ahead := mutirao_lock_ahead(turn.after);
        SELECT * INTO older FROM mutirao_live WHERE id = turn.after FOR UPDATE;
        IF older.worker IS NULL AND older.attempt = 0 THEN
            PERFORM mutirao_supersede(older.id, CASE turn.how
                WHEN 'merged' THEN 'merged into job ' ELSE 'superseded by job ' END || _job);
            DELETE FROM mutirao_turn WHERE job = older.id;
            IF turn.how = 'superseded' THEN
                PERFORM mutirao_supersede(_job, 'superseded together with job ' || older.id);
            ELSIF turn.how = 'merged' THEN
                UPDATE mutirao_job
                SET args = turn.args, fingerprint = NULL,
                    run_at = (
                        SELECT least(j.run_at, older.run_at) FROM mutirao_job j WHERE j.id = older.id
                    )
                WHERE id = _job;
            END IF;
        ELSIF older.id IS NOT NULL THEN
            ahead := older.id;
        END IF;
    END IF;
    IF ahead IS NOT NULL THEN
        UPDATE mutirao_turn SET after = ahead, how = NULL, args = NULL
        WHERE job = _job AND (after <> ahead OR how IS NOT NULL);
        RETURN;
    END IF;
    DELETE FROM mutirao_turn WHERE job = _job;
    UPDATE mutirao_live l SET run_at = j.run_at
    FROM mutirao_job j WHERE l.id = _job AND j.id = l.id;
    PERFORM mutirao_wake(queue, priority, run_at) FROM mutirao_live WHERE id = _job;
END
$$
--;
CREATE FUNCTION mutirao_turn_made() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM mutirao_lock_noted();
    IF EXISTS (SELECT FROM mutirao_turn WHERE job = NEW.job) THEN
        PERFORM mutirao_take_place(NEW.job);
    END IF;
    RETURN NULL;
END
$$
--;
-- At the commit only: the caller's transaction may last, and must keep no worker from settling.
CREATE CONSTRAINT TRIGGER mutirao_turn_made AFTER INSERT ON mutirao_turn
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mutirao_turn_made()
--;
-- Locks a key and returns its last live job. The lock is the key's row: two transactions with one
-- key come one after the other.
CREATE FUNCTION mutirao_last(_scope text, _task text, _queue text, _key text)
RETURNS TABLE (id bigint, task text, args text, untouched boolean) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    latest bigint;
BEGIN
    LOOP
        SELECT s.last INTO latest FROM mutirao_series s
        WHERE s.scope = _scope AND s.task = _task AND s.queue = _queue AND s.key = _key
        FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO mutirao_series (scope, task, queue, key, last)
        VALUES (_scope, _task, _queue, _key, 0) ON CONFLICT DO NOTHING;
    END LOOP;
    -- What this very transaction decided before has to be done before the next decision.
    IF EXISTS (SELECT FROM mutirao_turn WHERE job = latest AND how IS NOT NULL) THEN
        PERFORM mutirao_take_place(latest);
    END IF;
    RETURN QUERY
        SELECT l.id, j.task, j.args::text, l.worker IS NULL AND l.attempt = 0
        FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
        WHERE l.id IN (latest, (SELECT t.after FROM mutirao_turn t WHERE t.job = latest))
        ORDER BY l.id = latest DESC LIMIT 1;
END
$$
--;
-- Enqueues a job as the last of its key, which `mutirao_last` has locked: behind `after`, if that is
-- given, or in its place, as `how` says, once the transaction commits.
CREATE FUNCTION mutirao_join(
    _task text, _args json, _queue text, _priority integer, _run_at timestamptz,
    _delay double precision, _max_attempts integer, _timeout double precision, _key text,
    _tags json, _metadata json, _traceparent text, _redrive_of bigint, _on_dead_of bigint,
    _fingerprint text, _scope text, _after bigint, _how text, _merged json, _id bigint DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    due timestamptz := coalesce(
        _run_at, statement_timestamp() + coalesce(_delay, 0) * interval '1 second'
    );
    new_id bigint;
BEGIN
    new_id := coalesce(_id, mutirao_next_id());
    INSERT INTO mutirao_job (
        id, task, args, queue, priority, run_at, max_attempts, timeout, key, tags, metadata,
        traceparent, redrive_of, on_dead_of, fingerprint
    ) VALUES (
        new_id, _task, _args, _queue, _priority, due, _max_attempts, _timeout, _key, _tags, _metadata,
        _traceparent, _redrive_of, _on_dead_of, _fingerprint
    );
    INSERT INTO mutirao_live (id, queue, priority, run_at) VALUES (
        new_id, _queue, _priority, CASE WHEN _after IS NULL THEN due ELSE '9999-05-31 00:00Z' END
    );
    UPDATE mutirao_series s SET last = new_id
    WHERE s.scope = coalesce(_scope, '') AND s.key = _key
      AND s.task = CASE WHEN _scope IS NULL THEN _task ELSE '' END
      AND s.queue = CASE WHEN _scope IS NULL THEN _queue ELSE '' END;
    IF _after IS NULL THEN
        PERFORM mutirao_wake(_queue, _priority, due);
    ELSE
        PERFORM mutirao_will_lock(ARRAY[
            _after, (SELECT t.after FROM mutirao_turn t WHERE t.job = _after)
        ]);
        INSERT INTO mutirao_turn (job, after, how, args) VALUES (new_id, _after, _how, _merged);
    END IF;
    RETURN new_id;
END
$$
