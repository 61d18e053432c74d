"""A large history and many live jobs, written by the database itself: millions within minutes.

Jobs enqueued and run one by one would take hours. What is written is what workers leave behind:
one job in a hundred has died, by five kinds of errors, one in fifty was tried twice; of the live
ones a quarter is due later, and the first of 500 run, at four workers.
"""

# ruff: noqa: S608 (what is put into statements stands in this file)

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection, inspect

from benchmarks.load import PREFIX
from mutirao.sql.schema import tables
from mutirao.sql.store.jobs import SqlStore

TASKS, WORKERS = 20, 4
APART = 0.25  # seconds between the ends of two jobs
AHEAD = 864_000  # seconds until the scheduled jobs are due, and workers expire
_NUMBERS = f"{PREFIX.replace('.', '_')}numbers"


class _Words(NamedTuple):
    """How a database says a moment, and a name that is a word of its language."""

    ago: str
    key: str


_MICROSECONDS = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED) - CAST(({}) * 1000000 AS SIGNED)"
_WORDS = {
    "postgresql": _Words("now() - ({}) * interval '1 second'", '"key"'),
    "mysql": _Words(_MICROSECONDS, "`key`"),
    "mariadb": _Words(_MICROSECONDS, "`key`"),
    "sqlite": _Words(
        "CAST((julianday('now') - 2440587.5) * 86400000000 - ({}) * 1000000 AS integer)", '"key"'
    ),
}


def fill(conn: Connection, finished: int, live: int) -> None:
    """Write so many finished and live jobs; the newest ids are the live ones."""
    _count_up(conn, finished + live)
    for statement in _statements(conn.dialect.name, finished, live):
        formats = conn.dialect.paramstyle in ("format", "pyformat")
        conn.exec_driver_sql(statement.replace("%", "%%") if formats else statement)
    conn.exec_driver_sql(f"DROP TABLE {_NUMBERS}")
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(f"SELECT setval('mutirao_job_id_seq', {finished + live})")


def is_there(conn: Connection, jobs: int) -> bool:
    """Return whether an earlier run has left so many jobs, and they are ours."""
    if not inspect(conn).has_table("mutirao_worker"):
        return False
    last = conn.exec_driver_sql("SELECT id, task FROM mutirao_job ORDER BY id DESC LIMIT 1").first()
    return last is not None and last.id == jobs and last.task.startswith(PREFIX)


def go_on(conn: Connection, finished: int) -> None:
    """Move the newest of what has ended on to this moment: a quarter of an hour of it.

    Otherwise the pages of the last hour would have less to read, the older the tables are.
    """
    words = _WORDS[conn.dialect.name]
    first = finished - round(900 / APART)
    ended = words.ago.format(f"({finished} - job) * {APART}")
    conn.exec_driver_sql(
        f"UPDATE mutirao_attempt SET started_at = {ended}, finished_at = {ended}"
        f" WHERE job > {first} AND job <= {finished}"
    )


def clear(conn: Connection) -> None:
    """Remove the workers, which are none."""
    conn.execute(tables.worker.delete())


async def add_up(store: SqlStore) -> None:
    """Add up what is there, as workers do every minute.

    The first time notes until when, and finds nothing to add up yet.
    """
    for _ in range(2):
        while await store.roll_up(None):
            pass


def _count_up(conn: Connection, most: int) -> None:
    """Make a table of the numbers from 1 on, by doubling it."""
    conn.exec_driver_sql(f"DROP TABLE IF EXISTS {_NUMBERS}")
    conn.exec_driver_sql(f"CREATE TABLE {_NUMBERS} (n bigint PRIMARY KEY)")
    conn.exec_driver_sql(f"INSERT INTO {_NUMBERS} VALUES (1)")
    size = 1
    while size < most:
        conn.exec_driver_sql(
            f"INSERT INTO {_NUMBERS} SELECT n + {size} FROM {_NUMBERS} WHERE n + {size} <= {most}"
        )
        size *= 2


def _statements(dialect: str, finished: int, live: int) -> Iterator[str]:
    words = _WORDS[dialect]
    ended = words.ago.format(f"({finished} - n) * {APART}")
    task = _one_of("n", [f"{PREFIX}task_{each}" for each in range(TASKS)])
    queue = _one_of("n", ["default", "default", "mail", "reports"])
    tenant = "CASE n % 10 WHEN 7 THEN 'acme' ELSE NULL END"
    placed = ", unplaced" if dialect in ("mysql", "mariadb") else ""
    for name in range(1, WORKERS + 1):
        since, beat, until = (words.ago.format(seconds) for seconds in (60, 0, -AHEAD))
        yield (
            "INSERT INTO mutirao_worker (id, name, host, pid, concurrency, version, started_at,"
            f" beat_at, expires_at) VALUES ({name}, 'worker {name}', 'host', {name}, 500, '0',"
            f" {since}, {beat}, {until})"
        )
    yield (
        f"INSERT INTO mutirao_job (id, task, queue, priority, tenant, {words.key}, enqueued_at,"
        f" run_at{placed})"
        f" SELECT n, {task}, {queue}, CASE n % 8 WHEN 7 THEN -5 ELSE 0 END, {tenant}, NULL,"
        f" {ended}, {ended}{', NULL' if placed else ''} FROM {_NUMBERS}"
    )
    outcome = "CASE n % 100 WHEN 0 THEN 'dead' WHEN 1 THEN 'cancelled' ELSE 'succeeded' END"
    kind = _one_of(
        "((n - n % 100) / 100)", ["TimeoutError", "shop.Busy", "ValueError", "OSError", "KeyError"]
    )
    error = f"CASE n % 100 WHEN 0 THEN {kind} ELSE NULL END"
    yield (
        "INSERT INTO mutirao_attempt (job, run, attempt, worker, outcome, started_at, finished_at,"
        " error_type, error)"
        f" SELECT n, 2, 2, 1 + n % {WORKERS}, {outcome}, {ended}, {ended}, {error}, {error}"
        f" FROM {_NUMBERS} WHERE n <= {finished}"
    )
    yield (
        "INSERT INTO mutirao_attempt (job, run, attempt, worker, outcome, started_at, finished_at)"
        f" SELECT n, 1, 1, 1 + n % {WORKERS}, 'retried', {ended}, {ended}"
        f" FROM {_NUMBERS} WHERE n <= {finished} AND n % 50 = 0"
    )
    yield "DELETE FROM mutirao_live"  # those that a trigger has made
    # The oldest of those that are due: so workers claim them.
    runs = f"n <= {finished + max(live // 500, 1) * 4 // 3} AND n % 4 <> 0"
    due = words.ago.format(f"CASE n % 4 WHEN 0 THEN -{AHEAD} ELSE 3600 END - n * {APART} / 1000")
    yield (
        "INSERT INTO mutirao_live (id, queue, priority, run_at, worker, run, attempt, claimed_at)"
        f" SELECT n, {queue}, CASE n % 8 WHEN 7 THEN -5 ELSE 0 END, {due},"
        f" CASE WHEN {runs} THEN 1 + n % {WORKERS} END, CASE WHEN {runs} THEN 1 ELSE 0 END,"
        f" CASE WHEN {runs} THEN 1 ELSE 0 END,"
        f" CASE WHEN {runs} THEN {words.ago.format('1')} END"
        f" FROM {_NUMBERS} WHERE n > {finished} AND n <= {finished + live}"
    )


def _one_of(number: str, values: list[str]) -> str:
    cases = " ".join(f"WHEN {place} THEN '{value}'" for place, value in enumerate(values))
    return f"CASE {number} % {len(values)} {cases} END"
