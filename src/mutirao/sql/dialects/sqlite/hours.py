"""Attempts added up by the hour in SQLite: what PostgreSQL's functions of `hours.sql` do.

There is one writer, so nothing is under way while it adds up: all that has finished is there.
"""

from typing import Any

from sqlalchemy import Connection

from mutirao.sql.schema.instant import SECOND

AT_ONCE = 10_000  # attempts of each outcome in a transaction, which keeps other writers waiting
MARGIN = 60 * SECOND  # that are left for those which come late

_UNTIL = "SELECT until FROM mutirao_rolled"
_BEGIN = (
    "INSERT INTO mutirao_rolled (until, closing, seen) VALUES (:until, :until, '') RETURNING until"
)
_FAR = """
SELECT min(far) FROM (
    SELECT (
        SELECT finished_at + 1 FROM mutirao_attempt
        WHERE outcome = kind.value AND finished_at >= :until AND finished_at < :latest
        ORDER BY finished_at LIMIT 1 OFFSET :most
    ) AS far
    FROM json_each('["succeeded","retried","snoozed","dead","cancelled","lost","released"]') kind
)
"""
_ANYTHING = """
SELECT EXISTS (
    SELECT 1 FROM mutirao_attempt
    WHERE outcome IN ('succeeded', 'retried', 'snoozed', 'dead', 'cancelled', 'lost', 'released')
      AND finished_at >= :until AND finished_at < :closing
) OR EXISTS (SELECT 1 FROM mutirao_attempt WHERE came_late)
"""
_HOUR = "strftime('%Y-%m-%dT%H:00:00.000000Z', finished_at / 1000000, 'unixepoch')"
_MOMENT = (
    "strftime('%Y-%m-%dT%H:%M:%S', {0} / 1000000, 'unixepoch') || printf('.%06dZ', {0} % 1000000)"
)
_LINE = "ifnull(substr(substr({0}, 1, instr({0} || char(10), char(10)) - 1), 1, 200), '')"
_FRESH = """
WITH fresh AS (
    SELECT
        j.queue, j.task, e.job, e.run, e.outcome, e.finished_at, e.error,
        max(e.finished_at - e.started_at, 0) / 1e6 AS seconds,
        substr(ifnull(e.error_type, ''), 1, 200) AS error_type
    FROM (
        SELECT * FROM mutirao_attempt
        WHERE outcome IN
            ('succeeded', 'retried', 'snoozed', 'dead', 'cancelled', 'lost', 'released')
          AND finished_at >= :until AND finished_at < :closing AND came_late IS NULL
        UNION ALL
        SELECT * FROM mutirao_attempt WHERE came_late
    ) e CROSS JOIN mutirao_job j ON j.id = e.job
)"""
_HOURS = f"""
{_FRESH}, took AS (
    SELECT {_HOUR} AS hour, queue, task, outcome, printf('%.1e', seconds) AS about,
           count(*) AS number, sum(seconds) AS seconds
    FROM fresh GROUP BY 1, 2, 3, 4, 5
), known AS (
    SELECT h.* FROM (SELECT DISTINCT hour, queue, task, outcome FROM took) t
    CROSS JOIN mutirao_hour h USING (hour, queue, task, outcome)
), added AS (
    SELECT hour, queue, task, outcome, about, sum(number) AS number, sum(seconds) AS seconds FROM (
        SELECT * FROM took
        UNION ALL
        SELECT k.hour, k.queue, k.task, k.outcome, d.key, d.value, 0.0
        FROM known k CROSS JOIN json_each(k.durations) d
        UNION ALL
        SELECT k.hour, k.queue, k.task, k.outcome, t.about, 0, k.seconds
        FROM known k CROSS JOIN (
            SELECT hour, queue, task, outcome, min(about) AS about FROM took GROUP BY 1, 2, 3, 4
        ) t USING (hour, queue, task, outcome)
    ) GROUP BY 1, 2, 3, 4, 5
), placed AS (
    SELECT *, sum(number) OVER (each ORDER BY CAST(about AS real)) AS place,
           sum(number) OVER each AS attempts
    FROM added WINDOW each AS (PARTITION BY hour, queue, task, outcome)
)
INSERT OR REPLACE INTO mutirao_hour
    (hour, queue, task, outcome, attempts, seconds, durations, p50, p95, p99)
SELECT
    hour, queue, task, outcome, attempts, sum(seconds), json_group_object(about, number),
    min(CASE WHEN place >= attempts * 0.5 THEN CAST(about AS real) END),
    min(CASE WHEN place >= attempts * 0.95 THEN CAST(about AS real) END),
    min(CASE WHEN place >= attempts * 0.99 THEN CAST(about AS real) END)
FROM placed GROUP BY hour, queue, task, outcome, attempts
"""  # noqa: S608 (our own)
# By `+` it does not read by another index than the others.
_KEPT = f"""
{_FRESH}
INSERT INTO mutirao_kept (queue, outcome, hour, jobs)
SELECT queue, outcome, finished_at - finished_at % 3600000000 AS hour, count(*)
FROM fresh WHERE +outcome IN ('succeeded', 'dead', 'cancelled') GROUP BY queue, outcome, hour
"""  # noqa: S608 (our own)
_ERRORS = f"""
{_FRESH}, failed AS (
    SELECT *, {_LINE.format("error")} AS message
    FROM fresh WHERE +outcome IN ('retried', 'dead', 'lost')
)
INSERT INTO mutirao_error (task, error_type, message, jobs, attempts, first_at, last_at)
SELECT
    task, error_type, message, sum(NOT EXISTS (
        SELECT 1 FROM mutirao_attempt b
        WHERE b.job = f.job AND b.run < f.run AND b.outcome IN ('retried', 'dead', 'lost')
          AND substr(ifnull(b.error_type, ''), 1, 200) = f.error_type
          AND {_LINE.format("b.error")} = f.message
    )), count(*), {_MOMENT.format("min(finished_at)")}, {_MOMENT.format("max(finished_at)")}
FROM failed f WHERE true GROUP BY task, error_type, message
ON CONFLICT (task, error_type, message) DO UPDATE SET
    jobs = jobs + excluded.jobs, attempts = attempts + excluded.attempts,
    first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)
"""  # noqa: S608 (our own)
_CAUGHT_UP = "UPDATE mutirao_attempt SET came_late = NULL WHERE came_late"
_ROLLED = "UPDATE mutirao_rolled SET until = :closing, closing = :closing"
_SEVERAL = """
SELECT 1 FROM mutirao_kept GROUP BY queue, outcome, hour HAVING count(*) > 1 OR min(jobs) <= 0
"""
_BALANCE = (
    """
CREATE TEMP TABLE mutirao_several AS
SELECT queue, outcome, hour, sum(jobs) AS jobs FROM mutirao_kept
GROUP BY queue, outcome, hour HAVING count(*) > 1 OR min(jobs) <= 0
""",
    "DELETE FROM mutirao_kept"
    " WHERE (queue, outcome, hour) IN (SELECT queue, outcome, hour FROM mutirao_several)",
    "INSERT INTO mutirao_kept (queue, outcome, hour, jobs)"
    " SELECT * FROM mutirao_several WHERE jobs <> 0",
    "DROP TABLE mutirao_several",
)
_MANY = "SELECT count(*) FROM (SELECT 1 FROM mutirao_live LIMIT ?)"
_COUNT = """
INSERT INTO mutirao_backlog (queue, state, jobs, since, counted_at)
SELECT queue, state, jobs, CAST(:now - oldest_age * 1000000 AS integer), :now
FROM mutirao_queues WHERE state IN ('running', 'ready', 'scheduled', 'blocked')
"""


def roll_up(conn: Connection, keep: int | None, now: int) -> bool:
    """Add up what has finished since the last time; return whether there is more.

    `keep`, `now`: in microseconds; what is added up is deleted when it is older than `keep`.
    """
    latest = now - MARGIN
    until = conn.exec_driver_sql(_UNTIL).scalar()
    if until is None:
        until = conn.exec_driver_sql(_BEGIN, {"until": -(1 << 63)}).scalar_one()
    slice_ = {"until": until, "latest": latest, "most": AT_ONCE}
    far = conn.exec_driver_sql(_FAR, slice_).scalar()
    slice_["closing"] = closing = max(until, latest if far is None else far)
    if conn.exec_driver_sql(_ANYTHING, slice_).scalar_one():
        _add_up(conn, slice_)
    for statement in _BALANCE if conn.exec_driver_sql(_SEVERAL).first() else ():
        conn.exec_driver_sql(statement)
    if keep is not None:
        _forget(conn, latest - keep)
    return bool(closing < latest)


def _add_up(conn: Connection, slice_: dict[str, Any]) -> None:
    for statement in (_HOURS, _KEPT, _ERRORS):
        conn.exec_driver_sql(statement, slice_)
    conn.exec_driver_sql(_CAUGHT_UP)
    conn.exec_driver_sql(_ROLLED, slice_)


def _forget(conn: Connection, before: int) -> None:
    moment = f"SELECT {_MOMENT.format(':before')}"
    for table, column in (("mutirao_hour", "hour"), ("mutirao_error", "last_at")):
        statement = f"DELETE FROM {table} WHERE {column} < ({moment})"  # noqa: S608 (our own)
        conn.exec_driver_sql(statement, {"before": before})


def count_backlog(conn: Connection, most: int, now: int) -> None:
    """Count live jobs for the next minutes if there are more than `most`."""
    conn.exec_driver_sql("DELETE FROM mutirao_backlog")
    if conn.exec_driver_sql(_MANY, (most + 1,)).scalar_one() > most:
        conn.exec_driver_sql(_COUNT, {"now": now})
