"""What a server has to have. It is asked, as many speak MySQL's protocol and say they are MySQL."""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0, 17)}


class Flaw(NamedTuple):
    """What is wrong with a server or its tables: what was found, and what to do."""

    about: str
    found: str
    remedy: str


# By what they are for: each fails, or finds nothing, where it is missing.
_PROBES = {
    "SKIP LOCKED": "SELECT 1 FROM (SELECT 1) one FOR UPDATE SKIP LOCKED",
    "JSON_TABLE": "SELECT id FROM json_table('[1]', '$[*]' COLUMNS (id int PATH '$')) given",
    "microseconds in UTC_TIMESTAMP": "SELECT 1 FROM (SELECT UTC_TIMESTAMP(6)) now",
    "the storage engine InnoDB": (
        "SELECT 1 FROM information_schema.engines"
        " WHERE engine = 'InnoDB' AND support IN ('YES', 'DEFAULT')"
    ),
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
