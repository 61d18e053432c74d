"""Repairs definitions of tables on SQLite: creates a table again, with all of its rows.

SQLite alters little of a table. What its documentation advises instead, a new one that takes the
old one's name, would leave quotes in the definition, and change what applications' own foreign keys
and views refer to. So the rows are moved away, and copied back.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from sqlalchemy import Connection

_CATALOG = "SELECT name, type, tbl_name, sql FROM main.sqlite_master WHERE sql IS NOT NULL"
_ASIDE = "mutirao_aside"
_MADE_AGAIN = ("trigger", "view")


class Thing(NamedTuple):
    """A table, an index, a view or a trigger, as the catalogue shows it."""

    name: str
    type: str
    table: str
    sql: str

    @property
    def key(self) -> tuple[str, str]:
        """Its identity: a trigger may have the name of an index."""
        return self.type, self.name


def mend(connection: Connection, statements: Iterable[str], fills: Mapping[str, str]) -> bool:
    """Give tables, indexes, views and triggers the form that `statements` make; keep all rows.

    Returns whether anything had another one. `fills` has what new columns hold in rows that are
    there, by table and column.
    """
    wanted, found = _made_by(statements), _found(connection)
    if all(found.get(each.key) == each for each in wanted):
        return False
    for each in wanted:
        if each.type in _MADE_AGAIN and each.key in found:
            connection.exec_driver_sql(f"DROP {each.type} {each.name}")
    for each in wanted:
        if each.type == "table" and each.key in found and found[each.key] != each:
            for statement in remade(connection, each.name, each.sql, fills):
                connection.exec_driver_sql(statement)
    found = _found(connection)
    for each in wanted:
        if each.type == "index" and each.key in found and found[each.key] != each:
            connection.exec_driver_sql(f"DROP INDEX {found.pop(each.key).name}")
        if each.key not in found:
            connection.exec_driver_sql(each.sql)
    return True


def remade(
    connection: Connection | None, table: str, sql: str, fills: Mapping[str, str]
) -> Sequence[str]:
    """Return the statements that make a table again by `sql`, with its rows, indexes and triggers.

    An id that was given once is not given again. Without a connection they are printed, for a table
    that is empty and has nothing of others'.
    """
    if connection is None:
        return (f"DROP TABLE {table}", sql)
    old = {column[1]: column for column in _columns(connection, table)}
    with closing(sqlite3.connect(":memory:")) as reference:
        reference.execute(sql)
        new = [each[1] for each in reference.execute(f"PRAGMA table_xinfo({table})")]
    filled = {each: fills[f"{table}.{each}"] for each in new if f"{table}.{each}" in fills}
    taken = [each for each in new if each in old or each in filled]
    names = ", ".join(f'"{each}"' for each in taken)
    values = ", ".join(f'"{each}"' if each in old else filled[each] for each in taken)
    attached = [
        each.sql
        for each in _found(connection).values()
        if each.table == table and each.type in ("index", "trigger")
    ]
    return (
        f"CREATE TEMP TABLE {_ASIDE} AS SELECT * FROM {table}",  # noqa: S608 (names of ours)
        *_numbering_aside(connection, table),
        f"DROP TABLE {table}",
        sql,
        f"INSERT INTO {table} ({names}) SELECT {values} FROM temp.{_ASIDE}",  # noqa: S608
        *_numbering_back(connection, table),
        f"DROP TABLE temp.{_ASIDE}",
        *attached,
    )


def _numbering_aside(connection: Connection, table: str) -> Sequence[str]:
    if not _is_numbered(connection, table):
        return ()
    return (
        f"CREATE TEMP TABLE {_ASIDE}_number AS"  # noqa: S608
        f" SELECT seq FROM main.sqlite_sequence WHERE name = '{table}'",
    )


def _numbering_back(connection: Connection, table: str) -> Sequence[str]:
    if not _is_numbered(connection, table):
        return ()
    return (
        f"DELETE FROM main.sqlite_sequence WHERE name = '{table}'",  # noqa: S608
        "INSERT INTO main.sqlite_sequence (name, seq)"  # noqa: S608
        f" SELECT '{table}', seq FROM temp.{_ASIDE}_number",
        f"DROP TABLE temp.{_ASIDE}_number",
    )


def _is_numbered(connection: Connection, table: str) -> bool:
    return "AUTOINCREMENT" in _found(connection)["table", table].sql.upper()


def _columns(connection: Connection, table: str) -> Iterable[Sequence[str]]:
    return [tuple(row) for row in connection.exec_driver_sql(f"PRAGMA table_xinfo({table})")]


def _found(connection: Connection) -> dict[tuple[str, str], Thing]:
    return _things(tuple(row) for row in connection.exec_driver_sql(_CATALOG))


def _made_by(statements: Iterable[str]) -> list[Thing]:
    """Return what the statements make, in their order."""
    with closing(sqlite3.connect(":memory:")) as reference:
        for statement in statements:
            reference.execute(statement)
        rows = reference.execute(f"{_CATALOG} ORDER BY rowid").fetchall()
    return list(_things(rows).values())


def _things(rows: Iterable[Sequence[str]]) -> dict[tuple[str, str], Thing]:
    things = (Thing(name, type, on, sql.replace("\t", "    ")) for name, type, on, sql in rows)
    return {each.key: each for each in things}
