"""The tables of limits; see `tables`, which has them, too."""

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, SmallInteger, Table, Text

from mutirao.sql.schema.gathered import metadata
from mutirao.sql.schema.types import Instant

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
