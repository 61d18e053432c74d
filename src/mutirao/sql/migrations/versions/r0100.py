"""The schema of the first release."""

from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0100"
down_revision = None


def upgrade(op: Operations) -> None:
    """Make all tables, functions and views."""
    run_sql(op, __file__)
