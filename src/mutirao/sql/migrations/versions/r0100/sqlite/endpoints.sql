-- Where webhooks go, what came of each attempt, and what is held because it only fails.

-- `headers`, `topics` and `retry`, seconds between attempts, are JSON, as text. What a secret signs or a header says, nobody but a worker reads.
CREATE TABLE mutirao_endpoint (
    id text PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 100),
    url text NOT NULL,
    host text NOT NULL,
    method text NOT NULL,
    headers text NOT NULL,
    secret text,
    previous_secret text,
    previous_until integer,
    signer text,
    body text NOT NULL CHECK (body IN ('event', 'payload')),
    connect real NOT NULL CHECK (connect > 0),
    first_byte real NOT NULL CHECK (first_byte > 0),
    whole real NOT NULL CHECK (whole > 0),
    redirects integer NOT NULL CHECK (redirects >= 0),
    accepts_3xx boolean NOT NULL,
    rate real CHECK (rate > 0),
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
    disabled_at integer,
    last_failure text,
    failed_at integer,
    created_at integer NOT NULL,
    changed_at integer NOT NULL
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
    kind text NOT NULL CHECK (kind IN ('endpoint', 'host')),
    key text NOT NULL,
    state text NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
    failures integer NOT NULL,
    counted_from integer NOT NULL,
    failing_since integer,
    probe_at integer,
    opened integer NOT NULL,
    PRIMARY KEY (kind, key)
)
--;
-- What came of each attempt to deliver a webhook: beside `mutirao_attempt`, and pruned with its job.
CREATE TABLE mutirao_webhook_attempt (
    job integer NOT NULL,
    run integer NOT NULL,
    endpoint text NOT NULL,
    host text NOT NULL,
    status integer,
    milliseconds real NOT NULL,
    failure text,
    detail text,
    body text NOT NULL,
    truncated boolean NOT NULL,
    address text,
    request_headers text NOT NULL,
    finished_at integer NOT NULL,
    PRIMARY KEY (job, run)
)
--;
-- Endpoints as people see them: without secrets and headers, and of the URL the host, because others have
-- a secret in their path.
CREATE VIEW mutirao_endpoints AS
SELECT
    e.id, e.host, e.method, e.topics, e.tenant, e."group", e.filter, e.body,
    CASE WHEN e.signer IS NOT NULL THEN e.signer WHEN e.secret IS NOT NULL THEN 'standard' END AS signed,
    ${moment: e.previous_until} AS previous_until,
    e.order_by, e.when_dead, e.retry,
    e.rate, e.concurrency, e.connect, e.first_byte, e.whole, e.redirects, e.accepts_3xx,
    e.active, e.paused, e.disabled_reason,
    ${moment: e.disabled_at} AS disabled_at,
    CASE
        WHEN 'open' IN (b.state, h.state) THEN 'open'
        WHEN 'half_open' IN (b.state, h.state) THEN 'half_open' ELSE 'closed'
    END AS breaker,
    ${moment: coalesce(b.probe_at, h.probe_at)} AS probe_at,
    ${moment: b.failing_since} AS failing_since,
    e.last_failure,
    ${moment: e.failed_at} AS failed_at,
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
    ${moment: e.created_at} AS created_at,
    ${moment: e.changed_at} AS changed_at
FROM mutirao_endpoint e
LEFT JOIN mutirao_breaker b ON b.kind = 'endpoint' AND b.key = e.id
LEFT JOIN mutirao_breaker h ON h.kind = 'host' AND h.key = e.host
--;
CREATE VIEW mutirao_webhook_attempts AS
SELECT
    w.job, w.run, w.endpoint, w.host, d.publication, w.status, w.milliseconds, w.failure, w.detail, w.body,
    w.truncated, w.address, w.request_headers,
    ${moment: w.finished_at} AS finished_at
FROM mutirao_webhook_attempt w LEFT JOIN mutirao_delivery d ON d.job = w.job
