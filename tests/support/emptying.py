"""Empties a database between tests."""

from __future__ import annotations

from psycopg import Connection, sql

from mutirao.sql.schema.tables import metadata
from tests.support.postgresql import PostgresServer

# Only what has rows is truncated: a new file for each of 20 tables and its indexes takes 27 ms, and
# this 6. Sequences start again, as in new tables.
_EMPTY = sql.SQL("""
DO $$
DECLARE
    name text;
    filled boolean;
BEGIN
    FOREACH name IN ARRAY ARRAY[{tables}] LOOP
        EXECUTE pg_catalog.format('SELECT EXISTS (SELECT FROM %I.%I)', {schema}, name) INTO filled;
        IF filled THEN
            EXECUTE pg_catalog.format('TRUNCATE %I.%I', {schema}, name);
        END IF;
    END LOOP;
    PERFORM setval(oid, 1, false) FROM pg_class
    WHERE relkind = 'S' AND relnamespace = {schema}::regnamespace;
END
$$
""")


_TABLES = sql.SQL(", ").join(map(sql.Literal, metadata.tables))


def empty(postgres: PostgresServer, database: str, schema: str = "public") -> None:
    """Make a set of jobs as empty as when its tables were made."""
    with postgres.connect(database) as connection:
        empty_through(connection, schema)


def empty_through(connection: Connection, schema: str = "public") -> None:
    """The same, through a connection that commits by itself."""
    connection.execute(_EMPTY.format(tables=_TABLES, schema=sql.Literal(schema)))
