-- By which argument the jobs of a task take turns. Written by whoever has it in its code.
CREATE TABLE mutirao_fair (
    task text PRIMARY KEY CHECK (char_length(task) BETWEEN 1 AND 200),
    by text NOT NULL CHECK (char_length(by) BETWEEN 1 AND 200)
)
--;
-- Whose turn came last, for each worker: so they do not wait for each other.
CREATE TABLE mutirao_served (
    worker bigint NOT NULL,
    lane text NOT NULL,
    fair text COLLATE "C" NOT NULL,
    PRIMARY KEY (worker, lane)
) WITH (fillfactor = 50)
--;
-- Whose turn a job takes: = and the value. Its `queue` is then the character 31 and the one that was
-- asked for, and no claim finds it in the queue's other lanes. Empty for jobs that take no turns:
-- NULL would add eight bytes to each row of a running job.
ALTER TABLE mutirao_live ADD COLUMN fair text COLLATE "C" NOT NULL DEFAULT ''
--;
CREATE INDEX mutirao_live_fair ON mutirao_live (queue, fair, priority, run_at, id) WHERE fair <> ''
--;
-- Moves a new job to the lane where it takes turns, by the argument that is given, or if its task is
-- known to be such a one.
CREATE FUNCTION mutirao_line_up(_job bigint, _by text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    moved mutirao_live;
BEGIN
    UPDATE mutirao_live l
    SET queue = E'\x1f' || j.queue, fair = '=' || left(coalesce(j.args ->> r.by, ''), 200)
    FROM mutirao_job j CROSS JOIN LATERAL (
        SELECT coalesce(_by, (SELECT f.by FROM mutirao_fair f WHERE f.task = j.task)) AS by
    ) r
    WHERE l.id = _job AND j.id = l.id AND r.by IS NOT NULL AND l.fair = '' AND l.worker IS NULL
    RETURNING l.* INTO moved;
    IF FOUND THEN
        PERFORM mutirao_wake(moved.queue, moved.priority, moved.run_at);
    END IF;
END
$$
--;
-- Values that have due jobs, after one and up to another, each with its most urgent priority. A loose
-- index scan: one descent for each.
CREATE FUNCTION mutirao_next_in_turn(
    _lane text, _after text, _up_to text, _most integer, _now timestamptz
) RETURNS TABLE (fair text, priority smallint) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE head AS (
        (SELECT l.fair, l.priority, l.run_at <= _now AS due FROM mutirao_live l
         WHERE l.worker IS NULL AND l.fair <> '' AND l.queue = _lane AND l.fair > _after
         ORDER BY l.fair, l.priority, l.run_at, l.id LIMIT 1)
        UNION ALL
        SELECT next.* FROM head CROSS JOIN LATERAL (
            SELECT l.fair, l.priority, l.run_at <= _now FROM mutirao_live l
            WHERE l.worker IS NULL AND l.fair <> '' AND l.queue = _lane
              AND (l.fair, l.priority)
                  > (head.fair, (CASE WHEN head.due THEN 32767 ELSE head.priority END)::smallint)
            ORDER BY l.fair, l.priority, l.run_at, l.id LIMIT 1
        ) next
        WHERE _up_to IS NULL OR head.fair <= _up_to
    )
    SELECT h.fair, h.priority FROM head h
    WHERE h.due AND (_up_to IS NULL OR h.fair <= _up_to) LIMIT _most;
END
$$
--;
-- Locks the first due jobs of some lines, each beginning after a place: `_share` of each, `_most` in
-- all. What others are taking is passed over.
CREATE FUNCTION mutirao_first_in_line(
    _lane text, _fairs text[], _priorities smallint[], _run_ats timestamptz[], _ids bigint[],
    _share integer, _most integer, _without text[], _now timestamptz
) RETURNS TABLE (line integer, id bigint, run_at timestamptz) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.line::integer, w.id, w.run_at
    FROM unnest(_fairs, _priorities, _run_ats, _ids) WITH ORDINALITY
        AS u (fair, priority, run_at, id, line)
    CROSS JOIN LATERAL (
        SELECT l.id, l.run_at FROM mutirao_live l
        WHERE l.worker IS NULL AND l.fair <> '' AND l.queue = _lane AND l.fair = u.fair
          AND l.priority = u.priority AND (l.run_at, l.id) > (u.run_at, u.id) AND l.run_at <= _now
          AND (_without IS NULL OR (
              (SELECT task FROM mutirao_job WHERE id = l.id) = ANY(_without)
          ) IS NOT TRUE)
        ORDER BY l.run_at, l.id LIMIT _share FOR UPDATE SKIP LOCKED
    ) w LIMIT _most;
END
$$
--;
-- Locks up to `_most` due jobs of a lane, the first of each value after `_after`, then the second of
-- each, and so on; `last` is the value that the last of them has.
CREATE FUNCTION mutirao_pick_in_turn(
    _lane text, _after text, _most integer, _without text[], _now timestamptz,
    OUT picked bigint[], OUT last text
) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    start text := _after;
    up_to text;
    share integer;
    fresh integer;
    each record;
    -- Lines that may have more: the value, and after which job to go on.
    fairs text[] := '{}';
    priorities smallint[] := '{}';
    run_ats timestamptz[] := '{}';
    ids bigint[] := '{}';
    turns integer[] := '{}';
    counts integer[] := '{}';
    before integer[];
    -- What was picked, as the how manieth of its line.
    values_served text[] := '{}';
    nths integer[] := '{}';
    of_turns integer[] := '{}';
    next_fairs text[];
    next_priorities smallint[];
BEGIN
    picked := '{}';
    -- The first round: one of each value, until there are enough or everybody had a turn.
    LOOP
        SELECT array_agg(n.fair), array_agg(n.priority) INTO next_fairs, next_priorities
        FROM mutirao_next_in_turn(_lane, start, up_to, _most - cardinality(picked), _now) n;
        IF next_fairs IS NULL THEN
            EXIT WHEN up_to IS NOT NULL OR _after = '';
            start := '';
            up_to := _after;
            CONTINUE;
        END IF;
        fresh := cardinality(next_fairs);
        start := next_fairs[fresh];
        before := array_fill(0, ARRAY[fresh]);
        fairs := fairs || next_fairs;
        priorities := priorities || next_priorities;
        turns := turns || ARRAY(SELECT cardinality(turns) + n FROM generate_series(1, fresh) n);
        run_ats := run_ats || array_fill('-infinity'::timestamptz, ARRAY[fresh]);
        ids := ids || array_fill(0::bigint, ARRAY[fresh]);
        counts := counts || before;
        fresh := cardinality(fairs) - fresh;
        FOR each IN SELECT * FROM mutirao_first_in_line(
            _lane, next_fairs, next_priorities, run_ats[fresh + 1:], ids[fresh + 1:], 1,
            _most - cardinality(picked), _without, _now
        ) LOOP
            run_ats[fresh + each.line] := each.run_at;
            ids[fresh + each.line] := each.id;
            counts[fresh + each.line] := 1;
            picked := picked || each.id;
            nths := nths || 1;
            of_turns := of_turns || turns[fresh + each.line];
        END LOOP;
        EXIT WHEN cardinality(picked) = _most;
    END LOOP;
    values_served := fairs;
    -- More rounds, several at once where there are few lines.
    WHILE cardinality(picked) < _most AND cardinality(fairs) > 0 LOOP
        share := greatest((_most - cardinality(picked)) / cardinality(fairs), 1);
        before := counts;
        FOR each IN SELECT * FROM mutirao_first_in_line(
            _lane, fairs, priorities, run_ats, ids, share, _most - cardinality(picked), _without,
            _now
        ) LOOP
            run_ats[each.line] := each.run_at;
            ids[each.line] := each.id;
            counts[each.line] := counts[each.line] + 1;
            picked := picked || each.id;
            nths := nths || counts[each.line];
            of_turns := of_turns || turns[each.line];
        END LOOP;
        EXIT WHEN cardinality(picked) = _most;
        -- A line that had fewer goes on with its next priority, if it has one.
        SELECT coalesce(array_agg(n.fair), '{}'), coalesce(array_agg(n.priority), '{}'),
               coalesce(array_agg(n.run_at), '{}'), coalesce(array_agg(n.id), '{}'),
               coalesce(array_agg(n.turn), '{}'), coalesce(array_agg(n.count), '{}')
        INTO fairs, priorities, run_ats, ids, turns, counts
        FROM (
            SELECT u.fair, coalesce(p.priority, u.priority) AS priority,
                   CASE WHEN p.priority IS NULL THEN u.run_at ELSE '-infinity' END AS run_at,
                   CASE WHEN p.priority IS NULL THEN u.id ELSE 0 END AS id, u.turn, u.count
            FROM unnest(fairs, priorities, run_ats, ids, turns, counts, before)
                AS u (fair, priority, run_at, id, turn, count, before)
            LEFT JOIN LATERAL (
                SELECT l.priority FROM mutirao_live l
                WHERE u.count - u.before < share AND l.worker IS NULL AND l.fair <> ''
                  AND l.queue = _lane AND l.fair = u.fair AND l.priority > u.priority
                ORDER BY l.priority LIMIT 1
            ) p ON true
            WHERE u.count - u.before >= share OR p.priority IS NOT NULL
            ORDER BY u.turn
        ) n;
    END LOOP;
    SELECT array_agg(u.id ORDER BY u.nth, u.turn),
           (array_agg(u.turn ORDER BY u.nth DESC, u.turn DESC))[1]
    INTO picked, fresh
    FROM unnest(picked, nths, of_turns) AS u (id, nth, turn);
    last := values_served[fresh];
END
$$
--;
-- Claims as `mutirao_claim` does, where jobs take turns in some of the lanes. In these the bounds mean
-- nothing, and all priorities of a lane are one. The order of the rows is that of the turns; `queue` is
-- the lane's.
CREATE FUNCTION mutirao_claim_in_turn(
    _worker bigint, _queues text[], _priorities smallint[], _run_ats timestamptz[], _ids bigint[],
    _most integer, _without text[], _now timestamptz
) RETURNS TABLE (
    id bigint, run integer, attempt integer, task text, args text, queue text, priority smallint,
    run_at timestamptz, enqueued_at timestamptz, max_attempts integer, timeout double precision,
    key text, tags text, metadata text, traceparent text, redrive_of bigint, on_dead_of bigint,
    cancel boolean, lost smallint, cut_off smallint
) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := coalesce(_now, statement_timestamp());
    paused text[];
    chosen bigint[] := '{}';
    found bigint[];
    asked text[] := '{}';
    lanes text[] := '{}';
    fairs text[] := '{}';
    lane record;
    turns record;
    again text;
BEGIN
    PERFORM mutirao_require(_worker);
    _run_ats := array_replace(_run_ats, '0001-06-01 00:00Z', '-infinity');
    PERFORM pg_advisory_xact_lock_shared(hashtext('mutirao limits'));
    paused := ARRAY(
        SELECT m.queue FROM mutirao_limit m
        WHERE m.most = 0 AND m.queue IS NOT NULL AND m.by IS NULL
    );
    FOR lane IN
        SELECT u.* FROM unnest(_queues, _priorities, _run_ats, _ids)
            AS u (queue, priority, run_at, id)
        WHERE ltrim(u.queue, E'\x1f') <> ALL(paused)
    LOOP
        EXIT WHEN cardinality(chosen) >= _most;
        IF NOT starts_with(lane.queue, E'\x1f') THEN
            chosen := chosen || ARRAY(
                SELECT l.id FROM mutirao_live l
                WHERE l.worker IS NULL AND l.queue = lane.queue AND l.priority = lane.priority
                  AND l.run_at < '9999-06-01 00:00Z'
                  AND (l.run_at, l.id) >= (lane.run_at, lane.id) AND l.run_at <= moment
                  AND (_without IS NULL OR (
                      (SELECT task FROM mutirao_job WHERE id = l.id) = ANY(_without)
                  ) IS NOT TRUE)
                ORDER BY l.run_at, l.id LIMIT _most - cardinality(chosen) FOR UPDATE SKIP LOCKED
            );
        ELSIF lane.queue <> ALL(asked) THEN
            asked := asked || lane.queue;
            SELECT p.picked, p.last INTO turns FROM mutirao_pick_in_turn(
                lane.queue,
                -- A function compares all its texts by the collation of what it is given.
                coalesce((
                    SELECT s.fair FROM mutirao_served s
                    WHERE s.worker = _worker AND s.lane = lane.queue
                ), '') COLLATE "default",
                _most - cardinality(chosen), _without, moment
            ) p;
            IF turns.picked IS NOT NULL THEN
                chosen := chosen || turns.picked;
                lanes := lanes || lane.queue;
                fairs := fairs || turns.last;
            END IF;
        END IF;
    END LOOP;
    INSERT INTO mutirao_served AS s (worker, lane, fair)
    SELECT _worker, u.lane, u.fair FROM unnest(lanes, fairs) AS u (lane, fair) ORDER BY u.lane
    ON CONFLICT (worker, lane) DO UPDATE SET fair = excluded.fair WHERE s.fair <> excluded.fair;
    found := chosen;
    IF EXISTS (SELECT FROM mutirao_limit) THEN
        SELECT a.taken, a.again INTO found, again FROM mutirao_admit(
            _queues, _priorities, _run_ats, _ids, _most, _most, _without, moment, chosen
        ) a;
    END IF;
    RETURN QUERY
    WITH taken AS (
        UPDATE mutirao_live SET worker = _worker, run = run % 2147483647 + 1,
            attempt = least(attempt, 2147483646) + 1, claimed_at = moment
        WHERE id = ANY(found)
        RETURNING id, run, attempt, greatest(run_at, '0001-06-01 00:00Z') AS run_at, cancel, queue,
                  lost, cut_off
    )
    SELECT t.id, t.run, t.attempt, j.task, j.args::text, t.queue, j.priority, t.run_at,
           j.enqueued_at, j.max_attempts, j.timeout, j.key, j.tags::text, j.metadata::text,
           j.traceparent, j.redrive_of, j.on_dead_of, t.cancel, t.lost, t.cut_off
    FROM taken t
    CROSS JOIN LATERAL (SELECT * FROM mutirao_job WHERE id = t.id OFFSET 0) j
    ORDER BY array_position(chosen, t.id);
    IF again IS NOT NULL THEN
        RETURN QUERY SELECT
            0::bigint, 0, 0, again, NULL::text, NULL::text, NULL::smallint, NULL::timestamptz,
            NULL::timestamptz, NULL::integer, NULL::double precision, NULL::text, NULL::text,
            NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::boolean,
            NULL::smallint, NULL::smallint;
    END IF;
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
    fair_by text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    due timestamptz := coalesce(
        $5, statement_timestamp() + coalesce($6, 0) * interval '1 second'
    );
    new_id bigint;
    verdict text;
    lane text;
BEGIN
    IF $16 IS NOT NULL THEN
        IF $16 NOT IN ('keep', 'replace', 'rerun', 'error') OR $9 IS NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
                MESSAGE = 'on_conflict is ' || $16 || ', and key is ' || coalesce($9, 'not given'),
                HINT = 'Give a key, and on_conflict as keep, replace, rerun or error.';
        END IF;
        SELECT p.id, p.how INTO new_id, verdict FROM mutirao_place(
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19
        ) p;
        IF verdict = 'refused' THEN
            RAISE EXCEPTION USING ERRCODE = 'unique_violation',
                MESSAGE = 'job ' || new_id || ' has the key ' || $9 || ' already',
                HINT = 'Leave this job out, or choose keep, replace or rerun.';
        END IF;
        IF verdict <> 'found' THEN
            PERFORM mutirao_line_up(new_id, $20);
        END IF;
        RETURN new_id;
    END IF;
    INSERT INTO mutirao_job AS j (
        task, args, queue, priority, run_at, max_attempts, timeout, key, tags, metadata,
        traceparent, redrive_of, on_dead_of, fingerprint
    ) VALUES ($1, $2, $3, $4, due, $7, $8, $9, $10, $11, $12, $13, $14, $15)
    RETURNING j.id INTO new_id;
    INSERT INTO mutirao_live AS l (id, queue, priority, run_at, fair)
    SELECT new_id, CASE WHEN f.by IS NULL THEN $3 ELSE E'\x1f' || $3 END, $4, due,
           CASE WHEN f.by IS NULL THEN '' ELSE '=' || left(coalesce($2 ->> f.by, ''), 200) END
    FROM (SELECT coalesce($20, (SELECT m.by FROM mutirao_fair m WHERE m.task = $1)) AS by) f
    RETURNING l.queue INTO lane;
    -- Asked here, too: each function that pins its path takes 8 microseconds for that.
    IF EXISTS (
        SELECT FROM mutirao_worker WHERE listening AND expires_at > statement_timestamp()
    ) THEN
        PERFORM mutirao_wake(lane, $4, due);
    END IF;
    RETURN new_id;
END
$$
