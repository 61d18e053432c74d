"""On PostgreSQL, the function that sends jobs of a rate ahead to their time, without a gap."""

from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0104"
down_revision = "0103"


def upgrade(op: Operations) -> None:
    """Make that function again."""
    run_sql(op, __file__)
