"""SQLite's counters: there are none, and its effort is the client's own."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Table, text

from benchmarks.gauges.base import Gauges, Instruments

_SYNCHRONOUS = {0: "off", 1: "normal", 2: "full", 3: "extra"}


class SqliteInstruments(Instruments):
    """SQLite, which counts nothing: its log is reused, and it has no server."""

    def read(self, connection: Connection) -> Gauges:
        """Return nothing."""
        return Gauges()

    def others(self, connection: Connection) -> frozenset[int]:
        """Return nobody: nothing has to be waited for."""
        return frozenset()

    def version(self, connection: Connection) -> str:
        """Return the version of the library."""
        found: str = connection.execute(text("SELECT sqlite_version()")).scalar_one()
        return f"SQLite {found}"

    def settings(self, connection: Connection) -> dict[str, Any]:
        """Return how it keeps its log, and when it waits for the disk."""
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "page_size", "wal_autocheckpoint")
        }
        return found | {"synchronous": _SYNCHRONOUS[found["synchronous"]]}

    def hold_snapshot(self, connection: Connection) -> None:
        """Read something: as long as the reader lives, the log cannot begin anew."""
        connection.exec_driver_sql("BEGIN")  # ours would take the write lock
        connection.execute(text("SELECT count(*) FROM sqlite_schema"))

    def empty(self, connection: Connection, tables: Collection[Table]) -> None:
        """Delete all rows, which SQLite does page by page."""
        for table in tables:
            connection.execute(table.delete())


INSTRUMENTS = SqliteInstruments()
