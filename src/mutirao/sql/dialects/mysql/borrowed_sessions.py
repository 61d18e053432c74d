"""Makes statements independent of the settings of a caller's session, which stays as it is.

Settings of the session that decide which rows are read and changed are overridden in the text of
each statement: MariaDB reads SET STATEMENT, MySQL a hint. So it costs no round trip. Texts are sent
as the hexadecimal digits of their UTF-8, both ways, so that neither the driver's encoding nor the
session's character sets matter. ASCII is sent unchanged.

`sql_mode` stays: drivers quote by the server's last value of it. The holder of a key is read from
locked rows, in their newest version. From 11.6.2 on MariaDB refuses rows that are newer than the
caller's snapshot (1020), unless a statement allows them, as ours do.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from mutirao.sql.dialects.mysql import packets
from mutirao.sql.dialects.mysql.session import ROWS
from mutirao.sql.drivers.failures import beneath
from mutirao.sql.drivers.mysql import said
from mutirao.sql.drivers.steps import Execute, Query, R, Request, Rows, answered

_OF_MARIADB = {**ROWS, "check_constraint_checks": 1, "default_regex_flags": 0}
_NEWER_TOO = "/*M!110602 , innodb_snapshot_isolation = 0 */"  # not each version before has it
_STATEMENT = (
    f"/*M! SET STATEMENT {', '.join(f'{n} = {v}' for n, v in _OF_MARIADB.items())} */"
    f" {_NEWER_TOO} /*M! FOR */ "
)
_HINT = f" /*+ {' '.join(f'SET_VAR({n} = {v})' for n, v in ROWS.items())} */"
_FIRST_WORD = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b")
_TEXTS = re.compile(r"\b(?:j\.)?(?:task|args)(?=, |\s+FROM\b)")  # that are read
_AS_BYTES = r"CAST(\g<0> AS binary)"
_NO_SAVEPOINT = 1305
_BACK, _RELEASE = "ROLLBACK TO SAVEPOINT ", "RELEASE SAVEPOINT "
_ALL_BACK = "The server has rolled back the whole transaction: begin it again."
# What a session may be that is refused so: the first by MySQL, the second by MariaDB.
_NOTES = {
    (3819,): "If the session's sql_mode has NO_BACKSLASH_ESCAPES: MySQL reads the patterns of our"
    " tables' checks by it, and refuses every job. Leave that mode out.",
    (4042,): "If the session's collation_connection is one of UTF-16 or UTF-32: MariaDB reads no"
    " path of JSON in these. Use SET NAMES utf8mb4.",
}
# By way of an ASCII set: in UTF-16 the digits are two bytes each, and of such UNHEX makes NULL.
_OF_DIGITS = "CONVERT(UNHEX(CONVERT(? USING ascii)) USING utf8mb4)"
_EMPTY = "left('-', 0)"  # an empty literal is NULL where MariaDB has EMPTY_STRING_IS_NULL
# `%` has no meaning where there is ORACLE; a literal in utf8mb3 has another collation than what
# functions of JSON return, where MariaDB has `character_set_collations`.
_OTHER_WORDS = (("''", _EMPTY), (" % ", " MOD "), ("'NULL'", "x'4E554C4C'"))


def abroad(steps: Query[R]) -> Query[R]:
    """Return steps that do the same in whatever session a caller has."""
    return answered(steps, _Session().say)


class _Session:
    """A caller's session, in one call.

    `failed`: the last error. `ended`: whether it has ended the whole transaction, as a deadlock
    does and a snapshot that is too old. Then nothing is left to be undone.
    """

    failed: Exception | None = None
    ended = False

    def say(self, request: Request) -> Query[Rows]:
        """Send a request as SQL that does not depend on the session."""
        if not isinstance(request, Execute):
            return (yield request)
        if self.ended and request.sql.startswith((_BACK, _RELEASE)):
            return []
        try:
            return (yield from _say(request))
        except Exception as error:
            number = beneath(error).args[:1]
            if self.failed and number == (_NO_SAVEPOINT,) and request.sql.startswith(_BACK):
                self.ended = True
                self.failed.add_note(_ALL_BACK)
                return []
            if number in _NOTES:
                error.add_note(_NOTES[number])
            self.failed = error
            raise


def _say(request: Execute) -> Query[Rows]:
    rows: Rows = []
    for each in _plain(request):
        rows = yield each._replace(sql=_with_values(each.sql))
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
    for n in range(0, len(request.params), packets.MAX_ROWS) if request.many else (0,):
        some = request.params[n : n + packets.MAX_ROWS] if request.many else request.params
        for each in said(request._replace(params=some)):
            yield each if all(map(_is_plain, each.params)) else _with_plain_values(each)


def _with_plain_values(request: Execute) -> Execute:
    first, *rest = request.sql.split("?")
    sql, values = [first], list[Any]()
    for value, part in zip(request.params, rest, strict=True):
        if _is_plain(value):
            sql.append(f"?{part}")
            values.append(value)
        elif value == "":
            sql.append(f"{_EMPTY}{part}")
        else:
            sql.append(f"{_OF_DIGITS}{part}")
            values.append(value.encode().hex())
    return request._replace(sql="".join(sql), params=tuple(values))


def _is_plain(value: object) -> bool:
    return not isinstance(value, str) or (value.isascii() and value != "")
