"""The three tables of jobs, workers and their duties, and the views over them."""

from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0001"
down_revision = None


def upgrade(op: Operations) -> None:
    """Make everything of the first release."""
    run_sql(op, "core")
