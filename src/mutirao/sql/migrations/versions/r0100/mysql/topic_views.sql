-- What is published, and who is told of it: for people and their tools, as docs/sql.md says.

-- How many deliveries of publication `j.id` have a row in another table.
--: number table id which
SELECT count(*) FROM mutirao_delivery d JOIN ${table} t ON t.${id} = d.job
        WHERE d.publication = j.id AND ${which}
--;
CREATE OR REPLACE VIEW mutirao_publications AS
SELECT
    j.id, substr(j.task, 7) AS topic,
    CASE
        WHEN l.worker IS NOT NULL THEN 'running' WHEN l.id IS NOT NULL THEN 'waiting' ELSE a.outcome
    END ${bytes} AS state,
    (SELECT count(*) FROM mutirao_delivery d WHERE d.publication = j.id) AS deliveries,
    (${number: mutirao_live; id; t.worker IS NULL}) AS waiting,
    (${number: mutirao_live; id; t.worker IS NOT NULL}) AS running,
    (${number: mutirao_attempt; job; t.outcome = 'succeeded'}) AS succeeded,
    (${number: mutirao_attempt; job; t.outcome = 'dead'}) AS dead,
    (${number: mutirao_attempt; job; t.outcome = 'cancelled'}) AS cancelled,
    j.tenant, j.`group`, ${epoch} + INTERVAL j.enqueued_at MICROSECOND AS published_at,
    ${epoch} + INTERVAL a.finished_at MICROSECOND AS finished_at
FROM mutirao_job j
LEFT JOIN mutirao_live l ON l.id = j.id
LEFT JOIN mutirao_attempt a
    ON a.job = j.id AND a.outcome IN ('succeeded', 'dead', 'cancelled') AND l.id IS NULL
WHERE j.task LIKE 'topic:%'
--;
CREATE OR REPLACE VIEW mutirao_deliveries AS
SELECT
    d.job, d.publication, d.subscription, d.nth, substr(p.task, 7) AS topic, j.task, j.queue, j.state,
    j.attempt, j.run_at, j.started_at, j.finished_at, j.duration, j.error_type, j.error,
    j.tenant, j.`group`, ${epoch} + INTERVAL p.enqueued_at MICROSECOND AS published_at
FROM mutirao_delivery d
JOIN mutirao_jobs j ON j.id = d.job
JOIN mutirao_job p ON p.id = d.publication
--;
-- Only live deliveries are read for the numbers. A worker notes every minute that one is in its code.
CREATE OR REPLACE VIEW mutirao_subscriptions AS
SELECT
    s.id, s.topic, s.tenant, s.`group`, s.filter, s.`key`, s.order_by, s.when_dead, s.kind, s.active, s.task, s.queue,
    s.priority,
    ifnull(c.waiting, 0) AS waiting, ifnull(c.running, 0) AS running,
    ifnull(c.stopped, 0) AS stopped,
    (${now} - c.since) / 1e6 AS lag, s.origin,
    CASE WHEN s.origin = 'code' THEN s.declared_at > ${now} - 180000000 END AS in_code,
    ${epoch} + INTERVAL s.declared_at MICROSECOND AS declared_at, s.declared_by,
    ${epoch} + INTERVAL s.created_at MICROSECOND AS created_at,
    ${epoch} + INTERVAL s.changed_at MICROSECOND AS changed_at
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
