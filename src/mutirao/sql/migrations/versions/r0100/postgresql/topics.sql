-- Who is told of what is published, and which jobs that made.

-- `options` and `filter` are JSON, as the text they came as. A topic is a name, or a pattern that ends with
-- `*`. Without a tenant, a group or a filter it is told of any.
CREATE TABLE mutirao_subscription (
    id text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 200),
    topic text NOT NULL,
    tenant text,
    "group" text,
    filter text,
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
-- One job for each of these subscriptions to a publication, as deliveries of it: a part of a fan-out. Jobs
-- as others are, in their lanes and turns, and workers are woken for them. Their options are those that a
-- subscription may have: `mutirao.sql.statements.subscriptions` asks the same of them.
CREATE FUNCTION mutirao_deliver(_publication bigint, _subscriptions text[])
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    made record;
BEGIN
    WITH told AS MATERIALIZED (
        SELECT
            mutirao_next_id() AS job, s.id, s.task, s.args, s.queue, s.priority, s.max_attempts, s.timeout, s.tags,
            statement_timestamp() + s.delay * interval '1 second' AS due, s.by,
            p.traceparent, p.tenant, p."group"
        FROM (
            SELECT
                m.id, m.task, m.queue, m.priority, o.max_attempts, o.timeout, o.tags,
                coalesce(o.args, '{}')::json AS args, coalesce(o.delay, 0) AS delay, coalesce(o.fair_by, f.by) AS by
            FROM mutirao_subscription m
            CROSS JOIN LATERAL json_to_record(m.options::json) AS o (
                delay double precision, max_attempts integer, timeout double precision, tags json,
                fair_by text, args text
            )
            LEFT JOIN mutirao_fairness f ON f.task = m.task
            WHERE m.id = ANY(_subscriptions)
            ORDER BY m.id
        ) s CROSS JOIN mutirao_job p
        WHERE p.id = _publication
    ), jobs AS (
        INSERT INTO mutirao_job (
            id, task, args, queue, priority, run_at, max_attempts, timeout, tags, metadata, traceparent, tenant,
            "group"
        )
        SELECT
            job, task, args, queue, priority, due, max_attempts, timeout, tags,
            ('{"publication":' || _publication || ',"subscription":' || to_json(id) || '}')::json,
            traceparent, tenant, "group"
        FROM told
    ), lives AS (
        INSERT INTO mutirao_live (id, queue, priority, run_at, fairness)
        SELECT
            job, CASE WHEN by IS NULL THEN queue ELSE E'\x1f' || queue END, priority, due,
            CASE WHEN by IS NULL THEN '' ELSE '=' || mutirao_value_of(args, by, tenant, "group") END
        FROM told
        RETURNING id, queue, priority, run_at
    ), deliveries AS (
        INSERT INTO mutirao_delivery (job, publication, subscription, nth)
        SELECT job, _publication, id, 0 FROM told
    )
    SELECT
        min(l.queue) AS queue, min(l.priority) AS priority, min(l.run_at) AS due, min(l.id) AS id,
        count(*) AS jobs, min((l.queue, l.priority)::text) = max((l.queue, l.priority)::text) AS alone
    INTO made
    FROM lives l;
    IF made.alone THEN
        PERFORM mutirao_wake(made.queue, made.priority, made.due, made.id, made.jobs);
    ELSE
        PERFORM mutirao_wake();
    END IF;
END
$$
--;
-- Publications among all jobs: views ask in these words.
CREATE INDEX mutirao_job_publication ON mutirao_job (id) WHERE task LIKE 'topic:%'
