"""Statements of ours in a caller's session, which stays as it is: they do not depend on it.

What the session says of rows that may be read and changed is said otherwise for each statement, in
its own text: MariaDB reads SET STATEMENT, MySQL a hint. So it costs no round trip. Texts travel as
the digits of their UTF-8, both ways: then neither the driver's encoding nor the session's character
sets have any part in them. What is ASCII travels as it is.

`sql_mode` stays: drivers quote by what the server last said of it.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from mutirao.sql.dialects.mysql import packets
from mutirao.sql.dialects.mysql.session import ROWS
from mutirao.sql.drivers.failures import beneath
from mutirao.sql.drivers.mysql import said
from mutirao.sql.drivers.steps import Asking, Execute, R, Request, Row, Rows, answered

_OF_MARIADB = {**ROWS, "check_constraint_checks": 1, "default_regex_flags": 0}
_STATEMENT = f"/*M! SET STATEMENT {', '.join(f'{n} = {v}' for n, v in _OF_MARIADB.items())} FOR */ "
_HINT = f" /*+ {' '.join(f'SET_VAR({n} = {v})' for n, v in ROWS.items())} */"
_FIRST_WORD = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b")
_TEXTS = re.compile(r"\b(?:j\.)?(?:task|args)(?=, |\s+FROM\b)")  # that are read
_AS_BYTES = r"CAST(\g<0> AS binary)"
_CHECK_FAILED = 3819  # of MySQL
_NO_BACKSLASHES = (
    "If the session's sql_mode has NO_BACKSLASH_ESCAPES: MySQL reads the patterns of our tables'"
    " checks by it, and refuses every job. Leave that mode out."
)
_OF_DIGITS = "CONVERT(UNHEX(?) USING utf8mb4)"
_EMPTY = "left('-', 0)"  # an empty literal is NULL where MariaDB has EMPTY_STRING_IS_NULL
_OTHER_WORDS = (("''", _EMPTY), (" % ", " MOD "))  # where there is ORACLE


def abroad(steps: Asking[R]) -> Asking[R]:
    """Return steps that do the same in whatever session a caller has."""
    return answered(steps, _say)


def _say(request: Request) -> Asking[Rows]:
    if not isinstance(request, Execute):
        return (yield request)
    rows: Rows = []
    for each in _plain(request):
        try:
            rows = yield each if each.many else each._replace(sql=_with_values(each.sql))
        except Exception as error:
            if beneath(error).args[:1] == (_CHECK_FAILED,):
                error.add_note(_NO_BACKSLASHES)
            raise
    if request.sql == packets.MAX_PACKET:
        return [(*row, True) for row in rows]
    return [tuple(map(_text, row)) for row in rows]


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


@lru_cache(maxsize=256)
def _with_values(sql: str) -> str:
    """Return a statement that says what of the session may not hold for it."""
    found = _FIRST_WORD.match(sql)
    if found is None:
        return sql
    rest = sql[found.end() :]
    if found[1] == "SELECT":
        rest = _TEXTS.sub(_AS_BYTES, rest)
    for ours, theirs in _OTHER_WORDS:
        rest = rest.replace(ours, theirs)
    return f"{_STATEMENT}{found[1]}{_HINT}{rest}"


def _plain(request: Execute) -> Iterator[Execute]:
    """Yield statements that do the same, with no values but ASCII, of which none is empty."""
    rows: Sequence[Row] = request.params if request.many else (request.params,)
    if all(_is_plain(value) for row in rows for value in row):
        yield request
        return
    for n in range(0, len(rows), packets.MAX_ROWS):
        some = request._replace(params=tuple(rows[n : n + packets.MAX_ROWS]))
        yield from map(_with_plain_values, said(some) if request.many else [request])


def _with_plain_values(request: Execute) -> Execute:
    first, *rest = request.sql.split("?")
    sql, told = [first], list[Any]()
    for value, part in zip(request.params, rest, strict=True):
        if _is_plain(value):
            sql.append(f"?{part}")
            told.append(value)
        elif value == "":
            sql.append(f"{_EMPTY}{part}")
        else:
            sql.append(f"{_OF_DIGITS}{part}")
            told.append(value.encode().hex())
    return request._replace(sql="".join(sql), params=tuple(told))


def _is_plain(value: object) -> bool:
    return not isinstance(value, str) or (value.isascii() and value != "")
