-- The jobs that a counter `c` calls next, up to `most`; `mixed`: late ones and others wait, so that every
-- other one is late. `mutirao.model.fairness.shared` says the same.
--: next_parked most
SELECT n.job, bool_or(n.late) OVER () AND NOT bool_and(n.late) OVER () AS mixed FROM (
    (SELECT w.job, w.priority, w.late, row_number() OVER (ORDER BY w.priority, w.run_at, w.job) AS nth
     FROM mutirao_parked w WHERE w.counter = c.id AND NOT w.late
     ORDER BY w.priority, w.run_at, w.job LIMIT ${most})
    UNION ALL
    (SELECT w.job, w.priority, w.late, row_number() OVER (ORDER BY w.priority, w.run_at, w.job)
     FROM mutirao_parked w WHERE w.counter = c.id AND w.late
     ORDER BY w.priority, w.run_at, w.job LIMIT ${most})
) n
ORDER BY n.priority, CASE WHEN n.late THEN 2 * n.nth - c.late_next ELSE 2 * n.nth - 1 + c.late_next END
LIMIT ${most}
--;
-- Calls the jobs that a rate has tokens for, and sends the first of the others ahead: it is due when
-- there will be a token, and whoever claims then calls more. The caller holds the counters.
-- One whose row a claim has locked, which waits for the counter, is not sent: that claim is to send the
-- next one, and so has to find that nobody was. It found a time to come, and jobs waited seconds for a mend.
CREATE OR REPLACE FUNCTION mutirao_pace(_counters bigint[], _now timestamptz)
RETURNS text[] LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_nestloop = on SET enable_indexscan = on SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    paced bigint[];
    lanes text[] := '{}';
    each record;
    ahead mutirao_live;
BEGIN
    paced := ARRAY(
        SELECT c.id FROM unnest(_counters) AS u (id)
        CROSS JOIN LATERAL (SELECT * FROM mutirao_counter k WHERE k.id = u.id OFFSET 0) c
        CROSS JOIN LATERAL (SELECT per FROM mutirao_limit k WHERE k.name = c.name OFFSET 0) m
        WHERE m.per IS NOT NULL AND (c.probe_at IS NULL OR c.probe_at <= _now)
          AND (c.probe_at IS NOT NULL OR EXISTS (SELECT FROM mutirao_parked WHERE counter = c.id))
    );
    IF cardinality(paced) = 0 THEN
        RETURN lanes;
    END IF;
    lanes := mutirao_call(paced, _now);
    UPDATE mutirao_counter SET probe_at = NULL WHERE id = ANY(paced);
    FOR each IN
        SELECT c.id, p.job, p.mixed, _now + interval '1 second' * greatest(
            -- Whole tokens are for those that were called.
            (1 - (mutirao_room(k, m, _now) - floor(mutirao_room(k, m, _now)))) * m.per / m.most,
            least(0.02, m.burst * m.per / m.most / 2)
        ) AS at
        FROM unnest(paced) AS u (id)
        CROSS JOIN LATERAL (SELECT * FROM mutirao_counter k WHERE k.id = u.id OFFSET 0) c
        CROSS JOIN LATERAL (
            ${next_parked: 1}
        ) p
        JOIN mutirao_counter k ON k.id = c.id
        JOIN mutirao_limit m ON m.name = c.name
    LOOP
        SELECT * INTO ahead FROM mutirao_live WHERE id = each.job AND worker IS NULL
        FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE mutirao_live SET run_at = each.at WHERE id = each.job;
            UPDATE mutirao_counter
            SET probe_at = each.at, late_next = (late_next + each.mixed::integer) % 2
            WHERE id = each.id;
            PERFORM mutirao_wake(ahead.queue, ahead.priority, each.at, ahead.id);
        END IF;
    END LOOP;
    RETURN lanes;
END
$$
