"""The settings of the store's sessions, independent of the server's defaults, and their check.

They are set before SQLAlchemy examines the server, by two statements for each connection and none
for a job. docs/mysql.md has the reasons, and the settings that are left unchanged.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection

from mutirao.errors import ConfigurationError

UNLIMITED = 2**64 - 1
_UTF8 = "utf8"  # Python's name
STRICT = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO"

# Settings that decide which rows a statement may read and change, by names that both servers know.
ROWS: Mapping[str, int] = {
    "sql_select_limit": UNLIMITED,
    "sql_safe_updates": 0,
    "sql_big_selects": 1,
    "sql_auto_is_null": 0,
    "foreign_key_checks": 1,
    "unique_checks": 1,
}
_BOTH: Mapping[str, str | int] = {
    "sql_mode": STRICT,  # quotes, operators and types mean the usual; nothing is cut off
    "time_zone": "+00:00",
    "completion_type": 0,  # a COMMIT begins no transaction, and ends no session
    **ROWS,
    "sql_quote_show_create": 1,  # MariaDB keeps a view as it would show it, `group` in it
    "default_storage_engine": "InnoDB",
    "innodb_lock_wait_timeout": 50,
    "lock_wait_timeout": 86_400,
    "group_concat_max_len": 1 << 24,  # of json_arrayagg on MariaDB, too
    "max_sort_length": 1024,
    "div_precision_increment": 4,
}
_MARIADB: Mapping[str, str | int] = {
    "check_constraint_checks": 1,
    "default_regex_flags": 0,  # a CHECK has a pattern
    "max_statement_time": 0,  # calls have limits of their own
    # Its planner makes a subquery of a long list of ids, and reads the whole table for it.
    "in_predicate_conversion_threshold": 0,
}
_MYSQL: Mapping[str, str | int] = {"max_execution_time": 0}


def _set(values: Mapping[str, str | int]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in values.items())


# REPEATABLE READ would lock the gaps between rows. Each name of a character set that a driver gives
# may be left unheard by a server (`skip-character-set-client-handshake`), so it is set, too.
SETTING = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    f"SET SESSION {_set(_BOTH)}"
    f" /*M! , {_set(_MARIADB)} */ /*!80000 , {_set(_MYSQL)} */, NAMES utf8mb4",
)

# Settings that are checked: a proxy, or the application's engine, may have changed them, or the
# server could not apply them.
_LIMIT = "SELECT @@sql_select_limit LIMIT 1"
_BOUNDS = "SELECT @@sql_select_limit, @@sql_big_selects LIMIT 1"
_NO_BOUNDS = f"SET SESSION sql_select_limit = {UNLIMITED}, sql_big_selects = 1"
_ASKING = "SHOW SESSION VARIABLES WHERE Variable_name IN ({})"
# Some have one name on MySQL and another one on MariaDB; who has both, has them in both.
_LEVEL: Mapping[str, str | int] = {
    **dict.fromkeys(("tx_isolation", "transaction_isolation"), "READ-COMMITTED"),
    **dict.fromkeys(("tx_read_only", "transaction_read_only"), 0),
}
# What SET NAMES sets. The last one sets the second one, too, which sets it.
_TEXTS = (
    *("character_set_client", "character_set_connection", "character_set_results"),
    "collation_connection",
)
_SHOWN = {"completion_type": "NO_CHAIN", "default_regex_flags": ""}  # differs from the set value
_PROBE = "\u00e9\u6f22\U0001f642"  # characters of two, three and four bytes
_NO_SUCH_VARIABLE = 1193
INNODB = (
    "SELECT 1 FROM information_schema.engines"
    " WHERE engine = 'InnoDB' AND support IN ('YES', 'DEFAULT')"
)
_ECHO = "SELECT hex(CONVERT(%s USING utf8mb4)), %s LIMIT 1"


def deviations(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield the settings of this session that differ from the set ones: name and found value."""
    wanted = {**_LEVEL, **_BOTH, **_MARIADB, **_MYSQL, **_SHOWN}
    asking = _ASKING.format(", ".join("%s" for _ in wanted))
    if (limit := connection.exec_driver_sql(_LIMIT).scalar_one()) != UNLIMITED:
        yield "sql_select_limit", str(limit)
        return  # else some would be cut off
    for name, found in connection.exec_driver_sql(asking, (*wanted,)):
        if _normal(found) != _normal(wanted[name.lower()]):
            yield name, found
    arrived, came_back = connection.exec_driver_sql(_ECHO, (_PROBE, _PROBE)).one()
    if arrived.upper() != _PROBE.encode().hex().upper() or came_back != _PROBE:
        yield "a character set", f"in which {_PROBE} arrives as 0x{arrived}"


def _normal(value: str | int) -> object:
    """Return a value in one form, whether it was set or is shown by a server."""
    if value in ("ON", "OFF"):
        return float(value == "ON")
    try:
        return float(value)
    except ValueError:
        return {*str(value).split(",")}


def set_up(connection: Any) -> None:
    """Set a new session up; `connection` is one of any driver, in the mode that it is to have.

    MySQL greets with autocommit on, whatever its own default is. So a driver that was to open a
    session in autocommit mode believes it and sends nothing: nothing of ours would be committed.

    Raises:
        ConfigurationError: it was opened with another character set than utf8mb4, which the
            program that opened it has to set.
    """
    _apply(connection, ", autocommit = 1" if _of_driver(connection).get_autocommit() else "")


def _of_driver(connection: Any) -> Any:
    return getattr(connection, "driver_connection", connection)


def _apply(connection: Any, more: str = "") -> None:
    encoding = getattr(_of_driver(connection), "encoding", _UTF8)
    if encoding.replace("-", "").lower() != _UTF8:
        raise ConfigurationError(
            f"the application's engine opens connections whose texts are {encoding}, where ours"
            " have to be utf8mb4: other characters would be lost. Have its creator say"
            " charset='utf8mb4'"
        )
    with connection.cursor() as cursor:
        try:
            *first, last = SETTING
            for statement in (*first, last + more):
                cursor.execute(statement)
        except Exception as error:
            if error.args[:1] == (_NO_SUCH_VARIABLE,) and _lacks_innodb(cursor):
                raise ConfigurationError(
                    "the server lacks the storage engine InnoDB, in which our tables have to be;"
                    " use a server that has it, or switch it on there"
                ) from error
            raise


def lent(connection: Any) -> Callable[[], None]:
    """Set a caller's session up; return what puts back the settings that it had."""
    wanted = (*_LEVEL, *_BOTH, *_MARIADB, *_MYSQL, *_TEXTS)
    with connection.cursor() as cursor:
        cursor.execute(_BOUNDS)
        [(limit, large)] = cursor.fetchall()
        cursor.execute(_NO_BOUNDS)  # else the answer would be cut off, or refused
        cursor.execute(_ASKING.format(", ".join("%s" for _ in wanted)), wanted)
        shown = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
    had = {**shown, "sql_select_limit": str(limit), "sql_big_selects": str(large)}
    assigned = ", ".join(f"SESSION {n} = {_literal(n, had[n])}" for n in wanted if n in had)

    def put_back() -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET {assigned}")

    try:
        _apply(connection)
    except BaseException:
        put_back()
        raise
    return put_back


def _literal(name: str, value: str) -> str:
    """Return a value that the server has shown as it takes it."""
    if name in _TEXTS and not value:
        return "NULL"
    return value if value.replace(".", "", 1).isdigit() else f"'{value}'"


def _lacks_innodb(cursor: Any) -> bool:
    cursor.execute(INNODB)
    return not cursor.fetchall()
