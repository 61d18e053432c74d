"""The tables of subscriptions and deliveries; see `tables`, which has them, too."""

from sqlalchemy import BigInteger, Boolean, Column, Integer, SmallInteger, Table, Text

from mutirao.sql.schema.gathered import metadata
from mutirao.sql.schema.types import Instant

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
