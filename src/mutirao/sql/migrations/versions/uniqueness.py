"""Keys that at most one job holds, and fingerprints by which equal jobs are found."""

from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0003"
down_revision = "0002"


def upgrade(op: Operations) -> None:
    """Add what tells one job from another."""
    run_sql(op, "uniqueness")
