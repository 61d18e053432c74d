"""Graphs of jobs, their steps, results and progress."""

from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0006"
down_revision = "0005"


def upgrade(op: Operations) -> None:
    """Add what makes jobs wait for each other, and what remains of them."""
    run_sql(op, "steps")
