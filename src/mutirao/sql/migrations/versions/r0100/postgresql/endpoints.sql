-- Where webhooks go, what came of each attempt, and what is held because it only fails.

-- `headers`, `topics` and `retry`, seconds between attempts, are JSON, as text. What a secret signs or a header says, nobody but a worker reads.
CREATE TABLE mutirao_endpoint (
    id text COLLATE "C" PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 100),
    url text NOT NULL,
    host text NOT NULL,
    method text NOT NULL,
    headers text NOT NULL,
    secret text,
    previous_secret text,
    previous_until timestamptz,
    signer text,
    body text NOT NULL CHECK (body IN ('event', 'payload')),
    connect double precision NOT NULL CHECK (connect > 0),
    first_byte double precision NOT NULL CHECK (first_byte > 0),
    whole double precision NOT NULL CHECK (whole > 0),
    redirects smallint NOT NULL CHECK (redirects >= 0),
    accepts_3xx boolean NOT NULL,
    rate double precision CHECK (rate > 0),
    concurrency integer CHECK (concurrency >= 1),
    topics text NOT NULL,
    tenant text,
    "group" text,
    filter text,
    order_by text,
    when_dead text CHECK (when_dead IN ('stop', 'continue')),
    retry text,
    active boolean NOT NULL,
    paused boolean NOT NULL,
    disabled_reason text,
    disabled_at timestamptz,
    last_failure text,
    failed_at timestamptz,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL
)
--;
-- The topics of a subscription that has several, apart from the first one, which stands in its row.
CREATE TABLE mutirao_further_topic (
    topic text NOT NULL,
    subscription text NOT NULL,
    PRIMARY KEY (topic, subscription)
)
--;
CREATE INDEX mutirao_further_topics ON mutirao_further_topic (subscription)
--;
-- Endpoints and hosts that fail, or that asked to be left alone. Who succeeds removes the row.
CREATE TABLE mutirao_breaker (
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('endpoint', 'host')),
    key text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
    failures integer NOT NULL,
    counted_from timestamptz NOT NULL,
    failing_since timestamptz,
    probe_at timestamptz,
    opened integer NOT NULL,
    PRIMARY KEY (kind, key)
)
--;
-- What came of each attempt to deliver a webhook: beside `mutirao_attempt`, and pruned with its job.
CREATE TABLE mutirao_webhook_attempt (
    job bigint NOT NULL,
    run integer NOT NULL,
    endpoint text NOT NULL,
    host text NOT NULL,
    status integer,
    milliseconds double precision NOT NULL,
    failure text,
    detail text,
    body text NOT NULL,
    truncated boolean NOT NULL,
    address text,
    request_headers text NOT NULL,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (job, run)
)
--;
-- Writes attempts that all went well, completes jobs as mutirao_finish does, and counts for the limit of
-- each endpoint what has proven to go well: one statement, hence one round trip and one commit. Where there
-- is a breaker of one of them nothing is written: who writes it locks it before jobs.
CREATE FUNCTION mutirao_delivered(
    _attempts json, _ids bigint[], _runs integer[], _outcomes text[], _started bigint[],
    _finished bigint[], _error_types text[], _errors text[], _limit text, _enough integer,
    _now timestamptz, OUT written boolean, OUT settled bigint[]
) LANGUAGE plpgsql VOLATILE
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_nestloop = on SET enable_indexscan = on SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    usual mutirao_webhook_attempt := json_populate_record(
        NULL::mutirao_webhook_attempt,
        json_build_object('finished_at', coalesce(_now, statement_timestamp()))
    );
    told mutirao_webhook_attempt[] := ARRAY(
        SELECT a FROM json_populate_recordset(usual, _attempts) a
    );
BEGIN
    written := NOT EXISTS (
        SELECT FROM mutirao_breaker b WHERE b.kind = 'endpoint'
            AND b.key = ANY(ARRAY(SELECT a.endpoint FROM unnest(told) a))
    ) AND NOT EXISTS (
        SELECT FROM mutirao_breaker b WHERE b.kind = 'host'
            AND b.key = ANY(ARRAY(SELECT a.host FROM unnest(told) a))
    );
    IF NOT written THEN
        RETURN;
    END IF;
    INSERT INTO mutirao_webhook_attempt SELECT * FROM unnest(told);
    settled := mutirao_finish(
        _ids, _runs, _outcomes, _started, _finished, _error_types, _errors, _now
    );
    UPDATE mutirao_counter c SET proven = c.proven + w.jobs FROM (
        SELECT a.endpoint, count(*) AS jobs FROM unnest(told) a
        WHERE a.job = ANY(coalesce(settled, _ids)) GROUP BY a.endpoint
    ) w WHERE c.name = _limit AND c.key = w.endpoint AND c.proven < _enough;
END
$$
--;
-- Endpoints as people see them: without secrets and headers, and of the URL the host, because others have
-- a secret in their path.
CREATE VIEW mutirao_endpoints AS
SELECT
    e.id, e.host, e.method, e.topics, e.tenant, e."group", e.filter, e.body,
    CASE WHEN e.signer IS NOT NULL THEN e.signer WHEN e.secret IS NOT NULL THEN 'standard' END AS signed,
    e.previous_until,
    e.order_by, e.when_dead, e.retry,
    e.rate, e.concurrency, e.connect, e.first_byte, e.whole, e.redirects, e.accepts_3xx,
    e.active, e.paused, e.disabled_reason,
    e.disabled_at,
    CASE
        WHEN 'open' IN (b.state, h.state) THEN 'open'
        WHEN 'half_open' IN (b.state, h.state) THEN 'half_open' ELSE 'closed'
    END AS breaker,
    coalesce(b.probe_at, h.probe_at) AS probe_at,
    b.failing_since,
    e.last_failure,
    e.failed_at,
    (
        SELECT count(*) FROM mutirao_limit m JOIN mutirao_counter c ON c.name = m.name
        JOIN mutirao_parked p ON p.counter = c.id
        WHERE m.task = 'mutirao.webhook' AND m.by = 'endpoint'
          AND (m.key = e.id OR (m.key IS NULL AND c.key = e.id))
    ) + (
        SELECT count(*) FROM mutirao_limit m JOIN mutirao_counter c ON c.name = m.name
        JOIN mutirao_parked p ON p.counter = c.id JOIN mutirao_delivery d ON d.job = p.job
        WHERE m.task = 'mutirao.webhook' AND m.by = 'host' AND m.key = e.host
          AND d.subscription = 'endpoint:' || e.id
    ) AS held,
    e.created_at,
    e.changed_at
FROM mutirao_endpoint e
LEFT JOIN mutirao_breaker b ON b.kind = 'endpoint' AND b.key = e.id
LEFT JOIN mutirao_breaker h ON h.kind = 'host' AND h.key = e.host
--;
CREATE VIEW mutirao_webhook_attempts AS
SELECT
    w.job, w.run, w.endpoint, w.host, d.publication, w.status, w.milliseconds, w.failure, w.detail, w.body,
    w.truncated, w.address, w.request_headers,
    w.finished_at
FROM mutirao_webhook_attempt w LEFT JOIN mutirao_delivery d ON d.job = w.job
