"""Writes many rows at once: inserts those that are missing, and updates the others.

The rows are locked by one statement, in the order of their keys, and those that are new are written
by one. A change of an existing row is a statement for each, sent in one batch where the driver can.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import Column, Connection, Row, Table, bindparam, select, update

from mutirao.sql.dialects.base import Dialect

# Of a row that is there and locked, return its new values; none: it stays.
Change = Callable[[Row[Any]], Mapping[str, Any]]


def put_rows(
    conn: Connection,
    dialect: Dialect,
    table: Table,
    rows: Mapping[str, dict[str, Any]],
    change: Change,
    *needs: Column[Any],
) -> None:
    """Insert or update the row of each key.

    Parameters:
        rows: whole new rows, by their keys.
        change: asked for each row that there is.
        needs: what `change` reads, besides the key.
    """
    left = dict(sorted(rows.items()))
    while left:
        there = hold(conn, dialect, table, list(left), *needs)
        _change(conn, table, {key: change(row) for key, row in there.items()})
        new = [row for key, row in left.items() if key not in there]
        written = dialect.write_new_rows(conn, table, new)
        # Another transaction has just written the remaining rows: they have to be changed.
        left = {key: row for key, row in left.items() if key not in there and key not in written}


def hold(
    conn: Connection, dialect: Dialect, table: Table, keys: Sequence[str], *needs: Column[Any]
) -> dict[str, Row[Any]]:
    """Lock the rows of these keys; return those that there are."""
    [key] = table.primary_key.columns
    mine = select(key, *needs).where(dialect.among(key, keys)).order_by(key)
    return {row[0]: row for row in conn.execute(mine.with_for_update())}


def unless_same(row: Row[Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the new values of a row, none if only `changed_at` differs."""
    has = row._mapping
    same = all(has[name] == value for name, value in values.items() if name != "changed_at")
    return {} if same else values


def clock(conn: Connection, dialect: Dialect, now: datetime | None) -> datetime:
    """Return the moment as a value, for rows that are sent in one batch."""
    found: datetime = conn.execute(select(dialect.moment(now))).scalar_one()
    return found


def _change(conn: Connection, table: Table, changes: Mapping[str, Mapping[str, Any]]) -> None:
    [key] = table.primary_key.columns
    change = update(table).where(key == bindparam("of"))
    rows = [{"of": of, **values} for of, values in changes.items() if values]
    for _, alike in groupby(sorted(rows, key=_columns), key=_columns):
        conn.execute(change, list(alike))


def _columns(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row)
