"""The checks of `doctor` on PostgreSQL: indexes, plans, dead rows and their causes, sessions."""

from collections.abc import Iterator

from sqlalchemy import Connection, text

from mutirao.model.findings import Finding, Level
from mutirao.sql.dialects.postgresql.moments import CONSTANTS

INDEXES = (
    "mutirao_job_pkey",
    "mutirao_job_redrive_of",
    "mutirao_job_publication",
    "mutirao_live_pkey",
    "mutirao_live_lanes",
    "mutirao_live_fairness",
    "mutirao_live_cancelled",
    "mutirao_attempt_pkey",
    "mutirao_attempt_outcome",
)
# Below, reading the whole table is cheap and planned with good reason.
MIN_ROWS_FOR_INDEX_PLAN = 10_000
DEAD_ROWS, DEAD_SHARE = 50_000, 5  # dead rows, and so many times the live ones: bloat
# More retries are reported if there is one in fewer jobs.
MAX_USUAL_RETRIES, MIN_JOBS_PER_RETRY = 10, 1_000
LONG_TRANSACTION_SECONDS = 300  # seconds that a transaction may stay open before it is named

_INVALID = text("""
SELECT name FROM pg_catalog.unnest(CAST(:names AS text[])) AS name
WHERE NOT EXISTS (
    SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE relname = name AND indisvalid AND relnamespace = (
        SELECT relnamespace FROM pg_class WHERE oid = to_regclass('mutirao_live')
    )
)
""")
# With its schema where that is not on the path: so people find it.
_TABLE = text("SELECT CAST(to_regclass('mutirao_live') AS text)")
_SIZE = text("SELECT greatest(reltuples, 0) FROM pg_class WHERE oid = to_regclass('mutirao_live')")
_CLAIM_PLAN = text(f"""
EXPLAIN SELECT id FROM mutirao_live
WHERE worker IS NULL AND queue = (SELECT queue FROM mutirao_live LIMIT 1) AND priority = 0
  AND run_at < {CONSTANTS["beyond"]} AND run_at <= statement_timestamp()
ORDER BY run_at, id LIMIT 100 FOR UPDATE SKIP LOCKED
""")  # noqa: S608 (our own constants)
_DEAD_ROWS = text("""
SELECT n_live_tup, n_dead_tup, coalesce(to_char(last_autovacuum, 'YYYY-MM-DD HH24:MI'), 'never')
FROM pg_stat_all_tables WHERE relid = to_regclass('mutirao_live')
""")
# Whatever holds the horizon back keeps dead rows from being removed: an open transaction, a
# prepared one that was forgotten, a replication slot that nobody reads.
_HOLDERS = text("""
SELECT pg_catalog.format(
           'session %s of %s (%s)', pid, usename, coalesce(nullif(application_name, ''), state)
       ),
       CAST(extract(epoch FROM clock_timestamp() - xact_start) AS double precision) AS seconds,
       pg_catalog.format('end it if it is not needed: SELECT pg_terminate_backend(%s)', pid)
FROM pg_stat_activity
WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
  AND datname = current_database()
  AND xact_start < clock_timestamp() - CAST(:long AS integer) * interval '1 second'
UNION ALL
SELECT pg_catalog.format('prepared transaction %s of %s', gid, owner),
       CAST(extract(epoch FROM clock_timestamp() - prepared) AS double precision),
       pg_catalog.format('COMMIT PREPARED %L or ROLLBACK PREPARED %L', gid, gid)
FROM pg_prepared_xacts
WHERE database = current_database()
  AND prepared < clock_timestamp() - CAST(:long AS integer) * interval '1 second'
ORDER BY seconds DESC
""")
# Settings of sessions: this one's own, and those of roles and of the database.
_SETTINGS = text("""
SELECT 'this session' AS who, name || '=' || setting AS setting FROM pg_settings
UNION ALL
SELECT coalesce('role ' || rolname, 'this database'), setting
FROM pg_db_role_setting LEFT JOIN pg_roles ON pg_roles.oid = setrole
CROSS JOIN LATERAL pg_catalog.unnest(setconfig) AS setting
WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
""")
# Whether jobs are announced where workers of this application listen: on its channel.
_ANNOUNCED = text("""
SELECT strpos(prosrc, quote_literal('mutirao')) > 0 FROM pg_proc
WHERE proname = :name AND pronamespace = (
    SELECT relnamespace FROM pg_class WHERE oid = to_regclass('mutirao_live')
)
""")
# Deadlocks of all clients; our retries, and jobs, since the tables were made.
_DEADLOCKS = text("""
SELECT deadlocks, coalesce(to_char(stats_reset, 'YYYY-MM-DD HH24:MI'), 'it was made'),
       coalesce(pg_sequence_last_value('mutirao_retries'), 0),
       coalesce(pg_sequence_last_value('mutirao_job_id_seq'), 0)
FROM pg_stat_database WHERE datname = current_database()
""")


def health_checks(connection: Connection) -> Iterator[Finding]:
    """Examine indexes, the plan of a claim, dead rows, old transactions, and sessions."""
    yield from _indexes(connection)
    yield from _plan(connection)
    yield from _bloat(connection)
    yield from _horizon(connection)
    yield from _sessions(connection)
    yield from _wakes(connection)
    yield from _deadlocks(connection)


def _indexes(connection: Connection) -> Iterator[Finding]:
    broken = connection.scalars(_INVALID, {"names": list(INDEXES)}).all()
    schema = _live(connection).removesuffix("mutirao_live")
    for name in broken:
        yield Finding(
            Level.PROBLEM,
            "indexes",
            f"the index {name} is missing or invalid",
            f"DROP INDEX IF EXISTS {schema}{name}, then run the statement that makes it in"
            " `mutirao schema --dialect postgresql`",
        )
    if not broken:
        yield Finding(Level.OK, "indexes", f"all {len(INDEXES)} are there and valid")


def _live(connection: Connection) -> str:
    return str(connection.scalar(_TABLE))


def _plan(connection: Connection) -> Iterator[Finding]:
    # As in mutirao_lock_due, whose plan is pinned so.
    connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
    plan = "\n".join(connection.scalars(_CLAIM_PLAN))
    rows = connection.scalars(_SIZE).one()
    if "mutirao_live_lanes" in plan:
        yield Finding(Level.OK, "claims", "read by the index mutirao_live_lanes")
    elif rows < MIN_ROWS_FOR_INDEX_PLAN:
        yield Finding(Level.OK, "claims", f"{rows:.0f} live jobs, too few to need an index")
    else:
        yield Finding(
            Level.PROBLEM,
            "claims",
            f"the planner does not use mutirao_live_lanes: {plan}",
            f"ANALYZE {_live(connection)}; see that enable_indexscan is on",
        )


def _bloat(connection: Connection) -> Iterator[Finding]:
    live, dead, vacuumed = connection.execute(_DEAD_ROWS).one()
    found = f"{dead} dead rows beside {live} live ones in mutirao_live, last vacuumed {vacuumed}"
    if dead > DEAD_ROWS and dead > DEAD_SHARE * live:
        yield Finding(
            Level.WARNING,
            "bloat",
            found,
            f"VACUUM {_live(connection)}; see below what keeps dead rows, and that autovacuum is"
            " on",
        )
    else:
        yield Finding(Level.OK, "bloat", found)


def _horizon(connection: Connection) -> Iterator[Finding]:
    holders = connection.execute(_HOLDERS, {"long": LONG_TRANSACTION_SECONDS}).all()
    for who, seconds, advice in holders:
        held = f"{who} has had a transaction open for {seconds / 60:.0f} minutes"
        yield Finding(
            Level.WARNING, "horizon", f"{held}, which keeps dead rows from being removed", advice
        )
    if not holders:
        yield Finding(
            Level.OK,
            "horizon",
            f"no transaction is older than {LONG_TRANSACTION_SECONDS // 60} minutes",
        )


def _sessions(connection: Connection) -> Iterator[Finding]:
    found = [
        Finding(Level.WARNING, "sessions", f"{who}: {setting} {means}", advice)
        for who, setting in connection.execute(_SETTINGS)
        for name, usual, means, advice in _UNUSUAL
        if setting.startswith(f"{name}=") and setting != f"{name}={usual}"
    ]
    yield from found
    if not found:
        yield Finding(Level.OK, "sessions", "no setting of a role or of the database is in the way")


_UNUSUAL = (
    (
        *("default_transaction_isolation", "read committed"),
        "makes single statements of workers travel in transactions, which takes longer",
        "ALTER ROLE … SET default_transaction_isolation TO 'read committed'",
    ),
    (
        *("session_replication_role", "origin"),
        "keeps triggers from running, so that jobs with a key are refused",
        "ALTER ROLE … RESET session_replication_role",
    ),
    (
        *("mutirao.notify", "on"),
        "lets jobs be found by polling only, as two-phase commits need it",
        "SET mutirao.notify TO on, where no transaction is prepared",
    ),
)


def _wakes(connection: Connection) -> Iterator[Finding]:
    if not connection.scalar(_ANNOUNCED, {"name": "mutirao_wake"}):
        yield Finding(
            Level.WARNING,
            "wakes",
            "new jobs are announced on another channel than this application's workers listen on,"
            " which find them by polling",
            "give every application of this set of jobs the same schema=, with which it was made",
        )


def _deadlocks(connection: Connection) -> Iterator[Finding]:
    anybody, since, ours, jobs = connection.execute(_DEADLOCKS).one()
    found = (
        f"workers and commands tried {ours} transactions again, for {jobs} jobs; the server counts"
        f" {anybody} deadlocks of anybody since {since}"
    )
    if ours > MAX_USUAL_RETRIES and ours * MIN_JOBS_PER_RETRY > jobs:
        yield Finding(
            Level.WARNING,
            "deadlocks",
            found,
            "the server's log says who met whom; a transaction that makes several calls with keys"
            " makes them in the order of the keys, and locks no rows of mutirao_live itself",
        )
    else:
        yield Finding(Level.OK, "deadlocks", found)
