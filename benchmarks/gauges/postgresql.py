"""PostgreSQL's counters: the log, transactions and rows from its catalogue, CPU from `/proc`."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Table, text

from benchmarks.gauges.base import Gauges, Instruments
from benchmarks.gauges.processes import server_cpu

# Transaction ids and not pg_stat_database: they are given out at once and only to transactions
# that write, while statistics wait until a session is idle for long or ends.
_READ = text("""
    SELECT
        pg_backend_pid() AS pid,
        inet_client_port() AS port,
        (pg_current_wal_insert_lsn() - '0/0')::bigint AS wal_bytes,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS commits,
        (SELECT coalesce(sum(n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables)::bigint AS dead
""")
_OTHERS = text("""
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
        AND pid <> pg_backend_pid()
""")
_SETTINGS = (
    "synchronous_commit", "fsync", "full_page_writes", "wal_level", "wal_compression",
    "shared_buffers", "max_wal_size", "autovacuum",
)  # fmt: skip
_SHOW = text("""
    SELECT name, current_setting(name) AS setting
    FROM pg_catalog.unnest(cast(:names AS text[])) AS name
""")


class PostgresqlInstruments(Instruments):
    """PostgreSQL 14 and later."""

    def read(self, connection: Connection) -> Gauges:
        """Ask the catalogue, and the system about the server's processes if it is this one."""
        row = connection.execute(_READ).one()
        return Gauges(server_cpu(row.pid, row.port), row.wal_bytes, row.commits, row.dead)

    def others(self, connection: Connection) -> frozenset[int]:
        """Return the process ids of the other sessions of this database."""
        return frozenset(connection.execute(_OTHERS).scalars())

    def version(self, connection: Connection) -> str:
        """Return what the server calls itself."""
        found: str = connection.execute(text("SHOW server_version")).scalar_one()
        return f"PostgreSQL {found}"

    def settings(self, connection: Connection) -> dict[str, Any]:
        """Return what differs between a safe server and a fast one."""
        rows = connection.execute(_SHOW, {"names": list(_SETTINGS)})
        return {row.name: row.setting for row in rows}

    def hold_snapshot(self, connection: Connection) -> None:
        """Hold a snapshot and a transaction id, as a long report that writes would."""
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        connection.execute(text("SELECT txid_current()"))

    def empty(self, connection: Connection, tables: Collection[Table]) -> None:
        """Truncate: deleting would leave the rows to vacuum, in the middle of what is measured."""
        quoted = map(connection.dialect.identifier_preparer.format_table, tables)
        connection.exec_driver_sql(f"TRUNCATE {', '.join(quoted)}")


INSTRUMENTS = PostgresqlInstruments()
