"""Schedules, their ticks, and the view that shows them."""

from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations) -> None:
    """Add what makes jobs by the clock."""
    run_sql(op, "schedules")
