"""What `doctor` examines on MySQL and MariaDB: the server, an index, retried transactions."""

from collections.abc import Iterator

from sqlalchemy import Connection

from mutirao.model.findings import Finding, Level
from mutirao.sql.dialects.mysql import server

_CLAIM_INDEX = "SHOW INDEX FROM mutirao_live WHERE Key_name = 'mutirao_live_waiting'"
_RETRIES = "SELECT retries FROM mutirao_lock WHERE name = 'retries'"
_MODE = "SELECT @@GLOBAL.sql_mode"


def health_checks(connection: Connection) -> Iterator[Finding]:
    """Examine the server, the index that claims name, and what was tried again."""
    yield from _server(connection)
    yield from _mode(connection)
    if connection.exec_driver_sql(_CLAIM_INDEX).all():
        yield Finding(Level.OK, "claims", "read by the index mutirao_live_waiting")
    else:
        yield Finding(
            Level.PROBLEM,
            "claims",
            "the index mutirao_live_waiting is missing",
            "add it as `mutirao schema --dialect mysql` has it",
        )
    retries = connection.exec_driver_sql(_RETRIES).scalar_one()
    yield Finding(
        Level.OK, "retries", f"{retries} transactions were tried again, given up for others"
    )


def _server(connection: Connection) -> Iterator[Finding]:
    found = [Finding(Level.PROBLEM, *fault) for fault in server.faults(connection)]
    yield from found
    if not found:
        has = "has what is needed, and all tables are in InnoDB"
        yield Finding(Level.OK, "server", f"{server.described(connection)} {has}")


def _mode(connection: Connection) -> Iterator[Finding]:
    mode = str(connection.exec_driver_sql(_MODE).scalar_one())
    if "STRICT_" not in mode and "TRADITIONAL" not in mode:
        yield Finding(
            Level.WARNING,
            "sql_mode",
            f"sessions are not strict unless they ask for it (sql_mode = {mode!r}): of what other"
            " programs insert, texts that are too long are cut off. Our own sessions are strict",
            "add STRICT_TRANS_TABLES to the server's sql_mode",
        )
