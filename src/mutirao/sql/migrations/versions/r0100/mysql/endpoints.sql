-- Where webhooks go, what came of each attempt, and what is held because it only fails.

-- `headers`, `topics` and `retry`, seconds between attempts, are JSON, as text. What a secret signs or a header says, nobody but a worker reads.
CREATE TABLE IF NOT EXISTS mutirao_endpoint (
    id varchar(100) PRIMARY KEY CHECK (char_length(id) >= 1),
    url text NOT NULL,
    host text NOT NULL,
    method text NOT NULL,
    headers longtext NOT NULL,
    secret text,
    previous_secret text,
    previous_until bigint,
    signer text,
    body varchar(20) NOT NULL CHECK (body IN ('event', 'payload')),
    connect double NOT NULL CHECK (connect > 0),
    first_byte double NOT NULL CHECK (first_byte > 0),
    whole double NOT NULL CHECK (whole > 0),
    redirects smallint NOT NULL CHECK (redirects >= 0),
    accepts_3xx boolean NOT NULL,
    rate double CHECK (rate > 0),
    concurrency integer CHECK (concurrency >= 1),
    topics text NOT NULL,
    tenant text,
    `group` text,
    filter text,
    order_by varchar(200),
    when_dead varchar(20) CHECK (when_dead IN ('stop', 'continue')),
    retry text,
    active boolean NOT NULL,
    paused boolean NOT NULL,
    disabled_reason text,
    disabled_at bigint,
    last_failure text,
    failed_at bigint,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL
) ENGINE InnoDB ${bytes}
--;
-- The topics of a subscription that has several, apart from the first one, which stands in its row.
CREATE TABLE IF NOT EXISTS mutirao_further_topic (
    topic varchar(200) NOT NULL,
    subscription varchar(200) NOT NULL,
    PRIMARY KEY (topic, subscription),
    INDEX mutirao_further_topics (subscription)
) ENGINE InnoDB ${bytes}
--;
-- Endpoints and hosts that fail, or that asked to be left alone. Who succeeds removes the row.
CREATE TABLE IF NOT EXISTS mutirao_breaker (
    kind varchar(20) NOT NULL CHECK (kind IN ('endpoint', 'host')),
    `key` varchar(255) NOT NULL,
    state varchar(20) NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
    failures integer NOT NULL,
    counted_from bigint NOT NULL,
    failing_since bigint,
    probe_at bigint,
    opened integer NOT NULL,
    PRIMARY KEY (kind, `key`)
) ENGINE InnoDB ${bytes}
--;
-- What came of each attempt to deliver a webhook: beside `mutirao_attempt`, and pruned with its job.
CREATE TABLE IF NOT EXISTS mutirao_webhook_attempt (
    job bigint NOT NULL,
    run integer NOT NULL,
    endpoint text NOT NULL,
    host text NOT NULL,
    status integer,
    milliseconds double NOT NULL,
    failure text,
    detail text,
    body text NOT NULL,
    truncated boolean NOT NULL,
    address text,
    request_headers longtext NOT NULL,
    finished_at bigint NOT NULL,
    PRIMARY KEY (job, run)
) ENGINE InnoDB ${bytes}
--;
-- Endpoints as people see them: without secrets and headers, and of the URL the host, because others have
-- a secret in their path.
CREATE OR REPLACE VIEW mutirao_endpoints AS
SELECT
    e.id, e.host, e.method, e.topics, e.tenant, e.`group`, e.filter, e.body,
    CASE WHEN e.signer IS NOT NULL THEN e.signer WHEN e.secret IS NOT NULL THEN 'standard' END ${bytes} AS signed,
    ${epoch} + INTERVAL e.previous_until MICROSECOND AS previous_until,
    e.order_by, e.when_dead, e.retry,
    e.rate, e.concurrency, e.connect, e.first_byte, e.whole, e.redirects, e.accepts_3xx,
    e.active, e.paused, e.disabled_reason,
    ${epoch} + INTERVAL e.disabled_at MICROSECOND AS disabled_at,
    CASE
        WHEN 'open' IN (b.state, h.state) THEN 'open'
        WHEN 'half_open' IN (b.state, h.state) THEN 'half_open' ELSE 'closed'
    END ${bytes} AS breaker,
    ${epoch} + INTERVAL coalesce(b.probe_at, h.probe_at) MICROSECOND AS probe_at,
    ${epoch} + INTERVAL b.failing_since MICROSECOND AS failing_since,
    e.last_failure,
    ${epoch} + INTERVAL e.failed_at MICROSECOND AS failed_at,
    (
        SELECT count(*) FROM mutirao_limit m JOIN mutirao_counter c ON c.name = m.name
        JOIN mutirao_parked p ON p.counter = c.id
        WHERE m.task = 'mutirao.webhook' AND m.`by` = 'endpoint'
          AND (m.`key` = e.id OR (m.`key` IS NULL AND c.`key` = e.id))
    ) + (
        SELECT count(*) FROM mutirao_limit m JOIN mutirao_counter c ON c.name = m.name
        JOIN mutirao_parked p ON p.counter = c.id JOIN mutirao_delivery d ON d.job = p.job
        WHERE m.task = 'mutirao.webhook' AND m.`by` = 'host' AND m.`key` = e.host
          AND d.subscription = concat('endpoint:', e.id)
    ) AS held,
    ${epoch} + INTERVAL e.created_at MICROSECOND AS created_at,
    ${epoch} + INTERVAL e.changed_at MICROSECOND AS changed_at
FROM mutirao_endpoint e
LEFT JOIN mutirao_breaker b ON b.kind = 'endpoint' AND b.`key` = e.id
LEFT JOIN mutirao_breaker h ON h.kind = 'host' AND h.`key` = e.host
--;
CREATE OR REPLACE VIEW mutirao_webhook_attempts AS
SELECT
    w.job, w.run, w.endpoint, w.host, d.publication, w.status, w.milliseconds, w.failure, w.detail, w.body,
    w.truncated, w.address, w.request_headers,
    ${epoch} + INTERVAL w.finished_at MICROSECOND AS finished_at
FROM mutirao_webhook_attempt w LEFT JOIN mutirao_delivery d ON d.job = w.job
