"""Jobs of a key one after the other, and what a newer one makes redundant."""

from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0004"
down_revision = "0003"


def upgrade(op: Operations) -> None:
    """Add who waits for whom."""
    run_sql(op, "series")
