"""Defaults of a MySQL or MariaDB server, set for new sessions and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pymysql

from tests.support.mariadb import MysqlServer

_NO_SUCH_VALUE = 1231

MODES = (
    "ANSI_QUOTES,PIPES_AS_CONCAT,IGNORE_SPACE,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION"
    ",HIGH_NOT_PRECEDENCE,REAL_AS_FLOAT,NO_ZERO_DATE"
)


@contextmanager
def defaults(mysql: MysqlServer, **values: str | float) -> Iterator[None]:
    """Have new sessions of a server begin with these values in the block.

    Variables and modes that the server does not know are left out: MariaDB's on MySQL, and MySQL's
    on MariaDB.
    """
    with mysql.connect() as connection, connection.cursor() as cursor:
        found: dict[str, str] = {}
        for name in values:
            cursor.execute("SHOW GLOBAL VARIABLES WHERE Variable_name = %s", (name,))
            found |= dict(cursor.fetchall())
        try:
            for name in found:
                try:
                    cursor.execute(f"SET GLOBAL {name} = %s", (values[name],))
                except pymysql.OperationalError as error:
                    if error.args[0] != _NO_SUCH_VALUE:
                        raise
            yield
        finally:
            _put_back(cursor.execute, found)


def _put_back(say: Callable[..., object], found: Mapping[str, str]) -> None:
    for name, seen in found.items():
        is_number = seen.replace(".", "", 1).isdigit()
        value = seen if not is_number else float(seen) if "." in seen else int(seen)
        none = seen == "" and name == "enforce_storage_engine"
        say(f"SET GLOBAL {name} = %s", (None if none else value,))
