"""Repairs definitions of tables on MySQL and MariaDB, compared as the server shows them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, inspect, text

_REFERENCE = "mutirao_reference"
_TABLE = re.compile(r"(?:\s*--.*\n)*\s*CREATE TABLE (?:IF NOT EXISTS )?(\w+)")


class Part(NamedTuple):
    """A column, key or constraint: a line of what SHOW CREATE TABLE shows."""

    what: str
    name: str
    line: str


def mend(connection: Connection, statements: Iterable[str], fills: Mapping[str, str]) -> bool:
    """Give tables the form that `statements` make, keep all rows, and make all else again.

    The statements do no harm if they are run again. Returns whether a table had another form;
    `fills` has what new columns hold in rows that are there, by table and column.
    """
    statements = list(statements)
    there = {each for each in inspect(connection).get_table_names() if each.startswith("mutirao_")}
    changed = False
    for statement in statements:
        found = _TABLE.match(statement)
        if found is None:
            continue
        if found[1] not in there:
            changed = True
        elif alterations := list(_alterations(connection, found[1], statement, fills)):
            changed = True
            for alteration in alterations:
                _execute(connection, f"ALTER TABLE {found[1]} {alteration}")
    if changed:
        for statement in statements:
            _execute(connection, statement)
    return changed


def _alterations(
    connection: Connection, table: str, statement: str, fills: Mapping[str, str]
) -> Iterator[str]:
    """Yield the statements that make a table equal to `statement`: obstacles are removed first."""
    wanted, found = _reference(connection, table, statement), _parts(connection, table, table)
    gone = [each for key, each in found.items() if each != wanted.get(key)]
    yield from (_dropping(each) for each in gone if each.what in ("KEY", "UNIQUE KEY"))
    yield from (_dropping(each) for each in gone if each.what == "CONSTRAINT")
    place = "FIRST"
    for key, each in wanted.items():
        if each.what == "":
            if key not in found:
                fill = fills.get(f"{table}.{each.name}")
                filled = "NOT NULL" if fill is None else f"NOT NULL DEFAULT {fill}"
                yield f"ADD COLUMN {each.line.replace('NOT NULL', filled, 1)} {place}"
            if found.get(key, each) != each or f"{table}.{each.name}" in fills:
                yield f"MODIFY COLUMN {each.line} {place}"
            place = f"AFTER `{each.name}`"
        elif found.get(key) != each:
            yield f"ADD {each.line}"


def _dropping(part: Part) -> str:
    return f"DROP {'CONSTRAINT' if part.what == 'CONSTRAINT' else 'INDEX'} `{part.name}`"


def _reference(connection: Connection, table: str, statement: str) -> dict[tuple[str, str], Part]:
    _execute(connection, f"DROP TABLE IF EXISTS {_REFERENCE}")
    _execute(connection, re.sub(rf"\b{table}\b", _REFERENCE, statement, count=1))
    try:
        return _parts(connection, _REFERENCE, table)
    finally:
        _execute(connection, f"DROP TABLE IF EXISTS {_REFERENCE}")


def _parts(connection: Connection, table: str, called: str) -> dict[tuple[str, str], Part]:
    shown = str(connection.exec_driver_sql(f"SHOW CREATE TABLE {table}").one()[1])
    lines = [each.strip().removesuffix(",") for each in shown.splitlines()[1:-1]]
    parts = [_part(each.replace(table, called)) for each in lines]
    return {(each.what, each.name): each for each in parts}


def _part(line: str) -> Part:
    what, _, rest = line.partition("`")
    name = rest.partition("`")[0]
    return Part(what.strip() if name else line, name, line)


def _execute(connection: Connection, statement: str) -> None:
    connection.execute(text(statement.replace(":", r"\:")))
