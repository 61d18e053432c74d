"""Revisions written in each database's own SQL, in a file beside them for each dialect."""

from pathlib import Path

from alembic.operations import Operations
from sqlalchemy import text

from mutirao.sql.dialects.admin import admin_of


def run_sql(op: Operations, name: str) -> None:
    """Execute `versions/<name>_<dialect>.sql`, whose statements are separated by lines `--;`."""
    context = op.get_context()
    admin = admin_of(context.dialect)
    path = Path(__file__).parent / "versions" / f"{name}_{admin.name}.sql"
    for statement in path.read_text(encoding="utf-8").split("\n--;\n"):
        connection = None if context.as_sql else context.connection
        placed = admin.in_place(statement.strip(), connection)
        op.execute(text(placed.replace(":", r"\:")))
