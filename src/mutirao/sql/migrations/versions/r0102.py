"""Actions of people on jobs, as an audit that outlives them."""

from alembic.operations import Operations

from mutirao.sql.migrations.script import run_sql

revision = "0102"
down_revision = "0101"


def upgrade(op: Operations) -> None:
    """Make the table of actions and its view."""
    run_sql(op, __file__)
