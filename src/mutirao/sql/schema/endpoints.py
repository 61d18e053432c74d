"""The tables of endpoints, their breakers and attempts; see `tables`, which has them, too."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Integer,
    SmallInteger,
    Table,
    Text,
)

from mutirao.sql.schema.gathered import metadata
from mutirao.sql.schema.types import Instant

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
