-- What is published, and who is told of it: for people and their tools, as docs/sql.md says.

CREATE VIEW mutirao_publications AS
SELECT
    j.id, substr(j.task, 7) AS topic,
    CASE
        WHEN l.worker IS NOT NULL THEN 'running' WHEN l.id IS NOT NULL THEN 'waiting' ELSE a.outcome
    END AS state,
    c.deliveries, c.waiting, c.running, c.succeeded, c.dead, c.cancelled,
    j.tenant, j."group", j.enqueued_at AS published_at, a.finished_at
FROM mutirao_job j
LEFT JOIN mutirao_live l ON l.id = j.id
LEFT JOIN mutirao_attempt a
    ON a.job = j.id AND a.outcome = ANY('{succeeded,dead,cancelled}') AND l.id IS NULL
CROSS JOIN LATERAL (
    SELECT
        count(*) AS deliveries,
        count(CASE WHEN m.id IS NOT NULL AND m.worker IS NULL THEN 1 END) AS waiting,
        count(m.worker) AS running,
        count(CASE WHEN b.outcome = 'succeeded' THEN 1 END) AS succeeded,
        count(CASE WHEN b.outcome = 'dead' THEN 1 END) AS dead,
        count(CASE WHEN b.outcome = 'cancelled' THEN 1 END) AS cancelled
    FROM mutirao_delivery d
    LEFT JOIN mutirao_live m ON m.id = d.job
    LEFT JOIN mutirao_attempt b
        ON b.job = d.job AND b.outcome = ANY('{succeeded,dead,cancelled}') AND m.id IS NULL
    WHERE d.publication = j.id
) c
WHERE j.task LIKE 'topic:%'
--;
CREATE VIEW mutirao_deliveries AS
SELECT
    d.job, d.publication, d.subscription, d.nth, substr(p.task, 7) AS topic, j.task, j.queue, j.state,
    j.attempt, j.run_at, j.started_at, j.finished_at, j.duration, j.error_type, j.error,
    j.tenant, j."group", p.enqueued_at AS published_at
FROM mutirao_delivery d
JOIN mutirao_jobs j ON j.id = d.job
JOIN mutirao_job p ON p.id = d.publication
--;
-- Only live deliveries are read for the numbers. A worker notes every minute that one is in its code.
CREATE VIEW mutirao_subscriptions AS
SELECT
    s.id, s.topic, s.tenant, s."group", s.filter, s.key, s.order_by, s.when_dead, s.kind, s.active, s.task, s.queue,
    s.priority,
    coalesce(c.waiting, 0) AS waiting, coalesce(c.running, 0) AS running,
    coalesce(c.stopped, 0) AS stopped,
    extract(epoch FROM statement_timestamp() - c.since)::float8 AS lag, s.origin,
    CASE WHEN s.origin = 'code' THEN s.declared_at > statement_timestamp() - interval '3 minutes' END
        AS in_code,
    s.declared_at, s.declared_by, s.created_at, s.changed_at
FROM mutirao_subscription s
LEFT JOIN (
    SELECT
        d.subscription, count(*) - count(l.worker) AS waiting, count(l.worker) AS running,
        min(p.enqueued_at) AS since,
        count(CASE WHEN o.after IS NOT NULL AND h.id IS NULL THEN 1 END) AS stopped
    FROM mutirao_live l
    JOIN mutirao_delivery d ON d.job = l.id
    JOIN mutirao_job p ON p.id = d.publication
    LEFT JOIN mutirao_ordered o ON o.job = l.id
    LEFT JOIN mutirao_live h ON h.id = o.after
    GROUP BY d.subscription
) c ON c.subscription = s.id
