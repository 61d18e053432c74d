-- What is published, and who is told of it: for people and their tools, as docs/sql.md says.

-- How many deliveries of publication `j.id` have a row in another table.
--: number table id which
SELECT count(*) FROM mutirao_delivery d CROSS JOIN ${table} t ON t.${id} = d.job
        WHERE d.publication = j.id AND ${which}
--;
CREATE VIEW mutirao_publications AS
SELECT
    j.id, CAST(substr(j.task, 7) AS text) AS topic,
    CAST(CASE
        WHEN l.worker IS NOT NULL THEN 'running' WHEN l.id IS NOT NULL THEN 'waiting' ELSE a.outcome
    END AS text) AS state,
    (SELECT count(*) FROM mutirao_delivery d WHERE d.publication = j.id) AS deliveries,
    (${number: mutirao_live; id; t.worker IS NULL}) AS waiting,
    (${number: mutirao_live; id; t.worker IS NOT NULL}) AS running,
    (${number: mutirao_attempt; job; t.outcome = 'succeeded'}) AS succeeded,
    (${number: mutirao_attempt; job; t.outcome = 'dead'}) AS dead,
    (${number: mutirao_attempt; job; t.outcome = 'cancelled'}) AS cancelled,
    j.tenant, j."group", ${moment: j.enqueued_at} AS published_at,
    ${moment: a.finished_at} AS finished_at
FROM mutirao_job j
LEFT JOIN mutirao_live l ON l.id = j.id
LEFT JOIN mutirao_attempt a
    ON a.job = j.id AND +a.outcome IN ('succeeded', 'dead', 'cancelled') AND l.id IS NULL
WHERE j.task GLOB 'topic:*'
--;
CREATE VIEW mutirao_deliveries AS
SELECT
    d.job, d.publication, d.subscription, d.nth, CAST(substr(p.task, 7) AS text) AS topic, j.task, j.queue,
    j.state, j.attempt, j.run_at, j.started_at, j.finished_at, j.duration, j.error_type, j.error,
    j.tenant, j."group", ${moment: p.enqueued_at} AS published_at
FROM mutirao_delivery d
JOIN mutirao_jobs j ON j.id = d.job
JOIN mutirao_job p ON p.id = d.publication
--;
-- Only live deliveries are read for the numbers. A worker notes every minute that one is in its code.
CREATE VIEW mutirao_subscriptions AS
SELECT
    s.id, s.topic, s.tenant, s."group", s.filter, s.key, s.order_by, s.when_dead, s.kind, s.active, s.task, s.queue,
    s.priority,
    CAST(ifnull(c.waiting, 0) AS integer) AS waiting, CAST(ifnull(c.running, 0) AS integer) AS running,
    CAST(ifnull(c.stopped, 0) AS integer) AS stopped,
    CAST((${now} - c.since) / 1e6 AS real) AS lag, s.origin,
    CASE WHEN s.origin = 'code' THEN s.declared_at > ${now} - 180000000 END AS in_code,
    ${moment: s.declared_at} AS declared_at, s.declared_by,
    ${moment: s.created_at} AS created_at,
    ${moment: s.changed_at} AS changed_at
FROM mutirao_subscription s
LEFT JOIN (
    SELECT
        d.subscription, count(*) - count(l.worker) AS waiting, count(l.worker) AS running,
        min(p.enqueued_at) AS since,
        count(CASE WHEN o.after IS NOT NULL AND h.id IS NULL THEN 1 END) AS stopped
    FROM mutirao_live l
    CROSS JOIN mutirao_delivery d ON d.job = l.id
    CROSS JOIN mutirao_job p ON p.id = d.publication
    LEFT JOIN mutirao_ordered o ON o.job = l.id
    LEFT JOIN mutirao_live h ON h.id = o.after
    GROUP BY d.subscription
) c ON c.subscription = s.id
