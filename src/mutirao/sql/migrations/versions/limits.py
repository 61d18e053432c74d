"""Limits: how many jobs run at once, and how many start in a time."""

from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0005"
down_revision = "0004"


def upgrade(op: Operations) -> None:
    """Add what counts running jobs, where those wait that are too many, and who takes turns.

    On PostgreSQL also the functions that have to know of it: all that workers do to live jobs, and
    how jobs are enqueued in SQL.
    """
    run_sql(op, "limits")
    run_sql(op, "fair")
