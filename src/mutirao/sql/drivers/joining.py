"""Several statements as one text, for drivers that write values into the text themselves."""

from collections.abc import Callable
from itertools import chain
from typing import Any

from mutirao.sql.drivers.steps import Execute, Rows

MULTI_STATEMENTS = 1 << 16  # the bit of `client_flag` that lets a connection take such texts


def say_joined(cursor: Any, native: Callable[[str], str], first: Execute) -> Rows:
    """Say a statement and those that travel with it; return the rows of the last that answers.

    The server ends with the first that fails, whose error is raised.
    """
    statements = (first, *first.then)
    text = ";".join(native(each.sql) for each in statements)
    cursor.execute(text, (*chain.from_iterable(each.params for each in statements),))
    rows = cursor.fetchall()
    while cursor.nextset():
        rows = cursor.fetchall() or rows
    return list(rows)
