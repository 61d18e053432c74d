"""Repairs databases of a revision whose files were edited after they had been applied.

Revision 0100 was, on several days before the first release: databases of each of them say that they
are at 0100. A later revision first brings them to what 0100 makes now.
"""

from collections.abc import Mapping
from pathlib import Path

from alembic.operations import Operations
from sqlalchemy import Column, String, inspect

from mutirao.sql.migrations.script import SCHEMA, placed_statements
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.version import FINGERPRINT, VERSION_TABLE

FOUND = "mutirao_found"  # the option of a context that says at which revision a database was


def mend(op: Operations, script: Path, fills: Mapping[str, str]) -> None:
    """Bring a database that was found at the revision of `script` to what that makes now.

    Parameters:
        fills: what columns that were missing hold in rows that are there, as SQL, by
            `<table>.<column>`: where a column has no default, and may not be empty.
    """
    context = op.get_context()
    if context.as_sql or context.opts.get(FOUND) != script.stem.removeprefix("r"):
        return
    connection, schema = op.get_bind(), context.opts.get(SCHEMA)
    statements = placed_statements(script, connection.dialect, connection, schema)
    dialect_of(connection.dialect).admin.mend(connection, statements, fills)


def add_fingerprint(op: Operations) -> None:
    """Give the table of the revision its second column, unless a try that was cut off has."""
    context = op.get_context()
    if not context.as_sql:
        columns = inspect(op.get_bind()).get_columns(VERSION_TABLE)
        if FINGERPRINT in {each["name"] for each in columns}:
            return
    op.add_column(VERSION_TABLE, Column(FINGERPRINT, String(64)))
