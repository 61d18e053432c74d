"""The views as SQLAlchemy Core sees them, for what people and dashboards ask."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    Text,
)
from sqlalchemy.types import TypeDecorator

from mutirao.sql.instant import FIRST, Timestamp

metadata = MetaData()


class IsoText(TypeDecorator[datetime]):
    """An aware datetime shown as text, `2026-11-21T13:44:28.000000Z`; sorts as time does."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """Turn a datetime into the text that a view shows."""
        if value is None:
            return None
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Turn what a view shows into a datetime; what is no moment into the first one."""
        if value is None:
            return None
        try:
            return datetime.fromisoformat(value)
        except (ValueError, TypeError):  # somebody has written something else by hand
            return FIRST


Moment = Timestamp().with_variant(IsoText(), "sqlite")

jobs = Table(
    "mutirao_jobs",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("task", Text),
    Column("queue", Text),
    Column("priority", SmallInteger),
    Column("state", Text),
    Column("attempt", Integer),
    Column("max_attempts", Integer),
    Column("timeout", Double),
    Column("run_at", Moment),
    Column("enqueued_at", Moment),
    Column("started_at", Moment),
    Column("finished_at", Moment),
    Column("duration", Double),
    Column("worker", BigInteger),
    Column("run", Integer),
    Column("error_type", Text),
    Column("error", Text),
    Column("args", JSON),
    Column("key", Text),
    Column("tags", JSON),
    Column("metadata", JSON),
    Column("traceparent", Text),
    Column("redrive_of", BigInteger),
    Column("on_dead_of", BigInteger),
    Column("graph", BigInteger),
    Column("stage", Text),
    Column("progress", Double),
    Column("progress_of", Double),
    Column("progress_note", Text),
)

queues = Table(
    "mutirao_queues",
    metadata,
    Column("queue", Text),
    Column("state", Text),
    Column("jobs", BigInteger),
    Column("oldest_age", Double),
)

errors = Table(
    "mutirao_errors",
    metadata,
    Column("task", Text),
    Column("error_type", Text),
    Column("message", Text),
    Column("jobs", BigInteger),
    Column("attempts", BigInteger),
    Column("first_at", Moment),
    Column("last_at", Moment),
)

throughput = Table(
    "mutirao_throughput",
    metadata,
    Column("hour", Moment),
    Column("queue", Text),
    Column("task", Text),
    Column("outcome", Text),
    Column("attempts", BigInteger),
    Column("mean_duration", Double),
    Column("p95_duration", Double),
)

workers = Table(
    "mutirao_workers",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("name", Text),
    Column("host", Text),
    Column("pid", Integer),
    Column("queues", JSON),
    Column("concurrency", Integer),
    Column("version", Text),
    Column("started_at", Moment),
    Column("beat_at", Moment),
    Column("expires_at", Moment),
    Column("alive", Boolean),
    Column("listening", Boolean),
    Column("stuck", Integer),
    Column("late", Double),
    Column("running", BigInteger),
    Column("jobs", JSON),
)

schedules = Table(
    "mutirao_schedules",
    metadata,
    Column("name", Text, primary_key=True),
    Column("task", Text),
    Column("args", JSON),
    Column("queue", Text),
    Column("cron", Text),
    Column("every", Double),
    Column("timezone", Text),
    Column("status", Text),
    Column("next_at", Moment),
    Column("last_tick", Moment),
    Column("last_job", BigInteger),
    Column("last_state", Text),
    Column("last_started_at", Moment),
    Column("last_finished_at", Moment),
    Column("last_duration", Double),
    Column("last_error", Text),
    Column("runs", BigInteger),
    Column("skipped", BigInteger),
    Column("catch_up", Text),
    Column("overlap", Text),
    Column("jitter", Double),
    Column("until", Moment),
    Column("max_runs", Integer),
    Column("origin", Text),
    Column("in_code", Boolean),
    Column("declared_at", Moment),
    Column("declared_by", Text),
    Column("created_at", Moment),
    Column("changed_at", Moment),
)

limits = Table(
    "mutirao_limits",
    metadata,
    Column("name", Text, primary_key=True),
    Column("queue", Text),
    Column("task", Text),
    Column("by", Text),
    Column("key", Text, primary_key=True),
    Column("most", Integer),
    Column("per", Double),
    Column("burst", Integer),
    Column("paused", Boolean),
    Column("running", Integer),
    Column("tokens", Double),
    Column("parked", BigInteger),
    Column("origin", Text),
    Column("in_code", Boolean),
    Column("declared_at", Moment),
    Column("declared_by", Text),
    Column("created_at", Moment),
    Column("changed_at", Moment),
)

graphs = Table(
    "mutirao_graphs",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("name", Text),
    Column("state", Text),
    Column("stage", Text),
    Column("jobs", BigInteger),
    Column("blocked", BigInteger),
    Column("waiting", BigInteger),
    Column("running", BigInteger),
    Column("succeeded", BigInteger),
    Column("dead", BigInteger),
    Column("cancelled", BigInteger),
    Column("created_at", Moment),
)
