"""The checks of `doctor` on SQLite: indexes, plans, and the file."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from mutirao.model.findings import Finding, Level

INDEXES = {
    "mutirao_job_redrive_of",
    "mutirao_job_publication",
    "mutirao_live_waiting",
    "mutirao_live_running",
    "mutirao_attempt_outcome",
    "mutirao_attempt_failed",
}
FREE_PAGES, FREE_SHARE = 10_000, 0.5  # pages, and the share of the file, that hold nothing

_CLAIM_PLAN = """
EXPLAIN QUERY PLAN SELECT id FROM mutirao_live
WHERE worker IS NULL AND queue = 'default' AND priority = 0 AND run_at <= 0
ORDER BY run_at, id LIMIT 100
"""


def health_checks(connection: Connection) -> Iterator[Finding]:
    """Examine indexes, the plan of a claim, the journal and the free space."""
    yield from _indexes(connection)
    yield from _plan(connection)
    yield from _journal(connection)
    yield from _bloat(connection)


def _indexes(connection: Connection) -> Iterator[Finding]:
    found = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'index'")
    missing = sorted(INDEXES - set(found.scalars()))
    for name in missing:
        yield Finding(
            Level.PROBLEM,
            "indexes",
            f"the index {name} is missing",
            "run the statement that makes it in `mutirao schema --dialect sqlite`",
        )
    if not missing:
        yield Finding(Level.OK, "indexes", f"all {len(INDEXES)} are there")


def _plan(connection: Connection) -> Iterator[Finding]:
    plan = "; ".join(row[3] for row in connection.exec_driver_sql(_CLAIM_PLAN))
    if "USING INDEX mutirao_live_waiting" in plan or "COVERING INDEX mutirao_live_waiting" in plan:
        yield Finding(Level.OK, "claims", "read by the index mutirao_live_waiting")
    else:
        found = f"the planner does not use mutirao_live_waiting: {plan}"
        yield Finding(Level.PROBLEM, "claims", found, "run ANALYZE mutirao_live")


def _journal(connection: Connection) -> Iterator[Finding]:
    mode = _pragma(connection, "journal_mode")
    if mode == "wal":
        yield Finding(
            Level.OK, "journal", "in WAL mode: readers and a writer do not wait for each other"
        )
    else:
        found = f"the file is in {mode} mode: readers and writers wait for each other"
        yield Finding(Level.WARNING, "journal", found, "run `mutirao migrate`, which sets WAL mode")


def _bloat(connection: Connection) -> Iterator[Finding]:
    free, pages = _pragma(connection, "freelist_count"), _pragma(connection, "page_count")
    found = f"{free} of {pages} pages of the file are free"
    if free > FREE_PAGES and free > FREE_SHARE * pages:
        yield Finding(Level.WARNING, "bloat", found, "VACUUM gives them back, while no worker runs")
    else:
        yield Finding(Level.OK, "bloat", found)


def _pragma(connection: Connection, name: str) -> Any:
    return connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
