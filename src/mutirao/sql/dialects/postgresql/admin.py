"""The administration of PostgreSQL, by people and migrations."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, case, func, select, text, true

from mutirao.errors import ConfigurationError
from mutirao.model.findings import Finding
from mutirao.sql.dialects.admin import Admin
from mutirao.sql.dialects.postgresql import grant_statements, sets
from mutirao.sql.dialects.postgresql.health_checks import health_checks
from mutirao.sql.dialects.postgresql.mending import mend

# "mutirao" in ASCII: the advisory lock that one migration at a time holds.
_MIGRATION_LOCK = 0x6D75746972616F

# Seconds for which a transaction may hold locks while its client sends nothing, and wait for one.
# So who waits for a worker that is frozen gets the lock.
HELD_FOR, WAITED_FOR = 20, 30
_IDLE = "idle_in_transaction_session_timeout"

_SCHEMA = text("SELECT quote_ident(current_schema())")
_THERE = text("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = :name)")
_PATH = text("SELECT current_setting('search_path')")
_SET_PATH = text("SELECT set_config('search_path', :path, true)")
_SEARCHED = text(
    "SELECT current_schemas(false)::text[], ARRAY(SELECT n.nspname::text FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'mutirao_version'"
    " AND c.relkind IN ('r', 'p') ORDER BY 1)"
)
_OURS = re.compile(r"(?<!')\bmutirao_\w+")  # names in the schema; not channels, which are quoted


class PostgresqlAdmin(Admin):
    """PostgreSQL's side of migrating, looking and repairing."""

    @contextmanager
    def migrating(self, connection: Connection) -> Iterator[None]:
        """Hold an advisory lock until the transaction ends, however it does."""
        with connection.begin():
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            yield

    @contextmanager
    def migrating_within(self, connection: Connection) -> Iterator[None]:
        """Hold the same lock; the caller's search_path is what it was before."""
        path = connection.scalar(_PATH)
        connection.commit()  # for SQLAlchemy: it ends nothing of the caller's
        with self.migrating(connection):
            yield
        connection.execute(_SET_PATH, {"path": path})

    def entering(self, schema: str, connection: Connection | None) -> list[str]:
        """Make the schema where it is missing: a user that may create in it need not make it."""
        if (reason := sets.schema_refusal(schema)) is not None:
            raise ConfigurationError(reason)
        there = connection is not None and connection.scalar(_THERE, {"name": schema})
        make = [] if there else [f"CREATE SCHEMA IF NOT EXISTS {sets.quoted(schema)}"]
        return [*make, f"SET LOCAL search_path TO {sets.quoted(schema)}"]

    def in_place(
        self, statement: str, connection: Connection | None, schema: str | None
    ) -> Sequence[str]:
        """Set a function's search path to the schema of the tables, not that of its caller.

        Otherwise a role that may create in a schema of that path, `public` perhaps, could put a
        function of its own in front, which would run with the rights of the caller of ours:
        `cardinality(bigint[])` fits better than `cardinality(anyarray)`.
        """
        if schema is not None:
            statement = sets.with_own_channels(statement, schema)
        head, body, tail = (*statement.split("$$"), "", "")[:3]
        if not body:
            return (statement,)
        if schema is not None:
            where = sets.quoted(schema)
        else:
            where = connection.scalar(_SCHEMA) if connection is not None else "public"
        body = _OURS.sub(rf"{where}.\g<0>", body)
        head = head.removesuffix("AS ")
        return (f"{head}SET search_path = pg_catalog, pg_temp AS $${body}$${tail}",)

    def mend(
        self, connection: Connection, statements: Iterable[str], fills: Mapping[str, str]
    ) -> bool:
        """Compare with temporary tables and views, and alter what differs."""
        return mend(connection, statements, fills)

    def one_at_a_time(self, connection: Connection, what: str) -> None:
        """Hold an advisory lock until the transaction ends, or its client hangs."""
        lock = func.pg_advisory_xact_lock(func.hashtext(f"mutirao {what}"))
        connection.execute(select(_ends_if_idle(), lock))

    def bound_locks(self, connection: Connection) -> None:
        """Limit how long the server lets the transaction, or a statement, wait."""
        connection.execute(select(_ends_if_idle(), _set("lock_timeout", WAITED_FOR)))

    def clock(self, connection: Connection) -> datetime:
        """Query the server."""
        now: datetime = connection.scalars(text("SELECT clock_timestamp()")).one()
        return now

    def health_checks(self, connection: Connection) -> Iterator[Finding]:
        """Examine the catalogue and the statistics."""
        return health_checks(connection)

    def searched(self, connection: Connection) -> tuple[str, str]:
        """Return the schemas of the search_path, and those that have our tables."""
        looked, there = connection.execute(_SEARCHED).one()
        names = ", ".join(looked) or "none: no schema of it is there"
        return f" in the schemas of its search_path ({names})", ", ".join(there)

    def grants(self, roles: Collection[str], to: str | None, schema: str | None) -> str:
        """Return GRANT statements, a section for each role."""
        return grant_statements.sql(roles, to, schema)


ADMIN = PostgresqlAdmin()


def _ends_if_idle() -> ColumnElement[str]:
    """Return what bounds how long this transaction may stand still, unless the server does."""
    unset = func.current_setting(_IDLE) == "0"
    return case((unset, _set(_IDLE, HELD_FOR)), else_=func.current_setting(_IDLE))


def _set(name: str, seconds: float) -> ColumnElement[str]:
    """Return what changes a setting until the transaction ends."""
    return func.set_config(name, f"{seconds * 1_000:.0f}ms", true())
