"""`manage.py flush` empties the tables of jobs, too, as each `TransactionTestCase` expects of it.

Django empties the tables of models that it manages. It sends `post_migrate` then, as after
`migrate`, which alone says what its plan was.
"""

from typing import Any

from django.db import connections

from mutirao.integrations.django import conf
from mutirao.integrations.django.tables.vendors import is_postgresql
from mutirao.sql.schema.tables import metadata

_SIGN = "mutirao_version"


def empty_after_flush(using: str, **given: Any) -> None:
    """Delete all jobs, and all that belongs to them, if the database was flushed."""
    if "plan" in given:
        return
    connection, schema = connections[using], conf.read().schema
    with connection.cursor() as cursor:
        if not _is_ours(connection, cursor, schema):
            return
        before = "" if schema is None else f"{connection.ops.quote_name(schema)}."
        names = [f"{before}{name}" for name in metadata.tables]
        if is_postgresql(connection):
            cursor.execute(f"TRUNCATE {', '.join(names)}")
            return
        for name in names:
            cursor.execute(f"DELETE FROM {name}")  # noqa: S608 (names of ours)


def _is_ours(connection: Any, cursor: Any, schema: str | None) -> bool:
    """Return whether the tables are in that database."""
    if schema is None:
        return _SIGN in connection.introspection.table_names(cursor)
    cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [f"{schema}.{_SIGN}"])
    return bool(cursor.fetchone()[0])
