-- How jobs come in, and who is woken for them.

-- Parsed now: the sequence is looked up once, whatever schema it is in.
CREATE FUNCTION mutirao_next_id() RETURNS bigint LANGUAGE sql VOLATILE
RETURN nextval('mutirao_job_id_seq')
--;
-- NOTIFY takes a lock on the whole database at commit, so it is spared while nobody listens. Not a
-- function in SQL, which would be planned at every call: enqueueing a job took the server 285 µs
-- instead of 150. A transaction that notifies cannot be prepared for a two-phase commit, hence the
-- setting: its jobs are found by polling.
-- It names as many of the idle workers that serve the lane as there are jobs, to look at once, and three
-- more, to look a moment later in case one of those does not. `job` is the id of one of them: jobs that
-- come one after another are for one worker after another. They are taken from the whole list evenly, as
-- neighbours in it may stand on one machine, which freezes. Without a lane all are to look; so they are
-- for very many jobs, or if some serve certain tasks only and the task is not known. After `;` stands
-- the newest worker of all: who registers before this transaction commits knows that it was not seen.
CREATE FUNCTION mutirao_wake(
    queue text DEFAULT NULL, priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL,
    job bigint DEFAULT NULL, jobs bigint DEFAULT 1, task text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    idle bigint[];
    special boolean;
    most integer;
    named integer;
    start bigint;
    whom text := '*';
BEGIN
    SELECT array_agg(w.id ORDER BY w.id), bool_or(w.tasks IS NOT NULL) INTO idle, special
    FROM mutirao_worker w
    WHERE w.listening AND w.expires_at > statement_timestamp() AND ($1 IS NULL OR (
        (w.queues IS NULL OR w.queues ? ltrim($1, E'\x1f'))
        AND (w.exclude_queues IS NULL OR NOT w.exclude_queues ? ltrim($1, E'\x1f'))
        AND (w.tasks IS NULL OR $6 IS NULL OR w.tasks ? $6)
    ));
    IF idle IS NULL OR current_setting('mutirao.notify', true) IS NOT DISTINCT FROM 'off' THEN
        RETURN;
    END IF;
    most := cardinality(idle);
    IF $5 < least(most, 50) AND ($6 IS NOT NULL OR NOT special) THEN
        named := least(most, $5 + 3);
        -- Times the golden ratio, in 65536ths: even where all ids are even, as others come between.
        start := (coalesce($4, (random() * 65535)::bigint) & 65535) * 40503 & 65535;
        start := start * most >> 16;
        whom := $5 || ':' || idle[1 + start];
        FOR n IN 1 .. named - 1 LOOP -- a quarter of the time that a query takes
            whom := whom || ',' || idle[1 + (start + n * most / named) % most];
        END LOOP;
        whom := whom || ';' || (SELECT max(w.id) FROM mutirao_worker w);
    END IF;
    PERFORM pg_notify('mutirao', coalesce(
        whom || ' ' || $2 || ' ' || (extract(epoch FROM $3) * 1000000)::bigint || ' ' || $1, ''
    ));
END
$$
--;
-- The documented way to enqueue from any language, in that program's own transaction. By which
-- argument jobs take turns is given, or known from workers. It is not written down here: another
-- transaction that wants to write the same would wait for the end of this one.
CREATE FUNCTION mutirao_enqueue(
    task text,
    args json DEFAULT '{}',
    queue text DEFAULT 'default',
    priority integer DEFAULT 0,
    run_at timestamptz DEFAULT NULL,
    delay double precision DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    timeout double precision DEFAULT NULL,
    key text DEFAULT NULL,
    tags json DEFAULT NULL,
    metadata json DEFAULT NULL,
    traceparent text DEFAULT NULL,
    redrive_of bigint DEFAULT NULL,
    on_dead_of bigint DEFAULT NULL,
    fingerprint text DEFAULT NULL,
    on_conflict text DEFAULT NULL,
    scope text DEFAULT NULL,
    unique_for double precision DEFAULT NULL,
    debounce_limit double precision DEFAULT NULL,
    fair_by text DEFAULT NULL,
    version numeric DEFAULT NULL,
    tenant text DEFAULT NULL,
    "group" text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    due timestamptz := coalesce(
        $5, statement_timestamp() + coalesce($6, 0) * interval '1 second'
    );
    new_id bigint;
    lane text;
BEGIN
    IF $16 IS NOT NULL OR $21 IS NOT NULL THEN
        RETURN mutirao_enqueue_with_key(
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
            $22, $23
        );
    ELSIF $9 IS NOT NULL AND $13 IS NULL AND $14 IS NULL
            AND EXISTS (SELECT FROM mutirao_supersede_task t WHERE t.task = $1) THEN
        RETURN mutirao_enqueue_unjudged($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $15, $20, $22, $23);
    END IF;
    INSERT INTO mutirao_job AS j (
        task, args, queue, priority, run_at, max_attempts, timeout, key, tags, metadata,
        traceparent, redrive_of, on_dead_of, fingerprint, tenant, "group"
    ) VALUES ($1, $2, $3, $4, due, $7, $8, $9, $10, $11, $12, $13, $14, $15, $22, $23)
    RETURNING j.id INTO new_id;
    INSERT INTO mutirao_live AS l (id, queue, priority, run_at, fairness)
    SELECT new_id, CASE WHEN f.by IS NULL THEN $3 ELSE E'\x1f' || $3 END, $4, due,
           CASE WHEN f.by IS NULL THEN '' ELSE '=' || mutirao_value_of($2, f.by, $22, $23) END
    FROM (SELECT coalesce($20, (SELECT m.by FROM mutirao_fairness m WHERE m.task = $1)) AS by) f
    RETURNING l.queue INTO lane;
    -- Asked here, too: each function that pins its path takes 8 microseconds for that.
    IF EXISTS (
        SELECT FROM mutirao_worker WHERE listening AND expires_at > statement_timestamp()
    ) THEN
        PERFORM mutirao_wake(lane, $4, due, new_id, 1, $1);
    END IF;
    RETURN new_id;
END
$$
--;
-- The same where `on_conflict` is given: a key is, too, and a job that is refused is an error. With a
-- version the newest job has to win, which is what the two do that put one in the place of another.
CREATE FUNCTION mutirao_enqueue_with_key(
    _task text, _args json, _queue text, _priority integer, _run_at timestamptz,
    _delay double precision, _max_attempts integer, _timeout double precision, _key text,
    _tags json, _metadata json, _traceparent text, _redrive_of bigint, _on_dead_of bigint,
    _fingerprint text, _on_conflict text, _scope text, _unique_for double precision,
    _debounce_limit double precision, _fair_by text, _version numeric, _tenant text, _group text
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    placed record;
BEGIN
    IF _on_conflict NOT IN ('keep', 'replace', 'rerun', 'error') OR _key IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'on_conflict is ' || coalesce(_on_conflict, 'not given') || ', and key is '
                || coalesce(_key, 'not given'),
            HINT = 'Give a key, and on_conflict as keep, replace, rerun or error.';
    ELSIF _version IS NOT NULL AND coalesce(_on_conflict, '') NOT IN ('replace', 'rerun') THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'version is ' || _version || ', and on_conflict is '
                || coalesce(_on_conflict, 'not given'),
            HINT = 'Give a key, and on_conflict as replace or rerun; or leave version out.';
    END IF;
    SELECT * INTO placed FROM mutirao_enqueue_unique(
        _task, _args, _queue, _priority, _run_at, _delay, _max_attempts, _timeout, _key, _tags,
        _metadata, _traceparent, _redrive_of, _on_dead_of, _fingerprint, _on_conflict, _scope,
        _unique_for, _debounce_limit, NULL, _version, _tenant, _group
    );
    IF placed.how = 'refused' THEN
        RAISE EXCEPTION USING ERRCODE = 'unique_violation',
            MESSAGE = 'job ' || placed.id || ' has the key ' || _key || ' already',
            HINT = 'Leave this job out, or choose keep, replace or rerun.';
    ELSIF placed.how NOT IN ('found', 'outdated') THEN
        PERFORM mutirao_apply_fairness(placed.id, _fair_by);
    END IF;
    RETURN placed.id;
END
$$
