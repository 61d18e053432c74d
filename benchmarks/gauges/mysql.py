"""MariaDB's and MySQL's counters: the redo log from its status, CPU from Linux's `/proc`."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, text

from benchmarks.gauges.base import Gauges, Instruments
from benchmarks.gauges.processes import process_cpu

_WRITTEN = "SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_os_log_written'"
_OTHERS = text("""
    SELECT id FROM information_schema.processlist
    WHERE db = database() AND id <> connection_id()
""")
_SETTINGS = (
    "innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite",
    "innodb_buffer_pool_size", "innodb_log_file_size", "innodb_flush_method",
)  # fmt: skip


class MysqlInstruments(Instruments):
    """MariaDB 10.6 and later, MySQL 8.0.17 and later."""

    def read(self, connection: Connection) -> Gauges:
        """Ask the status, and the system about the server's process if it is on this machine."""
        [(_, written)] = connection.exec_driver_sql(_WRITTEN).all()
        return Gauges(_server_cpu(connection), int(written))

    def others(self, connection: Connection) -> frozenset[int]:
        """Return the ids of the other sessions of this database."""
        return frozenset(connection.execute(_OTHERS).scalars())

    def version(self, connection: Connection) -> str:
        """Return what the server calls itself."""
        found: str = connection.execute(text("SELECT version()")).scalar_one()
        return found if "MariaDB" in found else f"MySQL {found}"

    def settings(self, connection: Connection) -> dict[str, Any]:
        """Return what differs between a safe server and a fast one."""
        names = ", ".join(f"'{name}'" for name in _SETTINGS)
        rows = connection.exec_driver_sql(f"SHOW VARIABLES WHERE Variable_name IN ({names})")
        return {name: setting for name, setting in rows}  # noqa: C416 (rows are no pairs)

    def hold_snapshot(self, connection: Connection) -> None:
        """Hold a snapshot: until its end nothing is purged that was deleted after it."""
        connection.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT")

    def empty(self, connection: Connection, tables: Collection[Table]) -> None:
        """Truncate: deleting would leave the rows to purging, in the middle of what is measured."""
        for table in tables:
            quoted = connection.dialect.identifier_preparer.format_table(table)
            connection.exec_driver_sql(f"TRUNCATE {quoted}")


def _server_cpu(connection: Connection) -> float | None:
    """Return the seconds of the server's process; None where it is no process of this machine."""
    file = Path(connection.exec_driver_sql("SELECT @@pid_file").scalar_one())
    try:
        return process_cpu(int(file.read_text()), ("mariadbd", "mysqld"))
    except OSError:
        return None


INSTRUMENTS = MysqlInstruments()
