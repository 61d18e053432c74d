"""The second schema of 0.1."""

from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0101"
down_revision = "0100"


def upgrade(op: Operations) -> None:
    """Make what has changed since 0100."""
    run_sql(op, __file__)
