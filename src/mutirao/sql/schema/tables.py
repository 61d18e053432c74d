"""All tables for SQLAlchemy Core, for the statements that are the same on every database.

The DDL itself is in the migrations; a test compares the two.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Integer,
    MetaData,
    Numeric,
    SmallInteger,
    Table,
    Text,
)

from mutirao.sql.schema.types import Instant

metadata = MetaData()


Json = JSON(none_as_null=True)


def json_columns(table: Table) -> tuple[str, ...]:
    """Return the names of the columns of a table that hold JSON."""
    return tuple(column.name for column in table.c if isinstance(column.type, JSON))


job = Table(
    "mutirao_job",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("task", Text, nullable=False),
    Column("args", Json, nullable=False),
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("run_at", Instant, nullable=False),
    Column("enqueued_at", Instant, nullable=False),
    Column("max_attempts", Integer),
    Column("timeout", Double),
    Column("key", Text),
    Column("fingerprint", Text),
    Column("tags", Json),
    Column("metadata", Json),
    Column("traceparent", Text),
    Column("tenant", Text),
    Column("group", Text),
    Column("redrive_of", BigInteger),
    Column("on_dead_of", BigInteger),
    Column("version", Numeric),
)

live = Table(
    "mutirao_live",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("run_at", Instant, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("run", Integer, nullable=False),
    Column("worker", BigInteger),
    Column("claimed_at", Instant),
    Column("cancel", Boolean, nullable=False),
    Column("lost", SmallInteger, nullable=False),  # see `model.losses`
    Column("cut_off", SmallInteger, nullable=False),
    Column("fairness", Text, nullable=False),
)


def next_run() -> ColumnElement[int]:
    """Return the run after a live row's; 1 follows the largest number that fits the column."""
    return live.c.run % 2_147_483_647 + 1


attempt = Table(
    "mutirao_attempt",
    metadata,
    Column("job", BigInteger, primary_key=True),
    Column("run", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("worker", BigInteger),
    Column("outcome", Text, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("finished_at", Instant, nullable=False),
    Column("error_type", Text),
    Column("error", Text),
    Column("came_late", Boolean),
)

# What is added up by the hour; `mutirao_hour` and `mutirao_error` keep times as views show them.
rolled = Table(
    "mutirao_rolled",
    metadata,
    Column("one", Boolean, primary_key=True),
    Column("until", Instant, nullable=False),
    Column("closing", Instant, nullable=False),
    Column("seen", Text, nullable=False),
)

hour = Table(
    "mutirao_hour",
    metadata,
    Column("hour", Text, primary_key=True),
    Column("queue", Text, primary_key=True),
    Column("task", Text, primary_key=True),
    Column("outcome", Text, primary_key=True),
    Column("attempts", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("durations", Json, nullable=False),
    Column("p50", Double, nullable=False),
    Column("p95", Double, nullable=False),
    Column("p99", Double, nullable=False),
)

kept = Table(
    "mutirao_kept",
    metadata,
    Column("queue", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("hour", Instant, nullable=False),
    Column("jobs", BigInteger, nullable=False),
)

error = Table(
    "mutirao_error",
    metadata,
    Column("task", Text, primary_key=True),
    Column("error_type", Text, primary_key=True),
    Column("message", Text, primary_key=True),
    Column("jobs", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("first_at", Text, nullable=False),
    Column("last_at", Text, nullable=False),
)

backlog = Table(
    "mutirao_backlog",
    metadata,
    Column("queue", Text, primary_key=True),
    Column("state", Text, primary_key=True),
    Column("jobs", BigInteger, nullable=False),
    Column("since", Instant),
    Column("counted_at", Instant, nullable=False),
)

key = Table(
    "mutirao_key",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("task", Text, primary_key=True),
    Column("queue", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("job", BigInteger, nullable=False),
    Column("after", BigInteger),
    Column("since", Instant, nullable=False),
    Column("unique_for", Double),
)

supersede_last = Table(
    "mutirao_supersede_last",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("task", Text, primary_key=True),
    Column("queue", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("last", BigInteger, nullable=False),
    Column("done", BigInteger),
)

supersede_wait = Table(
    "mutirao_supersede_wait",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("after", BigInteger, nullable=False),
    Column("how", Text),
    Column("args", Json),
)

supersede_task = Table(
    "mutirao_supersede_task",
    metadata,
    Column("task", Text, primary_key=True),
    Column("scope", Text),
)

unjudged = Table(
    "mutirao_unjudged",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    *(Column(name, Text, nullable=False) for name in ("scope", "task", "queue", "key")),
)

worker = Table(
    "mutirao_worker",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("name", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("queues", Json),
    Column("exclude_queues", Json),
    Column("tasks", Json),
    Column("concurrency", Integer, nullable=False),
    Column("version", Text, nullable=False),
    Column("app_version", Text),
    Column("started_at", Instant, nullable=False),
    Column("beat_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("listening", Boolean, nullable=False),
    Column("stuck", Integer, nullable=False),
    Column("late", Double, nullable=False),
)

duty = Table(
    "mutirao_duty",
    metadata,
    Column("name", Text, primary_key=True),
    Column("worker", BigInteger, nullable=False),
    Column("taken_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
)

schedule = Table(
    "mutirao_schedule",
    metadata,
    Column("name", Text, primary_key=True),
    Column("task", Text, nullable=False),
    Column("args", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("options", Text, nullable=False),
    Column("cron", Text),
    Column("every", Double),
    Column("timezone", Text, nullable=False),
    Column("catch_up", Text, nullable=False),
    Column("catch_up_limit", Integer, nullable=False),
    Column("overlap", Text, nullable=False),
    Column("jitter", Double, nullable=False),
    Column("until", Instant),
    Column("max_runs", Integer),
    Column("pause_after", Integer),
    Column("origin", Text, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("reason", Text),
    Column("forgiven", BigInteger),
    Column("awaiting", Boolean, nullable=False),
    Column("next_at", Instant),
    Column("last_tick", Instant),
    Column("last_job", BigInteger),
    Column("runs", BigInteger, nullable=False),
    Column("skipped", BigInteger, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
    Column("declared", Text),
    Column("declared_at", Instant),
    Column("declared_by", Text),
)

tick = Table(
    "mutirao_tick",
    metadata,
    Column("schedule", Text, primary_key=True),
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("tick", Instant),
)

graph = Table(
    "mutirao_graph",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text),
    Column("unfinished", Integer, nullable=False),
    Column("undoing", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
)

step = Table(
    "mutirao_step",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("job", BigInteger, nullable=False),
    Column("graph", BigInteger, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("stage", Text, nullable=False),
    Column("on_dead", Text, nullable=False),
    Column("gate", BigInteger),
    Column("outcome", Text),
    Column("needs", Text),
    Column("compensate", Text),
)

gate = Table(
    "mutirao_gate",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("unfinished", Integer, nullable=False),
)

edge = Table(
    "mutirao_edge",
    metadata,
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("gate", BigInteger, primary_key=True, autoincrement=False),
)

result = Table(
    "mutirao_result",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Text, nullable=False),
    Column("expires_at", Instant),
)

progress = Table(
    "mutirao_progress",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("run", Integer, nullable=False),
    Column("done", Double, nullable=False),
    Column("total", Double),
    Column("note", Text),
    Column("told_at", Instant, nullable=False),
)

waiter = Table(
    "mutirao_waiter",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
)

fairness = Table(
    "mutirao_fairness",
    metadata,
    Column("task", Text, primary_key=True),
    Column("by", Text, nullable=False),
)

fairness_served = Table(
    "mutirao_fairness_served",
    metadata,
    Column("worker", BigInteger, primary_key=True, autoincrement=False),
    Column("lane", Text, primary_key=True),
    Column("fairness", Text, nullable=False),
)


limit = Table(
    "mutirao_limit",
    metadata,
    Column("name", Text, primary_key=True),
    Column("queue", Text),
    Column("task", Text),
    Column("by", Text),
    Column("key", Text),
    Column("most", Integer, nullable=False),
    Column("per", Double),
    Column("burst", Integer),
    Column("start", Integer),
    Column("origin", Text, nullable=False),
    Column("declared", Text),
    Column("declared_at", Instant),
    Column("declared_by", Text),
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
)

counter = Table(
    "mutirao_counter",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("name", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("running", Integer, nullable=False),
    Column("tokens", Double, nullable=False),
    Column("proven", Integer, nullable=False),
    Column("touched_at", Instant, nullable=False),
    Column("probe_at", Instant),
    Column("late_next", SmallInteger, nullable=False),
)

slot = Table(
    "mutirao_slot",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("counter", BigInteger, primary_key=True, autoincrement=False),
)

parked = Table(
    "mutirao_parked",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("counter", BigInteger, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("run_at", Instant, nullable=False),
    Column("late", Boolean, nullable=False),
)


subscription = Table(
    "mutirao_subscription",
    metadata,
    Column("id", Text, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("tenant", Text),
    Column("group", Text),
    Column("filter", Text),
    Column("key", Text),
    Column("order_by", Text),
    Column("when_dead", Text),
    Column("reached", BigInteger),
    Column("kind", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("task", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("options", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
    Column("declared", Text),
    Column("declared_at", Instant),
    Column("declared_by", Text),
)

delivery = Table(
    "mutirao_delivery",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("publication", BigInteger, nullable=False),
    Column("subscription", Text, nullable=False),
    Column("nth", Integer, nullable=False),
)

ordered = Table(
    "mutirao_ordered",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("subscription", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("turn", BigInteger, nullable=False),
    Column("after", BigInteger),
)


endpoint = Table(
    "mutirao_endpoint",
    metadata,
    Column("id", Text, primary_key=True),
    Column("url", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("headers", Text, nullable=False),
    Column("secret", Text),
    Column("previous_secret", Text),
    Column("previous_until", Instant),
    Column("signer", Text),
    Column("body", Text, nullable=False),
    Column("connect", Double, nullable=False),
    Column("first_byte", Double, nullable=False),
    Column("whole", Double, nullable=False),
    Column("redirects", SmallInteger, nullable=False),
    Column("accepts_3xx", Boolean, nullable=False),
    Column("rate", Double),
    Column("concurrency", Integer),
    Column("topics", Text, nullable=False),
    Column("tenant", Text),
    Column("group", Text),
    Column("filter", Text),
    Column("order_by", Text),
    Column("when_dead", Text),
    Column("retry", Text),
    Column("active", Boolean, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("disabled_reason", Text),
    Column("disabled_at", Instant),
    Column("last_failure", Text),
    Column("failed_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
)

further_topic = Table(
    "mutirao_further_topic",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("subscription", Text, primary_key=True),
)

breaker = Table(
    "mutirao_breaker",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("counted_from", Instant, nullable=False),
    Column("failing_since", Instant),
    Column("probe_at", Instant),
    Column("opened", Integer, nullable=False),
)

webhook_attempt = Table(
    "mutirao_webhook_attempt",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("run", Integer, primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("status", Integer),
    Column("milliseconds", Double, nullable=False),
    Column("failure", Text),
    Column("detail", Text),
    Column("body", Text, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("address", Text),
    Column("request_headers", Text, nullable=False),
    Column("finished_at", Instant, nullable=False),
)


host = Table(
    "mutirao_host",
    metadata,
    Column("name", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("failing_since", Instant),
    Column("next_probe", Instant),
    Column("held", Boolean, nullable=False),
    Column("signature", Text),
    Column("concurrency", Integer),
    Column("status", Integer),
    Column("error", Text),
    Column("changed_at", Instant),
)

said = Table(
    "mutirao_said",
    metadata,
    Column("about", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("job", BigInteger, nullable=False),
    Column("said_at", Instant, nullable=False),
)


inbox = Table(
    "mutirao_inbox",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("message", Text, primary_key=True),
    Column("times", Integer, nullable=False),
    Column("first_at", Instant, nullable=False),
)

# Until when jobs are wanted; `look_at`: when housekeeping has to look, None once it is done.
expiry = Table(
    "mutirao_expiry",
    metadata,
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("expires_at", Instant, nullable=False),
    Column("look_at", Instant),
)

# What people did; `ids`, `why` and `change` are JSON.
action = Table(
    "mutirao_action",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("who", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("change", Text),
    Column("filter", Text),
    Column("ids", Text),
    Column("expected", BigInteger),
    Column("matched", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("why", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("stop", Boolean, nullable=False),
    Column("error", Text),
    Column("started_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    Column("finished_at", Instant),
)
