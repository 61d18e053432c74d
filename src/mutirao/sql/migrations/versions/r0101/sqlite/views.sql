-- SQLite's clock counts milliseconds: now is the end of the present one, in which a job may have
-- been enqueued that is ready.
--: now
(CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer) * 1000 + 999)
--;
-- A moment, as people read it.
--: moment at
strftime('%Y-%m-%dT%H:%M:%S', ${at} / 1000000, 'unixepoch') || printf('.%06dZ', ${at} % 1000000)
--;
DROP VIEW mutirao_workers
--;
CREATE VIEW mutirao_workers AS
SELECT
    w.id, w.name, w.host, w.pid, w.queues, w.exclude_queues, w.tasks, w.concurrency, w.version,
    w.app_version,
    ${moment: w.started_at} AS started_at,
    ${moment: w.beat_at} AS beat_at,
    ${moment: w.expires_at} AS expires_at,
    w.expires_at > ${now} AS alive, w.listening, w.stuck, w.late,
    (SELECT count(*) FROM mutirao_live WHERE worker = w.id) AS running,
    (
        SELECT '[' || coalesce(group_concat(id), '') || ']'
        FROM (SELECT id FROM mutirao_live WHERE worker = w.id ORDER BY id)
    ) AS jobs
FROM mutirao_worker w
