"""Jobs that are not wanted any more after a moment, and the view of jobs that shows it."""

from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0103"
down_revision = "0102"


def upgrade(op: Operations) -> None:
    """Make the table of moments, and the view of jobs again."""
    run_sql(op, __file__)
