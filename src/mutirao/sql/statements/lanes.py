"""The finding of `doctor` about many lanes: each worker reads the first job of each repeatedly."""

from collections.abc import Iterator

from sqlalchemy import Connection

from mutirao.model.findings import Finding, Level
from mutirao.sql.drivers import kinds
from mutirao.sql.registry import dialect_of

MANY_LANES = 10_000


def findings(conn: Connection) -> Iterator[Finding]:
    """Count the lanes that have waiting jobs; no finding where they are few."""
    found = len(kinds.through(conn, dialect_of(conn.dialect).rules.lanes(None, None)))
    if found > MANY_LANES:
        yield Finding(
            Level.WARNING,
            "lanes",
            f"jobs wait in {found:,} lanes (queue and priority): each worker reads the first job of"
            " each at every poll, and a claim that takes too long may have that reason",
            "give jobs fewer queues and priorities: fair_by lets users or tenants take turns within"
            " one queue",
        )
