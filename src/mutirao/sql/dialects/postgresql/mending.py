"""Repairs definitions of tables on PostgreSQL, compared as the catalogue shows them.

The result of a statement is examined in a temporary table, which is dropped at once. Functions are
compared by their text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

_MADE = re.compile(
    r"CREATE (?:UNIQUE |CONSTRAINT )?(TABLE|INDEX|VIEW|FUNCTION|TYPE|TRIGGER|SEQUENCE) (\w+)"
    r"(?:.*? ON (\w+))?",
    re.DOTALL,
)
_COMMENTS = re.compile(r"\A(?:\s*--.*\n)*\s*")  # before the statement
_KEPT = ("TABLE", "INDEX", "SEQUENCE")  # what has rows, or is made of them
_OID = text("SELECT to_regclass(:name)::oid")
_COLUMNS = text("""
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
       pg_get_expr(d.adbin, d.adrelid) AS fallback,
       (SELECT quote_ident(c.collname) FROM pg_collation c
        WHERE c.oid = a.attcollation AND c.collname <> 'default') AS collation
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = :oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
""")
_CHECKS = text("""
SELECT pg_get_constraintdef(oid) AS definition, quote_ident(conname) AS name FROM pg_constraint
WHERE conrelid = :oid AND contype = 'c' ORDER BY 1
""")
_INDEXES = text("""
SELECT i.relname AS name, regexp_replace(pg_get_indexdef(i.oid), ' ON [^ ]+ ', ' ') AS definition
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
WHERE x.indrelid = :oid AND NOT x.indisprimary
""")
_FUNCTIONS = text("""
SELECT proname AS name, prosrc AS body, oid::regprocedure::text AS called FROM pg_proc
WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'mutirao%'
""")
_VIEW = text("SELECT pg_get_viewdef(to_regclass(:name))")


class Creation(NamedTuple):
    """The object that a statement creates."""

    kind: str
    name: str
    table: str
    sql: str


class Table(NamedTuple):
    """A table as the catalogue shows it: each by its name, and constraints by their text."""

    columns: dict[str, Any]
    checks: dict[str, str]
    indexes: dict[str, str]


def mend(connection: Connection, statements: Iterable[str], fills: Mapping[str, str]) -> bool:
    """Give tables, indexes, functions and views the form that `statements` make; keep all rows.

    Returns whether anything had another one. `fills` has what new columns hold in rows that are
    there, by table and column.
    """
    made = [_made(each) for each in statements]
    alterations = list(_alterations(connection, made, fills))
    if not (alterations or _lacks(connection, made) or _others_differ(connection, made)):
        return False
    _drop_others(connection, made)
    _execute(connection, *alterations)
    for each in made:
        if each.kind not in _KEPT or _oid(connection, each.name) is None:
            _execute(connection, each.sql)
    return True


def _alterations(
    connection: Connection, made: Sequence[Creation], fills: Mapping[str, str]
) -> Iterator[str]:
    """Yield what gives tables that are there another form."""
    for each in made:
        if each.kind == "TABLE" and (there := _oid(connection, each.name)) is not None:
            wanted = _reference(connection, each, made)
            yield from _altering(each.name, wanted, _table(connection, there), fills)


def _altering(name: str, new: Table, old: Table, fills: Mapping[str, str]) -> Iterator[str]:
    """Yield what makes the table `old` the `new` one; indexes that differ are dropped only."""
    for check in old.checks.keys() - new.checks.keys():
        yield f"ALTER TABLE {name} DROP CONSTRAINT {old.checks[check]}"
    for index, definition in new.indexes.items():
        if old.indexes.get(index, definition) != definition:
            yield f"DROP INDEX {index}"
    for column, wanted in new.columns.items():
        if column not in old.columns:
            yield from _adding(name, wanted, fills.get(f"{name}.{column}"))
        elif old.columns[column] != wanted:
            yield from _changing(name, wanted)
    for check in new.checks.keys() - old.checks.keys():
        yield f"ALTER TABLE {name} ADD {check}"


def _adding(table: str, column: Any, fill: str | None) -> Iterator[str]:
    fallback = column.fallback if fill is None else fill
    yield (
        f'ALTER TABLE {table} ADD COLUMN "{column.name}" {column.type}{_collated(column)}'
        + ("" if fallback is None else f" DEFAULT {fallback}")
        + (" NOT NULL" if column.required else "")
    )
    if fill is not None:
        yield f'ALTER TABLE {table} ALTER COLUMN "{column.name}" DROP DEFAULT'


def _changing(table: str, column: Any) -> Iterator[str]:
    what = f'ALTER TABLE {table} ALTER COLUMN "{column.name}"'
    yield f"{what} TYPE {column.type}{_collated(column)}"
    yield f"{what} " + (
        "DROP DEFAULT" if column.fallback is None else f"SET DEFAULT {column.fallback}"
    )
    yield f"{what} {'SET' if column.required else 'DROP'} NOT NULL"


def _collated(column: Any) -> str:
    return f" COLLATE {column.collation}" if column.collation else ""


def _lacks(connection: Connection, made: Iterable[Creation]) -> bool:
    """Return whether something is missing that has rows."""
    return any(each.kind in _KEPT and _oid(connection, each.name) is None for each in made)


def _others_differ(connection: Connection, made: Iterable[Creation]) -> bool:
    """Return whether functions or views have another text than they would be given."""
    functions = [each for each in made if each.kind == "FUNCTION"]
    ours = {each.name for each in functions}
    found = sorted((f.name, f.body) for f in connection.execute(_FUNCTIONS) if f.name in ours)
    if found != sorted((each.name, _body(each.sql)) for each in functions):
        return True
    return any(_view_differs(connection, each) for each in made if each.kind == "VIEW")


def _view_differs(connection: Connection, view: Creation) -> bool:
    if _oid(connection, view.name) is None:
        return True
    found = connection.scalar(_VIEW, {"name": view.name})
    try:
        with connection.begin_nested():
            _execute(connection, _for_a_while(view))
            wanted = connection.scalar(_VIEW, {"name": f"pg_temp.{view.name}"})
            _execute(connection, f"DROP VIEW pg_temp.{view.name}")
    except DBAPIError:  # a column that it needs is not there
        return True
    return bool(found != wanted)


def _drop_others(connection: Connection, made: Sequence[Creation]) -> None:
    """Drop what has no rows: nothing of others' goes with it, but has to be dropped before."""
    for each in made:
        if each.kind == "TRIGGER" and _oid(connection, each.table) is not None:
            _execute(connection, f"DROP TRIGGER IF EXISTS {each.name} ON {each.table}")
    if views := ", ".join(each.name for each in made if each.kind == "VIEW"):
        _execute(connection, f"DROP VIEW IF EXISTS {views}")
    ours = {each.name for each in made if each.kind == "FUNCTION"}
    called = [f.called for f in connection.execute(_FUNCTIONS) if f.name in ours]
    if called:
        _execute(connection, f"DROP FUNCTION {', '.join(called)}")
    for each in made:
        if each.kind == "TYPE":
            _execute(connection, f"DROP TYPE IF EXISTS {each.name}")


def _reference(connection: Connection, table: Creation, made: Iterable[Creation]) -> Table:
    """Return the table that a statement would make, with its indexes."""
    indexes = [each.sql for each in made if each.kind == "INDEX" and each.table == table.name]
    _execute(connection, _for_a_while(table), *indexes)
    there = _oid(connection, f"pg_temp.{table.name}")
    found = _table(connection, there)
    _execute(connection, f"DROP TABLE pg_temp.{table.name}")
    return found


def _table(connection: Connection, there: Any) -> Table:
    which = {"oid": there}
    return Table(
        {each.name: each for each in connection.execute(_COLUMNS, which)},
        {each.definition: each.name for each in connection.execute(_CHECKS, which)},
        {each.name: each.definition for each in connection.execute(_INDEXES, which)},
    )


def _for_a_while(each: Creation) -> str:
    return each.sql.replace(f"CREATE {each.kind}", f"CREATE TEMP {each.kind}", 1)


def _oid(connection: Connection, name: str) -> Any:
    return connection.scalar(_OID, {"name": name})


def _made(statement: str) -> Creation:
    bare = _COMMENTS.sub("", statement, count=1)
    found = _MADE.match(bare)
    kind, name, table = found.groups("") if found else ("", "", "")
    return Creation(kind, name, table, bare)


def _body(statement: str) -> str:
    """Return the text of a function; one whose body is parsed at once has none."""
    return (*statement.split("$$"), "", "")[1]


def _execute(connection: Connection, *statements: str) -> None:
    for each in statements:
        connection.execute(text(each.replace(":", r"\:")))
