"""The common part of the adapters for PyMySQL and mysqlclient, which interpolate values."""

import re
from itertools import chain
from typing import Any, Protocol

from mutirao.sql.drivers.kinds import with_percents
from mutirao.sql.drivers.steps import Autocommits, Execute, Request, Row, Rows

_VALUES = re.compile(r"(\s*INSERT\b.*?\bVALUES )(\([?, ]+\))(.*)", re.DOTALL)
MULTI_STATEMENTS = 1 << 16  # the bit of `client_flag` that lets a connection take several at once


class MysqlDriver:
    """The adapter of a connection; `cursors`: the plain ones, whichever the connection makes."""

    database = "MySQL or MariaDB"
    cursors: Any

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def native(self, sql: str) -> str:
        return with_percents(sql)

    def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            return [(self.commits_each(),)]
        if not isinstance(request, Execute):
            raise TypeError(f"no statement for MySQL: {request!r}")
        with self._conn.cursor(self.cursors) as cursor:
            if request.many:
                cursor.executemany(self.native(request.sql), request.params)
            else:
                cursor.execute(self.native(request.sql), request.params)
            return list(cursor.fetchall()) if request.answers else []

    def commits_each(self) -> bool:
        """Return whether the connection commits each statement, and is in no transaction."""
        raise NotImplementedError


class OwnMysqlDriver(MysqlDriver):
    """The adapter of a connection of ours that commits each statement by itself.

    Unless it was opened in another way, several statements can be sent to it at once.
    """

    def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits) and self._conn.client_flag & MULTI_STATEMENTS:
            return [(True, True)]
        if not isinstance(request, Execute) or (request.many and not request.then):
            return super().handle(request)
        return send_joined(self, request)

    def say(self, sql: str, params: Row) -> list[Rows]:
        """Send a text of one statement or several; return the rows of each, or an empty list."""
        with self._conn.cursor(self.cursors) as cursor:
            cursor.execute(sql, params)
            found = [list(cursor.fetchall())]
            while cursor.nextset():
                found.append(list(cursor.fetchall()))
            return found


class Saying(Protocol):
    """A driver that sends several statements in one text."""

    def native(self, sql: str) -> str:
        """Return a statement with the placeholders of the driver."""
        ...

    def say(self, sql: str, params: Row) -> list[Rows]:
        """Send a text; return the rows of each statement."""
        ...


def send_joined(driver: Saying, first: Execute) -> Rows:
    """Send a statement and those that travel with it; return the rows of the last that has any.

    The server stops at the first that fails, whose error is raised.
    """
    statements = [each for request in (first, *first.then) for each in said(request)]
    text = ";".join([driver.native(each.sql) for each in statements])
    params = (*chain.from_iterable([each.params for each in statements]),)
    rows: Rows = []
    for each, found in zip(statements, driver.say(text, params), strict=True):
        if each.into is not None:
            each.into.found = found
        if each.answers:
            rows = found
    return rows


def said(request: Execute) -> list[Execute]:
    """Return a statement for many rows as one with all of them, or as one for each."""
    if not request.many:
        return [request]
    found = _VALUES.fullmatch(request.sql)
    if found is None:
        return [request._replace(params=row, many=False) for row in request.params]
    before, marks, after = found.groups()
    sql = f"{before}{', '.join([marks] * len(request.params))}{after}"
    return [Execute(sql, (*chain.from_iterable(request.params),), answers=False)]
