"""Connecting to MariaDB: the driver blocks, so threads run it for workers."""

from typing import Any

from sqlalchemy import Engine, event

from mutirao.sql.dialects.connecting import Connecting, Drivers

_DRIVERS = Drivers(
    *("mysql+pymysql", None, "mysql"),
    together={"isolation_level": "READ COMMITTED"},
    usual={"charset": "utf8mb4"},
    arguments={"connect_timeout": 10},
)
# What a session has to have, whatever the server gives it. REPEATABLE READ would lock the gaps
# between rows; without a strict mode a text that is too long would be cut off. The planner makes a
# subquery of a long list of ids, and reads the whole table for it.
_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO',"
    " time_zone = '+00:00', in_predicate_conversion_threshold = 0",
)


def _prepare(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, record: object) -> None:
        with connection.cursor() as cursor:
            for statement in _SESSION:
                cursor.execute(statement)


def _refuse_schema(schema: str) -> str:
    return (
        f"schema={schema!r} was given for a database that has no schemas of its own; leave schema="
        " out, and give each set of jobs a database"
    )


CONNECTING = Connecting(
    schemes={"mysql+pymysql": _DRIVERS, "mariadb+pymysql": _DRIVERS},
    prepare=_prepare,
    refuse_schema=_refuse_schema,
)
