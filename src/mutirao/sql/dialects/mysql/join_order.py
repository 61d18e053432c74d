"""A join with a fixed order and a fixed index, which no planner changes.

Both are needed where a statement changes rows: all rows that it reads on the way are locked, too.
"""

from typing import Any

from sqlalchemy import Select, Table, Update, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.selectable import Join

_ALL = (1 << 63) - 1  # a LIMIT, by which a subquery is read first: MySQL would merge it otherwise


class _StraightJoin(Join):
    """From each row of the first to the one of that key in the second."""

    inherit_cache = True


@compiles(_StraightJoin)
def _written(join: _StraightJoin, compiler: SQLCompiler, **kw: Any) -> str:
    kw["asfrom"] = True
    first, second = (compiler.process(each, **kw) for each in (join.left, join.right))
    kw["asfrom"] = False
    on = compiler.process(join.onclause, **kw) if join.onclause is not None else "true"
    return f"{first} STRAIGHT_JOIN {second} FORCE INDEX (PRIMARY) ON {on}"


def update_those(table: Table, keys: Select[Any]) -> Update:
    """Return an UPDATE of the rows whose primary keys a query selects, and locks before it.

    A query of the same table, too, which MySQL takes in no other place.
    """
    [key] = table.primary_key.columns
    [found] = (those := keys.limit(_ALL).subquery("those")).columns
    return update(_StraightJoin(those, table, found == key))
