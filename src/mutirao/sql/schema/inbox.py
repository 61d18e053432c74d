"""The table of the inbox; see `tables`, which has it, too."""

from sqlalchemy import Column, Integer, Table, Text

from mutirao.sql.schema.gathered import metadata
from mutirao.sql.schema.types import Instant

inbox = Table(
    "mutirao_inbox",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("message", Text, primary_key=True),
    Column("times", Integer, nullable=False),
    Column("first_at", Instant, nullable=False),
)
