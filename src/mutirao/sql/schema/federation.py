"""The tables of federation: hosts, and what they were told last; see `tables`, which has them."""

from sqlalchemy import BigInteger, Boolean, Column, Integer, Table, Text

from mutirao.sql.schema.gathered import metadata
from mutirao.sql.schema.types import Instant

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
