"""The second schema of 0.1, also for databases that earlier states of the first one made."""

from pathlib import Path

from alembic.operations import Operations

from mutirao.sql.migrations.mending import add_fingerprint, mend
from mutirao.sql.migrations.script import run_sql

revision = "0101"
down_revision = "0100"

# Subscriptions had no other kind before these columns.
FILLS = {"mutirao_subscription.kind": "'handler'", "mutirao_subscription.active": "'1'"}


def upgrade(op: Operations) -> None:
    """Mend what 0100 made before its files were what they are, and make what has changed since."""
    mend(op, Path(__file__).with_name("r0100.py"), FILLS)
    run_sql(op, __file__)
    add_fingerprint(op)
