"""Checks that a server and its sessions have what the tables need.

Many servers speak MySQL's protocol and call themselves MySQL, so each property is queried.
"""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from mutirao.errors import ConfigurationError
from mutirao.sql.dialects.mysql import session
from mutirao.sql.dialects.mysql.packets import MAX_PACKET, MIN_PACKET

OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0, 17)}


class Flaw(NamedTuple):
    """A problem of a server or its tables: the finding, and what to do."""

    about: str
    found: str
    remedy: str


# By their purpose: each fails, or finds nothing, if the feature is missing.
_PROBES = {
    "SKIP LOCKED": "SELECT 1 FROM (SELECT 1) one FOR UPDATE SKIP LOCKED",
    "JSON_TABLE": "SELECT id FROM json_table('[1]', '$[*]' COLUMNS (id int PATH '$')) given",
    "microseconds in UTC_TIMESTAMP": "SELECT 1 FROM (SELECT UTC_TIMESTAMP(6)) now",
    "the storage engine InnoDB": session.INNODB,
    "utf8mb4 compared byte for byte": (
        "SELECT 1 FROM information_schema.collations"
        " WHERE collation_name IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin')"
    ),
}
_OTHER_ENGINES = """
SELECT table_name, engine FROM information_schema.tables
WHERE table_schema = database() AND table_type = 'BASE TABLE' AND engine <> 'InnoDB'
  AND table_name LIKE 'mutirao\\_%%' ORDER BY table_name
"""
# Only some users may set these in their session.
_BINARY_LOG = "SHOW VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format')"
_NEWEST = "SELECT last_insert_id()"
_MADE = """
SELECT 1 FROM information_schema.tables
WHERE table_schema = database() AND table_name = 'mutirao_kept'
"""
_KEYLESS = "but one of our tables has no primary key"
_MAKING = (
    ("sql_require_primary_key", "off", _KEYLESS),
    ("innodb_force_primary_key", "off", _KEYLESS),
    ("enforce_storage_engine", "innodb", "but our tables have to be in InnoDB"),
)


def described(connection: Connection) -> str:
    """Return the product and the version that a server says it is."""
    product, _ = _product(connection)
    said = str(connection.exec_driver_sql("SELECT version()").scalar_one())
    return said if product in said else f"{product} {said}"


def faults(connection: Connection) -> Iterator[Flaw]:
    """Yield what keeps Mutirão from working there, the gravest first."""
    product, version = _product(connection)
    said = described(connection)
    oldest = OLDEST[product]
    if version[: len(oldest)] < oldest:
        needed = " or ".join(f"{name} {'.'.join(map(str, of))}" for name, of in OLDEST.items())
        yield Flaw("server", f"the server is {said}", f"use {needed}, or newer")
        return
    for what, probe in _PROBES.items():
        if not _succeeds(connection, probe):
            remedy = "use a server that has it, or switch it on there"
            yield Flaw("server", f"the server ({said}) lacks {what}", remedy)
    for table, engine in connection.exec_driver_sql(_OTHER_ENGINES).all():
        found = f"{table} is kept by {engine}, which has no transactions"
        yield Flaw("engine", found, f"say ALTER TABLE {table} ENGINE = InnoDB")

    most = int(connection.exec_driver_sql(MAX_PACKET).scalar_one())
    if most < MIN_PACKET:
        yield Flaw(
            "max_allowed_packet",
            f"the server has max_allowed_packet = {most:,}, and refuses larger statements, as some"
            f" of ours are, with error 1153: they need {MIN_PACKET:,} bytes",
            "set it to 16M there, which is the usual size",
        )
    yield from session_faults(connection)


def session_faults(connection: Connection) -> Iterator[Flaw]:
    """Yield the settings of this session that differ from the needed ones, and could not be set."""
    for name, found in session.deviations(connection):
        yield Flaw(
            "session",
            f"our session has {name} = {found}, though it was set to something else",
            "find out who sets it again: a pooler or proxy, perhaps",
        )
    if not _succeeds(connection, _NEWEST):
        yield Flaw(
            "session",
            "something between us and the server shares the sessions of a server among its"
            " connections, and refuses last_insert_id(), which says the number of a new row",
            "connect to a port of MySQL Router without connection_sharing, or to the server itself",
        )
    said = {name: str(found) for name, found in connection.exec_driver_sql(_BINARY_LOG)}
    if said == {"log_bin": "ON", "binlog_format": "STATEMENT"}:
        yield Flaw(
            "binlog_format",
            "the server writes its binary log by STATEMENT, and refuses whatever is written in"
            " READ COMMITTED, as we do (error 1665)",
            "set binlog_format = ROW there",
        )


def refuse(connection: Connection) -> None:
    """Raise ConfigurationError if a server, a table or a session cannot be used."""
    for fault in faults(connection):
        raise ConfigurationError(f"{fault.found}; {fault.remedy}.")


def allow_making(connection: Connection) -> None:
    """Make the server allow our tables to be created, unless they exist.

    Raises:
        ConfigurationError: it does not, and our user may not change that.
    """
    if connection.exec_driver_sql(_MADE).all():
        return
    for name, wanted, why in _MAKING:
        sql = f"SHOW SESSION VARIABLES WHERE Variable_name = '{name}'"
        for _, found in connection.exec_driver_sql(sql).all():
            if found.lower() not in ("", wanted) and not _is_set(connection, name, wanted):
                raise ConfigurationError(
                    f"the server has {name} = {found}, {why}, and our user may not set it in a"
                    f" session; have it set to {wanted} while `mutirao migrate` runs, or let a user"
                    " run that who may. Nothing was changed."
                )


def _is_set(connection: Connection, name: str, wanted: str) -> bool:
    try:
        connection.exec_driver_sql(f"SET SESSION {name} = {wanted}")
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return False
    return True


def _product(connection: Connection) -> tuple[str, tuple[int, ...]]:
    is_mariadb = getattr(connection.dialect, "is_mariadb", False)
    version = connection.dialect.server_version_info or ()
    return "MariaDB" if is_mariadb else "MySQL", tuple(n for n in version if isinstance(n, int))


def _succeeds(connection: Connection, probe: str) -> bool:
    try:
        return bool(connection.exec_driver_sql(probe).all())
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return False
