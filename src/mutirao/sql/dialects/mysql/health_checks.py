"""The checks of `doctor` on MySQL and MariaDB: server, indexes, purging, retried transactions."""

from collections.abc import Iterator

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from mutirao.model.findings import Finding, Level
from mutirao.sql.dialects.mysql import server
from mutirao.sql.drivers.failures import DENIED, judge

INDEXES = (
    "mutirao_job_unplaced",
    "mutirao_job_redrive_of",
    "mutirao_live_waiting",
    "mutirao_live_running",
    "mutirao_live_blocked",
    "mutirao_live_fairness",
    "mutirao_attempt_outcome",
)
UNPURGED = 1_000_000  # transactions whose old rows are kept: of a worker, about so many jobs

_FOUND = "SELECT index_name FROM information_schema.statistics WHERE table_schema = database()"
_HISTORY = "SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_history_list_length'"
_METRIC = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'"
_OLDEST = (
    "end the transaction that has been open for longest, which keeps them: SELECT"
    " trx_mysql_thread_id, trx_started FROM information_schema.innodb_trx ORDER BY trx_started"
)
_RETRIES = "SELECT retries FROM mutirao_lock WHERE name = 'retries'"
_MODE = "SELECT @@GLOBAL.sql_mode"


def health_checks(connection: Connection) -> Iterator[Finding]:
    """Examine the server, indexes, unpurged rows, and retried transactions."""
    yield from _server(connection)
    yield from lax_sessions(connection)
    yield from _indexes(connection)
    yield from _history(connection)
    retries = connection.exec_driver_sql(_RETRIES).scalar_one()
    yield Finding(
        Level.OK, "retries", f"{retries} transactions were tried again, given up for others"
    )


def unfit(connection: Connection) -> Iterator[Finding]:
    """Find what keeps us from working on this server."""
    for fault in server.faults(connection):
        yield Finding(Level.PROBLEM, *fault)


def _server(connection: Connection) -> Iterator[Finding]:
    found = [*unfit(connection)]
    yield from found
    if not found:
        has = "has what is needed, and all tables are in InnoDB"
        yield Finding(Level.OK, "server", f"{server.described(connection)} {has}")


def lax_sessions(connection: Connection) -> Iterator[Finding]:
    """Find out whether inserts of other programs are cut off."""
    mode = str(connection.exec_driver_sql(_MODE).scalar_one())
    if "STRICT_" not in mode and "TRADITIONAL" not in mode:
        yield Finding(
            Level.WARNING,
            "sql_mode",
            f"sessions are not strict unless they ask for it (sql_mode = {mode!r}): of what other"
            " programs insert, texts that are too long are cut off. Our own sessions are strict",
            "add STRICT_TRANS_TABLES to the server's sql_mode",
        )


def _indexes(connection: Connection) -> Iterator[Finding]:
    missing = sorted({*INDEXES} - {*connection.exec_driver_sql(_FOUND).scalars()})
    for name in missing:
        yield Finding(
            Level.PROBLEM,
            "indexes",
            f"the index {name} is missing",
            "add it as the table has it in `mutirao schema --dialect mysql`",
        )
    if not missing:
        yield Finding(Level.OK, "indexes", f"all {len(INDEXES)} are there")


def _history(connection: Connection) -> Iterator[Finding]:
    """Look at the old rows that InnoDB has not purged."""
    length = _history_length(connection)
    if length is None:
        hidden = (
            "MySQL shows only users with the privilege PROCESS how many old rows are not purged"
        )
        yield Finding(Level.OK, "bloat", hidden)
        return
    found = f"the old rows of {length} transactions are not purged"
    if length <= UNPURGED:
        yield Finding(Level.OK, "bloat", found)
    else:
        yield Finding(Level.WARNING, "bloat", found, _OLDEST)


def _history_length(connection: Connection) -> int | None:
    """Return it from MariaDB's status, or else from MySQL's metrics; None: it is kept from us."""
    for _, length in connection.exec_driver_sql(_HISTORY):
        return int(length)
    try:
        return int(connection.exec_driver_sql(_METRIC).scalar_one())
    except DBAPIError as error:
        if judge(error) is not DENIED:
            raise
        return None
