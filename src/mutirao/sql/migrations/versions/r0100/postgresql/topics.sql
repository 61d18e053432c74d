-- Who is told of what is published, and which jobs that made.

-- `options` and `filter` are JSON, as the text they came as. A topic is a name, or a pattern that ends with
-- `*`. Without a tenant, a group or a filter it is told of any. `order_by`: the field of what is published whose
-- deliveries are made one after another; `reached`: up to which publication that was done. `key`: the field whose
-- equal values have one delivery at a time.
CREATE TABLE mutirao_subscription (
    id text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 200),
    topic text NOT NULL,
    tenant text,
    "group" text,
    filter text,
    key text,
    order_by text,
    when_dead text CHECK (when_dead IN ('stop', 'continue')),
    reached bigint,
    kind text NOT NULL CHECK (kind IN ('handler', 'endpoint')),
    active boolean NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    options text NOT NULL,
    origin text NOT NULL CHECK (origin IN ('code', 'call')),
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    declared text,
    declared_at timestamptz,
    declared_by text
)
--;
-- A publication is told to the subscriptions of a topic in the order of their ids.
CREATE INDEX mutirao_subscription_topic ON mutirao_subscription (topic, tenant, id)
--;
CREATE INDEX mutirao_subscription_order ON mutirao_subscription (topic) WHERE order_by IS NOT NULL
--;
-- Those about which the client decides.
CREATE INDEX mutirao_subscription_asked ON mutirao_subscription (topic)
WHERE filter IS NOT NULL OR key IS NOT NULL
--;
-- The jobs of publications. `nth` counts those of one publication for one subscription: 0 came of the
-- publication itself, never twice; the others were asked for again.
CREATE TABLE mutirao_delivery (
    job bigint PRIMARY KEY,
    publication bigint NOT NULL,
    subscription text NOT NULL,
    nth integer NOT NULL
)
--;
CREATE UNIQUE INDEX mutirao_delivery_once ON mutirao_delivery (publication, subscription, nth)
--;
-- The deliveries that are made one after another: all of a subscription and a key, in the order of `turn`, which
-- is the job's id, or that of the job that it redrives. Empty: there was nothing to order by. `after`: the
-- delivery that it waits for.
CREATE TABLE mutirao_ordered (
    job bigint PRIMARY KEY,
    subscription text NOT NULL,
    key text NOT NULL,
    turn bigint NOT NULL,
    after bigint
)
--;
CREATE INDEX mutirao_ordered_turn ON mutirao_ordered (subscription, key, turn, job)
--;
CREATE INDEX mutirao_ordered_after ON mutirao_ordered (after) WHERE after IS NOT NULL
--;
-- What `options` may say: `mutirao.sql.statements.subscriptions` asks the same of them. As a type, because
-- it is read only where something is said: a join with `json_to_record` took half a microsecond for each
-- subscription that says nothing, of eight that a delivery takes.
CREATE TYPE mutirao_subscription_options AS (
    delay double precision, max_attempts integer, timeout double precision, tags json, fair_by text, args text
)
--;
--: whose s
${s}.active AND ${s}.order_by IS NULL AND (${s}.tenant IS NULL OR ${s}.tenant = p.tenant) AND (${s}."group" IS NULL OR ${s}."group" = p."group")
--;
-- The next active subscriptions that are told of a publication `p`: `mutirao.sql.statements.subscriptions`
-- finds the same for databases without this function. Ordered by the tenant, too, which is one: or the index
-- would not give them in order, and all that come later be sorted each time. With all columns a delivery takes
-- a third of a microsecond more, of eight.
--: told_of s
${s}.id, ${s}.task, ${s}.queue, ${s}.priority, ${s}.options, ${s}.filter, ${s}.key
--;
--: next_told
SELECT m.*, filter IS NULL AND key IS NULL AS plain FROM (
    SELECT ${told_of: n} FROM unnest(_topics) AS t (topic) CROSS JOIN LATERAL (
        SELECT s.* FROM mutirao_subscription s
        WHERE s.topic = t.topic AND s.tenant IS NULL AND s.id > _after AND ${whose: s}
        ORDER BY s.tenant, s.id LIMIT _most
    ) n
    UNION ALL
    SELECT ${told_of: n} FROM unnest(_topics) AS t (topic) CROSS JOIN LATERAL (
        SELECT s.* FROM mutirao_subscription s
        WHERE s.topic = t.topic AND s.tenant = p.tenant AND s.id > _after AND ${whose: s}
        ORDER BY s.id LIMIT _most
    ) n
    UNION ALL
    SELECT ${told_of: s} FROM (
        SELECT DISTINCT n.subscription FROM unnest(_topics) AS t (topic) CROSS JOIN LATERAL (
            SELECT f.subscription FROM mutirao_further_topic f JOIN mutirao_subscription g ON g.id = f.subscription
            WHERE f.topic = t.topic AND f.subscription > _after AND g.topic <> ALL(_topics) AND ${whose: g}
            ORDER BY f.subscription LIMIT _most
        ) n
    ) d JOIN mutirao_subscription s ON s.id = d.subscription
    ORDER BY id LIMIT _most
) m
--;
--: found
SELECT
    s.id, s.task, s.queue, s.priority, s.plain, p.traceparent, p.tenant, p."group",
    CASE WHEN s.options <> '{}'
        THEN json_populate_record(NULL::mutirao_subscription_options, s.options::json)
    END AS o
FROM mutirao_job p CROSS JOIN LATERAL (
    ${next_told}
    UNION ALL
    SELECT ${told_of: a}, true FROM mutirao_subscription a WHERE a.id = ANY(_also)
) s
WHERE p.id = _publication
OFFSET 0
--;
-- One job for each of the next subscriptions to a publication, as deliveries of it: a part of a fan-out.
-- Tells how many they were, the last of them, and those that the client has to decide about: they are made
-- when it names them in `_also`. Jobs as others are, in their lanes and turns, and workers are woken for them.
-- JIT would be started by the price of a scan that is switched off. What is kept of 50,000 takes 10 MB: through
-- a file a delivery took 0.15 µs more, of seven.
CREATE FUNCTION mutirao_deliver(
    _publication bigint, _topics text[], _after text, _most integer, _also text[],
    OUT met bigint, OUT reached text, OUT asked text[]
) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET work_mem = '32MB' SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    made record;
    beginning text := '{"publication":' || _publication || ',"subscription":';
BEGIN
    WITH found AS (
        ${found}
    ), told AS MATERIALIZED (
        SELECT
            CASE WHEN s.plain THEN mutirao_next_id() END AS job, s.id, s.task, s.queue, s.priority,
            (s.o).max_attempts, (s.o).timeout, (s.o).tags, coalesce((s.o).args::json, '{}') AS args,
            coalesce(statement_timestamp() + (s.o).delay * interval '1 second', statement_timestamp()) AS due,
            coalesce((s.o).fair_by, CASE WHEN EXISTS (SELECT FROM mutirao_fairness) THEN (
                SELECT f.by FROM mutirao_fairness f WHERE f.task = s.task
            ) END) AS by, s.traceparent, s.tenant, s."group"
        FROM found s
    ), jobs AS (
        INSERT INTO mutirao_job
            (id, task, args, queue, priority, run_at, max_attempts, timeout, tags, metadata, traceparent, tenant, "group")
        SELECT
            job, task, args, queue, priority, due, max_attempts, timeout, tags,
            (beginning || to_json(id)::text || '}')::json,
            traceparent, tenant, "group"
        FROM told WHERE job IS NOT NULL
    ), lives AS (
        INSERT INTO mutirao_live (id, queue, priority, run_at, fairness)
        SELECT
            job, CASE WHEN by IS NULL THEN queue ELSE E'\x1f' || queue END, priority, due,
            CASE WHEN by IS NULL THEN '' ELSE '=' || mutirao_value_of(args, by, tenant, "group") END
        FROM told WHERE job IS NOT NULL
    ), deliveries AS (
        INSERT INTO mutirao_delivery (job, publication, subscription, nth)
        SELECT job, _publication, id, 0 FROM told WHERE job IS NOT NULL
    )
    SELECT
        count(*) AS met, max(id) AS reached, array_agg(id) FILTER (WHERE job IS NULL) AS asked,
        count(job) AS jobs, min(job) AS job, min(due) AS due, min(queue) AS queue, min(priority) AS priority,
        min(queue) = max(queue) AND min(priority) = max(priority) AND count(by) = 0 AS alone
    INTO made
    FROM told;
    SELECT made.met, made.reached, coalesce(made.asked, '{}') INTO met, reached, asked;
    IF made.jobs > 0 AND made.alone THEN
        PERFORM mutirao_wake(made.queue, made.priority, made.due, made.job, made.jobs);
    ELSIF made.jobs > 0 THEN
        PERFORM mutirao_wake();
    END IF;
END
$$
--;
-- A part of a fan-out as a transaction of its own, which with the last part completes the publication, too: one
-- round trip in place of five. `last`: its last subscription; NULL: all are told. `done`: false, and nothing is
-- done, where it takes the client: another run has the publication, there are subscriptions about which the
-- client decides, or with several topics, or it is to be said that nobody was told. A subscription that came to
-- be such a one meanwhile is met when this is tried again.
CREATE FUNCTION mutirao_fan_out(
    _publication bigint, _run integer, _started bigint, _topics text[], _after text, _most integer,
    OUT done boolean, OUT last text
) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    told record;
BEGIN
    done := false;
    PERFORM FROM mutirao_live WHERE id = _publication AND run = _run AND worker IS NOT NULL FOR UPDATE;
    IF NOT FOUND
        OR EXISTS (SELECT FROM mutirao_subscription WHERE topic = ANY(_topics) AND order_by IS NOT NULL)
        OR EXISTS (
            SELECT FROM mutirao_subscription
            WHERE topic = ANY(_topics) AND (filter IS NOT NULL OR key IS NOT NULL)
        )
        OR EXISTS (SELECT FROM mutirao_further_topic WHERE topic = ANY(_topics))
    THEN
        RETURN;
    END IF;
    SELECT * INTO told FROM mutirao_deliver(_publication, _topics, coalesce(_after, (
        SELECT d.subscription FROM mutirao_delivery d
        WHERE d.publication = _publication AND d.nth = 0
            AND NOT EXISTS (SELECT FROM mutirao_ordered o WHERE o.job = d.job)
        ORDER BY d.subscription DESC LIMIT 1
    ), ''), _most, '{}');
    IF told.asked <> '{}' THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
            MESSAGE = 'subscription ' || told.asked[1] || ' has changed meanwhile';
    ELSIF told.met = _most THEN
        last := told.reached;
    ELSIF told.met > 0 OR EXISTS (SELECT FROM mutirao_delivery WHERE publication = _publication) THEN
        PERFORM mutirao_complete(_publication, _run, _started);
    ELSE
        RETURN;
    END IF;
    done := true;
END
$$
--;
-- Publications among all jobs: views ask in these words.
CREATE INDEX mutirao_job_publication ON mutirao_job (id) WHERE task LIKE 'topic:%'
