"""What a database can tell about its own effort, for benchmarks; where it cannot, None."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table


@dataclass(frozen=True, slots=True)
class Gauges:
    """Counters that only grow: what was spent is the difference of two readings.

    Parameters:
        cpu: seconds of processor time of the whole server; None if it runs on another machine.
        wal_bytes: bytes of write-ahead log of the whole server.
        commits: transactions of the whole server that wrote something.
        dead_tuples: row versions of this database that updates and deletes left behind, whether
            they have been cleaned up since or not.
    """

    cpu: float | None = None
    wal_bytes: int | None = None
    commits: int | None = None
    dead_tuples: int | None = None


class Instruments(ABC):
    """What benchmarks ask of a database, where the databases differ."""

    @abstractmethod
    def read(self, connection: Connection) -> Gauges:
        """Return the counters as they stand."""

    @abstractmethod
    def others(self, connection: Connection) -> frozenset[int]:
        """Return who else is connected: what they did may not be counted until they have left."""

    @abstractmethod
    def version(self, connection: Connection) -> str:
        """Return the version of the database itself."""

    @abstractmethod
    def settings(self, connection: Connection) -> dict[str, Any]:
        """Return the settings that decide about speed and durability, by the database's names."""

    @abstractmethod
    def hold_snapshot(self, connection: Connection) -> None:
        """Take what keeps old versions of rows from being cleaned up while this connection lives.

        The connection was not used yet, and has the execution option `ALONE`.
        """

    @abstractmethod
    def empty(self, connection: Connection, tables: Collection[Table]) -> None:
        """Delete all rows of tables, at once, leaving nothing to clean up."""
