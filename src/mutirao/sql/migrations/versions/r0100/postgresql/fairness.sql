-- Who takes turns, and whose turn it is.

-- By which argument the jobs of a task take turns. Written by whoever has it in its code.
CREATE TABLE mutirao_fairness (
    task text PRIMARY KEY CHECK (char_length(task) BETWEEN 1 AND 200),
    by text NOT NULL CHECK (char_length(by) BETWEEN 1 AND 200)
)
--;
-- Whose turn came last, for each worker: so they do not wait for each other.
CREATE TABLE mutirao_fairness_served (
    worker bigint NOT NULL,
    lane text NOT NULL,
    fairness text COLLATE "C" NOT NULL,
    PRIMARY KEY (worker, lane)
) WITH (fillfactor = 50)
--;
-- Whether a live job `l` waits for its turn: what is blocked does not.
--: takes_turns
l.worker IS NULL AND l.fairness <> '' AND l.run_at < ${parked}
--;
-- Moves a new job to the lane where it takes turns, by the argument that is given, or if its task is
-- known to be such a one.
CREATE FUNCTION mutirao_apply_fairness(_job bigint, _by text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    moved mutirao_live;
BEGIN
    UPDATE mutirao_live l
    SET queue = E'\x1f' || j.queue, fairness = '=' || mutirao_value_of(j.args, r.by, j.tenant, j."group")
    FROM mutirao_job j CROSS JOIN LATERAL (
        SELECT coalesce(_by, (SELECT f.by FROM mutirao_fairness f WHERE f.task = j.task)) AS by
    ) r
    WHERE l.id = _job AND j.id = l.id AND r.by IS NOT NULL AND l.fairness = '' AND l.worker IS NULL
    RETURNING l.* INTO moved;
    IF FOUND THEN
        PERFORM mutirao_wake(moved.queue, moved.priority, moved.run_at, _job);
    END IF;
END
$$
--;
-- The ranks of the jobs that were found among the chosen ones, in the order of their ids. So they are sorted by
-- numbers: to look each up by `array_position` took 2 of the 20 microseconds for a job.
CREATE FUNCTION mutirao_fairness_ranks(_chosen bigint[], _found bigint[])
RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF _found <> _chosen THEN
        _found := ARRAY(SELECT u.id FROM unnest(_chosen) AS u (id) WHERE u.id = ANY(_found));
    END IF;
    RETURN ARRAY(SELECT u.rank FROM unnest(_found) WITH ORDINALITY AS u (id, rank) ORDER BY u.id);
END
$$
--;
-- Claims as `mutirao_claim` does, where jobs take turns in some of the lanes. In these all priorities of a
-- lane are one, and so are their bounds: the first. The order of the rows is that of the turns; `queue` is
-- the lane's.
CREATE FUNCTION mutirao_claim_by_fairness(
    ${claim_arguments}
) RETURNS TABLE (
    ${claim_columns}
) LANGUAGE plpgsql VOLATILE
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := coalesce(_now, statement_timestamp());
    chosen bigint[];
    found bigint[];
    ranks bigint[]; -- of what was found, in the order of the ids
    paused text[]; -- NULL: there are no limits
    again text;
BEGIN
    ${begin_claim}
    chosen := mutirao_lock_by_fairness(
        _worker, _queues, _priorities, _run_ats, _ids, _most, _without, paused, moment
    );
    found := chosen;
    IF paused IS NOT NULL THEN
        SELECT a.taken, a.again INTO found, again FROM mutirao_admit(chosen, _most, moment) a;
    END IF;
    ranks := mutirao_fairness_ranks(chosen, found);
    ${take_found: ; cut_off, queue; t.queue; (SELECT *, row_number() OVER (ORDER BY taken.id) AS number FROM taken); ORDER BY ranks[t.number]}
    ${say_again}
END
$$
--;
-- Locks up to `_most` due jobs of some lanes, one after the other, and by turns where jobs take turns; notes
-- whose turn came last. Of the tasks `_without` and the queues `_paused` none.
CREATE FUNCTION mutirao_lock_by_fairness(
    _worker bigint, _queues text[], _priorities smallint[], _run_ats timestamptz[], _ids bigint[],
    _most integer, _without text[], _paused text[], _now timestamptz
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    found bigint[] := '{}';
    asked text[] := '{}';
    lanes text[] := '{}';
    fairness_values text[] := '{}';
    lane record;
    turns record;
BEGIN
    FOR lane IN
        SELECT u.* FROM unnest(_queues, _priorities, _run_ats, _ids)
            AS u (queue, priority, run_at, id)
        WHERE _paused IS NULL OR u.queue <> ALL(_paused)
    LOOP
        EXIT WHEN cardinality(found) >= _most;
        IF NOT starts_with(lane.queue, E'\x1f') THEN
            found := found || ARRAY(
                SELECT l.id FROM mutirao_live l
                WHERE mutirao_is_due(l, lane.queue, lane.priority, lane.run_at, lane.id, _now)
                  AND ${of_other_tasks}
                ORDER BY l.run_at, l.id LIMIT _most - cardinality(found) FOR UPDATE SKIP LOCKED
            );
        ELSIF lane.queue <> ALL(asked) THEN
            asked := asked || lane.queue;
            SELECT p.picked, p.last INTO turns FROM mutirao_pick_by_fairness(
                lane.queue,
                -- A function compares all its texts by the collation of what it is given.
                coalesce((
                    SELECT s.fairness FROM mutirao_fairness_served s
                    WHERE s.worker = _worker AND s.lane = lane.queue
                ), '') COLLATE "default",
                _most - cardinality(found), _without, _now, (
                    SELECT min(u.run_at) FROM unnest(_queues, _run_ats) AS u (queue, run_at)
                    WHERE u.queue = lane.queue
                )
            ) p;
            IF turns.picked IS NOT NULL THEN
                found := found || turns.picked;
                lanes := lanes || lane.queue;
                fairness_values := fairness_values || turns.last;
            END IF;
        END IF;
    END LOOP;
    INSERT INTO mutirao_fairness_served AS s (worker, lane, fairness)
    SELECT _worker, u.lane, u.fairness
    FROM unnest(lanes, fairness_values) AS u (lane, fairness) ORDER BY u.lane
    ON CONFLICT (worker, lane) DO UPDATE SET fairness = excluded.fairness WHERE s.fairness <> excluded.fairness;
    RETURN found;
END
$$
--;
-- Locks up to `_most` due jobs of a lane, the first of each value after `_after`, then the second of
-- each, and so on; `last` is the value that the last of them has. None was due before `_since`.
CREATE FUNCTION mutirao_pick_by_fairness(
    _lane text, _after text, _most integer, _without text[], _now timestamptz, _since timestamptz,
    OUT picked bigint[], OUT last text
) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    every_value text[];
    -- Lines that may have more: the value, after which job to go on, its turn, how many were picked.
    fairness_values text[];
    priorities smallint[];
    run_ats timestamptz[];
    ids bigint[];
    turns integer[];
    counts integer[];
    before integer[];
    share integer;
    each record;
    nths integer[]; -- what was picked, as the how manieth
    of_turns integer[]; -- of which line
BEGIN
    SELECT r.* INTO fairness_values, priorities, run_ats, ids
    FROM mutirao_fairness_first_round(_lane, _after, _most, _without, _now, _since) r;
    picked := array_remove(ids, 0);
    IF cardinality(picked) = _most THEN -- one of each: in their order already
        last := fairness_values[cardinality(fairness_values)];
        RETURN;
    END IF;
    every_value := fairness_values;
    turns := ARRAY(SELECT generate_series(1, cardinality(fairness_values)));
    counts := ARRAY(SELECT (u.id <> 0)::integer FROM unnest(ids) AS u (id));
    nths := array_remove(counts, 0);
    of_turns := ARRAY(SELECT u.turn FROM unnest(turns, ids) AS u (turn, id) WHERE u.id <> 0);
    -- More rounds, several at once where there are few lines.
    WHILE cardinality(picked) < _most AND cardinality(fairness_values) > 0 LOOP
        share := greatest((_most - cardinality(picked)) / cardinality(fairness_values), 1);
        before := counts;
        FOR each IN SELECT * FROM mutirao_fairness_first(
            _lane, fairness_values, priorities, run_ats, ids, share, _most - cardinality(picked),
            _without, _now
        ) LOOP
            run_ats[each.line] := each.run_at;
            ids[each.line] := each.id;
            counts[each.line] := counts[each.line] + 1;
            picked := picked || each.id;
            nths := nths || counts[each.line];
            of_turns := of_turns || turns[each.line];
        END LOOP;
        EXIT WHEN cardinality(picked) = _most;
        SELECT g.* INTO fairness_values, priorities, run_ats, ids, turns, counts
        FROM mutirao_fairness_next_rounds(
            _lane, share, before, fairness_values, priorities, run_ats, ids, turns, counts
        ) g;
    END LOOP;
    SELECT array_agg(u.id ORDER BY u.nth, u.turn),
           every_value[(array_agg(u.turn ORDER BY u.nth DESC, u.turn DESC))[1]]
    INTO picked, last
    FROM unnest(picked, nths, of_turns) AS u (id, nth, turn);
END
$$
--;
-- Lines: the values of a lane that have due jobs, in the order of their turns after `_after`, until `_most`
-- have one to give or everybody had a turn. Locks the first due job of each: `ids` and `run_ats` tell which
-- it is, 0 and -infinity where others are taking them.
CREATE FUNCTION mutirao_fairness_first_round(
    _lane text, _after text, _most integer, _without text[], _now timestamptz, _since timestamptz,
    OUT fairness_values text[], OUT priorities smallint[], OUT run_ats timestamptz[], OUT ids bigint[]
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    start text := _after;
    up_to text; -- NULL: until the last value; then from the first one on
    picked integer := 0;
    next_values text[];
    next_priorities smallint[];
    next_ids bigint[];
    next_run_ats timestamptz[];
BEGIN
    fairness_values := '{}';
    priorities := '{}';
    run_ats := '{}';
    ids := '{}';
    LOOP
        SELECT array_agg(n.fairness), array_agg(n.priority), array_agg(n.id)
        INTO next_values, next_priorities, next_ids
        FROM mutirao_fairness_next(_lane, start, up_to, _most - picked, _now, _since) n;
        IF next_values IS NULL THEN
            EXIT WHEN up_to IS NOT NULL OR _after = '';
            start := '';
            up_to := _after;
            CONTINUE;
        END IF;
        start := next_values[cardinality(next_values)];
        fairness_values := fairness_values || next_values;
        priorities := priorities || next_priorities;
        SELECT h.ids, h.run_ats INTO next_ids, next_run_ats
        FROM mutirao_fairness_heads(
            _lane, next_values, next_priorities, next_ids, _without, _now, _since
        ) h;
        ids := ids || next_ids;
        run_ats := run_ats || next_run_ats;
        picked := cardinality(array_remove(ids, 0));
        EXIT WHEN picked = _most;
    END LOOP;
END
$$
--;
-- Locks the first due job of each of these lines: `ids`, which were the first a moment ago, or where others
-- take that or it may not be taken, the next one. By their ids: to find a job by its line, again, took 5.5
-- microseconds instead of 1.7, as a scan reads all entries of the line that are on the index's page.
CREATE FUNCTION mutirao_fairness_heads(
    _lane text, _values text[], _priorities smallint[], INOUT ids bigint[], _without text[],
    _now timestamptz, _since timestamptz, OUT run_ats timestamptz[]
) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    others integer[]; -- lines
    each record;
BEGIN
    SELECT array_agg(coalesce(w.id, 0) ORDER BY u.line),
           array_agg(coalesce(w.run_at, '-infinity') ORDER BY u.line),
           array_agg(u.line ORDER BY u.line) FILTER (WHERE w.id IS NULL)
    INTO ids, run_ats, others
    FROM unnest(_values, _priorities, ids) WITH ORDINALITY AS u (fairness, priority, id, line)
    LEFT JOIN LATERAL (
        SELECT l.id, l.run_at FROM mutirao_live l
        WHERE l.id = u.id AND l.worker IS NULL AND l.queue = _lane AND l.fairness = u.fairness
          AND l.priority = u.priority AND l.run_at <= _now AND _without IS NULL
        OFFSET 0 FOR UPDATE SKIP LOCKED
    ) w ON true;
    IF others IS NULL THEN
        RETURN;
    END IF;
    FOR each IN SELECT * FROM mutirao_fairness_first(
        _lane, ARRAY(SELECT _values[u.line] FROM unnest(others) AS u (line)),
        ARRAY(SELECT _priorities[u.line] FROM unnest(others) AS u (line)),
        array_fill(_since, ARRAY[cardinality(others)]),
        array_fill(0::bigint, ARRAY[cardinality(others)]), 1, cardinality(others), _without, _now
    ) LOOP
        ids[others[each.line]] := each.id;
        run_ats[others[each.line]] := each.run_at;
    END LOOP;
END
$$
--;
-- The lines that may have more due jobs, of which each was to give `_share`, and has given the `counts`
-- less the `_before`: one that gave fewer goes on with its next priority, if it has one.
CREATE FUNCTION mutirao_fairness_next_rounds(
    _lane text, _share integer, _before integer[], INOUT fairness_values text[], INOUT priorities smallint[],
    INOUT run_ats timestamptz[], INOUT ids bigint[], INOUT turns integer[], INOUT counts integer[]
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT coalesce(array_agg(n.fairness), '{}'), coalesce(array_agg(n.priority), '{}'),
           coalesce(array_agg(n.run_at), '{}'), coalesce(array_agg(n.id), '{}'),
           coalesce(array_agg(n.turn), '{}'), coalesce(array_agg(n.count), '{}')
    INTO fairness_values, priorities, run_ats, ids, turns, counts
    FROM (
        SELECT u.fairness, coalesce(p.priority, u.priority) AS priority,
               CASE WHEN p.priority IS NULL THEN u.run_at ELSE '-infinity' END AS run_at,
               CASE WHEN p.priority IS NULL THEN u.id ELSE 0 END AS id, u.turn, u.count
        FROM unnest(fairness_values, priorities, run_ats, ids, turns, counts, _before)
            AS u (fairness, priority, run_at, id, turn, count, before)
        LEFT JOIN LATERAL (
            SELECT l.priority FROM mutirao_live l
            WHERE u.count - u.before < _share AND ${takes_turns}
              AND l.queue = _lane AND l.fairness = u.fairness AND l.priority > u.priority
            ORDER BY l.priority LIMIT 1
        ) p ON true
        WHERE u.count - u.before >= _share OR p.priority IS NOT NULL
        ORDER BY u.turn
    ) n;
END
$$
--;
-- Values that have due jobs, after one and up to another, each with its most urgent priority and its first
-- job of that. A loose index scan: one descent for each. `_since` is asked of the entries of the index: so
-- what was done while somebody holds a snapshot is passed over without a look at its row.
CREATE FUNCTION mutirao_fairness_next(
    _lane text, _after text, _up_to text, _most integer, _now timestamptz, _since timestamptz
) RETURNS TABLE (fairness text, priority smallint, id bigint) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE head AS (
        (SELECT l.fairness, l.priority, l.id, l.run_at <= _now AS due FROM mutirao_live l
         WHERE ${takes_turns} AND l.run_at >= _since AND l.queue = _lane AND l.fairness > _after
         ORDER BY l.fairness, l.priority, l.run_at, l.id LIMIT 1)
        UNION ALL
        SELECT next.* FROM head CROSS JOIN LATERAL (
            SELECT l.fairness, l.priority, l.id, l.run_at <= _now FROM mutirao_live l
            WHERE ${takes_turns} AND l.run_at >= _since AND l.queue = _lane
              AND (l.fairness, l.priority)
                  > (head.fairness, (CASE WHEN head.due THEN 32767 ELSE head.priority END)::smallint)
            ORDER BY l.fairness, l.priority, l.run_at, l.id LIMIT 1
        ) next
        WHERE _up_to IS NULL OR head.fairness <= _up_to
    )
    SELECT h.fairness, h.priority, h.id FROM head h
    WHERE h.due AND (_up_to IS NULL OR h.fairness <= _up_to) LIMIT _most;
END
$$
--;
-- Locks the first due jobs of some lines, each beginning after a place: `_share` of each, `_most` in
-- all. What others are taking is passed over.
CREATE FUNCTION mutirao_fairness_first(
    _lane text, _values text[], _priorities smallint[], _run_ats timestamptz[], _ids bigint[],
    _share integer, _most integer, _without text[], _now timestamptz
) RETURNS TABLE (line integer, id bigint, run_at timestamptz) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.line::integer, w.id, w.run_at
    FROM unnest(_values, _priorities, _run_ats, _ids) WITH ORDINALITY
        AS u (fairness, priority, run_at, id, line)
    CROSS JOIN LATERAL (
        SELECT l.id, l.run_at FROM mutirao_live l
        WHERE ${takes_turns} AND l.queue = _lane AND l.fairness = u.fairness
          AND l.priority = u.priority AND (l.run_at, l.id) > (u.run_at, u.id) AND l.run_at <= _now
          AND ${of_other_tasks}
        ORDER BY l.run_at, l.id LIMIT _share FOR UPDATE SKIP LOCKED
    ) w LIMIT _most;
END
$$
