"""The dashboard on the SQL views, for Grafana's PostgreSQL and MySQL data sources.

It needs no Prometheus, and only the rights of the role `reader`. Finished attempts are known by the
hour; the present state, at once.

In the queries, `<hours>` is the time range of the dashboard, `<day>` the last 24 hours, and
`<queues>` the chosen ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from mutirao.telemetry.grafana.board import Board, DataSource, Panel, Query, Row, Variable

Database = Literal["postgresql", "mysql"]
DATABASES: tuple[Database, ...] = get_args(Database)
_QUEUES = {"<queues>": "queue IN (${queue:sqlstring})"}
# MySQL's views use UTC, whatever time zone the data source has chosen for its sessions.
_SHOWN_BY_MYSQL = (
    "hour BETWEEN '1970-01-01' + INTERVAL $__unixEpochFrom() SECOND"
    " AND '1970-01-01' + INTERVAL $__unixEpochTo() SECOND"
)
_SAID: Mapping[Database, Mapping[str, str]] = {
    "postgresql": {
        "<hours>": "$__timeFilter(hour)",
        "<day>": "hour > now() - interval '24 hours'",
        **_QUEUES,
    },
    "mysql": {
        "<hours>": _SHOWN_BY_MYSQL,
        "<day>": "hour > utc_timestamp() - INTERVAL 24 HOUR",
        **_QUEUES,
    },
}
_KINDS: Mapping[Database, tuple[str, str]] = {
    "postgresql": ("grafana-postgresql-datasource", "PostgreSQL"),
    "mysql": ("mysql", "MySQL or MariaDB"),
}
_RAW = {"rawQuery": True, "editorMode": "code"}
_TABLE, _LINES = {**_RAW, "format": "table"}, {**_RAW, "format": "time_series"}


def _one(title: str, sql: str, unit: str = "short", reds: float | None = None) -> Panel:
    return Panel(title, "stat", [Query(sql)], unit=unit, width=4, reds=reds)


def _table(title: str, sql: str, width: int = 12) -> Panel:
    return Panel(title, "table", [Query(sql)], width=width)


def _lines(title: str, sql: str, unit: str = "short") -> Panel:
    return Panel(title, "timeseries", [Query(sql)], unit=unit)


_NOW = Row("Now", [
    _one("Live workers", "SELECT count(*) AS workers FROM mutirao_workers WHERE alive"),
    _one("Running", "SELECT coalesce(sum(running), 0) AS running FROM mutirao_workers"),
    _one("Ready", """
        SELECT coalesce(sum(jobs), 0) AS ready FROM mutirao_queues
        WHERE state = 'ready' AND <queues>
    """),
    _one("Oldest ready", """
        SELECT coalesce(max(oldest_age), 0) AS oldest FROM mutirao_queues
        WHERE state = 'ready' AND <queues>
    """, "s", 300),
    _one("Attempts that succeed, 24 h", """
        SELECT sum(CASE WHEN outcome = 'succeeded' THEN attempts ELSE 0 END) * 1.0
            / sum(attempts) AS succeeded
        FROM mutirao_throughput
        WHERE <day> AND <queues> AND outcome IN ('succeeded', 'retried', 'dead')
    """, "percentunit"),
    _one("Died in 24 h", """
        SELECT coalesce(sum(attempts), 0) AS died FROM mutirao_throughput
        WHERE <day> AND <queues> AND outcome = 'dead'
    """, reds=1),
])  # fmt: skip
_DONE = Row("What was done, by the hour", [
    _lines("Attempts by outcome", """
        SELECT hour AS time, outcome AS metric, sum(attempts) AS value
        FROM mutirao_throughput WHERE <hours> AND <queues>
        GROUP BY hour, outcome ORDER BY hour
    """),
    _lines("Attempts by queue", """
        SELECT hour AS time, queue AS metric, sum(attempts) AS value
        FROM mutirao_throughput WHERE <hours> AND <queues>
        GROUP BY hour, queue ORDER BY hour
    """),
    _lines("How long they took, p95 of the slowest task", """
        SELECT hour AS time, queue AS metric, max(p95_duration) AS value
        FROM mutirao_throughput WHERE <hours> AND <queues>
        GROUP BY hour, queue ORDER BY hour
    """, "s"),
    _table("Tasks that fail most", """
        SELECT queue, task, outcome, sum(attempts) AS attempts
        FROM mutirao_throughput
        WHERE <hours> AND <queues> AND outcome IN ('retried', 'dead', 'lost')
        GROUP BY queue, task, outcome ORDER BY 4 DESC LIMIT 10
    """),
    _table("Tasks that take most time", """
        SELECT queue, task, sum(attempts) AS attempts,
            sum(attempts * mean_duration) AS seconds, max(p95_duration) AS p95
        FROM mutirao_throughput WHERE <hours> AND <queues>
        GROUP BY queue, task ORDER BY 4 DESC LIMIT 10
    """),
    _table("Errors, the last ones first", """
        SELECT last_at, task, error_type, message, jobs, attempts
        FROM mutirao_errors ORDER BY last_at DESC LIMIT 20
    """, width=24),
])  # fmt: skip
_STANDING = Row("What stands", [
    _table("Queues", """
        SELECT queue, state, jobs, oldest_age, counted_at FROM mutirao_queues
        WHERE <queues> ORDER BY queue, state
    """),
    _table("Workers", """
        SELECT id, name, version, app_version, concurrency, running, stuck, late, beat_at, alive
        FROM mutirao_workers ORDER BY id
    """),
    _table("Schedules", """
        SELECT name, task, status, next_at, last_state, last_duration, last_error
        FROM mutirao_schedules WHERE status <> 'finished' ORDER BY next_at
    """),
    _table("Limits, those that hold most back first", """
        SELECT name, queue, task, most, per, sum(running) AS running, sum(parked) AS parked
        FROM mutirao_limits GROUP BY name, queue, task, most, per
        ORDER BY 7 DESC, 6 DESC LIMIT 20
    """),
    _table("Subscriptions, those that are behind first", """
        SELECT id, topic, kind, waiting, running, stopped, coalesce(lag, 0) AS lag_seconds
        FROM mutirao_subscriptions ORDER BY 7 DESC LIMIT 20
    """),
    _table("Endpoints, those that hold most first", """
        SELECT id, host, active, paused, breaker, held, failing_since, last_failure
        FROM mutirao_endpoints ORDER BY held DESC LIMIT 20
    """),
])  # fmt: skip


def board(database: Database) -> Board:
    """Return the dashboard of a database."""
    kind, title = _KINDS[database]
    return Board(
        uid=f"mutirao-{database}",
        title=f"Mutirão ({title})",
        source=DataSource(kind, title, {"stat": _TABLE, "table": _TABLE, "timeseries": _LINES}),
        variables=[Variable("queue", "Queue", "SELECT DISTINCT queue FROM mutirao_queues")],
        rows=[_of(row, _SAID[database]) for row in (_NOW, _DONE, _STANDING)],
        since="now-24h",
        refresh="1m",
    )


def _of(row: Row, said: Mapping[str, str]) -> Row:
    """Return a row with the queries of a database."""
    panels = [replace(each, queries=_said(each.queries, said)) for each in row.panels]
    return replace(row, panels=panels)


def _said(queries: Sequence[Query], said: Mapping[str, str]) -> list[Query]:
    found = []
    for query in queries:
        text = " ".join(query.text.split())
        for token, words in said.items():
            text = text.replace(token, words)
        found.append(replace(query, text=text))
    return found
