"""PostgreSQL as a `Dialect`."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    ColumnElement,
    Connection,
    Insert,
    Interval,
    Select,
    Table,
    Text,
    and_,
    any_,
    case,
    cast,
    column,
    exists,
    false,
    func,
    literal,
    null,
    select,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import TIMESTAMP, insert

from mutirao.model.filters.conditions import Scalar
from mutirao.model.jobs.job import Job
from mutirao.model.jobs.outcome import Settlement
from mutirao.model.topics.topics import patterns_of, topic_of
from mutirao.notifiers.postgresql import CHANNEL, ENDS_CHANNEL, PostgresqlNotifier
from mutirao.ports import Notifier
from mutirao.sql.dialects.admin import Admin
from mutirao.sql.dialects.base import Dialect, Id
from mutirao.sql.dialects.connecting import Place
from mutirao.sql.dialects.postgresql import running_jobs, statements
from mutirao.sql.dialects.postgresql.connecting import CONNECTING
from mutirao.sql.dialects.postgresql.enqueue import INTAKE
from mutirao.sql.dialects.postgresql.moments import CONSTANTS
from mutirao.sql.dialects.postgresql.rules import RULES
from mutirao.sql.dialects.postgresql.sets import in_set
from mutirao.sql.drivers.steps import Execute, Query
from mutirao.sql.schema.tables import live
from mutirao.sql.schema.types import Timestamp

# Subscriptions of a part after the first: 0.35 s of the server. A commit waits as long for the disk
# as a thousand take.
_FURTHER_AT_ONCE = 50_000
_COUNT_RETRY = text("SELECT nextval('mutirao_retries')")
_COMPILE_NOTHING = text("SELECT set_config('jit', 'off', true)")
_LOOK_UP = text(
    "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),"
    " set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),"
    " set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),"
    " set_config('statement_timeout', :milliseconds, true)"
)
# What JSON has as text and PostgreSQL has not: half a character, or NUL.
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_NO_TEXT = r"\\u(0000|[dD][89a-fA-F])"


class PostgreSQL(Dialect):
    """PostgreSQL 14 and later."""

    name = "postgresql"
    connecting = CONNECTING
    intake = INTAKE
    instant = shown = Timestamp()
    rules = RULES
    has_roles = True
    constants = CONSTANTS
    notifies_ends = True
    clock = func.statement_timestamp()
    delivers = True
    fan_out_at_once = 10_000

    @property
    def admin(self) -> Admin:
        """Return the part for people and migrations."""
        from mutirao.sql.dialects.postgresql.admin import ADMIN

        return ADMIN

    def notifier(self, place: Place) -> Notifier:
        """Return the notifier that listens on a connection of its own."""
        return PostgresqlNotifier(place.url, in_set(CHANNEL, place.schema), place.opened)

    def ends_notifier(self, place: Place) -> Notifier:
        """Return the notifier that listens on the channel of ended jobs."""
        return PostgresqlNotifier(place.url, in_set(ENDS_CHANNEL, place.schema), place.opened)

    looks_up_in_transaction = True

    def look_up(self, conn: Connection, seconds: float) -> None:
        """Leave the planner the way by index; it would read all of a table of a few hundred MB."""
        conn.execute(_LOOK_UP, {"milliseconds": f"{seconds * 1000:.0f}"})

    def fenced(self, query: Select[Any]) -> Select[Any]:
        """Put the planner's fence around it."""
        return query.offset(0)

    def moment(self, now: datetime | None, plus: float = 0.0) -> ColumnElement[datetime]:
        """Return `now` (None: the server's clock) plus some seconds, as an expression."""
        timestamp = TIMESTAMP(timezone=True)
        start = self.clock if now is None else literal(now, timestamp)
        return (start + literal(timedelta(seconds=plus), Interval)).cast(timestamp)

    def among(self, column: ColumnElement[Id], values: Sequence[Id]) -> ColumnElement[bool]:
        """Pass one array, whatever its length, of plain numbers: some ids know more of a job."""
        # Not `func.any`: SQLAlchemy 2.0 negates that as "<> any", which any two values satisfy.
        if isinstance(column.type, Text):
            return column == any_(literal([*values], ARRAY(Text)))
        return column == any_(literal([*map(int, values)], ARRAY(BigInteger)))

    def has_tag(self, tags: ColumnElement[Any], tag: str) -> ColumnElement[bool]:
        """Search the array."""
        each = func.json_array_elements_text(tags).table_valued("value")
        return exists(select(each).where(each.c.value == tag))

    def has_tag_like(self, tags: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
        """Search the array."""
        each = func.json_array_elements_text(tags).table_valued("value")
        return exists(select(each).where(self.is_like(each.c.value, pattern)))

    def has_argument(
        self, args: ColumnElement[Any], name: str, value: Scalar
    ) -> ColumnElement[bool]:
        """Call the function, which is planned as if its body stood here."""
        wanted = cast(literal(json.dumps(value), Text), JSON)
        return func.mutirao_has_argument(args, name, wanted).is_(true())

    def argument(self, args: ColumnElement[Any], name: str) -> ColumnElement[Any]:
        """Look into it unless it holds what is no text here, as the function does."""
        written = cast(args, Text)
        plain = func.regexp_replace(func.replace(written, r"\\", ""), _PAIR, "", "g")
        unfit = and_(func.strpos(written, r"\u") > 0, plain.regexp_match(_NO_TEXT))
        found = args.op("->", return_type=JSON())(literal(name, Text))
        return case((unfit, null()), (func.json_typeof(found) == "object", found))

    def held_by(self, worker: int) -> ColumnElement[bool]:
        """Return the condition that a worker holds the job; no index shows it."""
        moment = literal(None, TIMESTAMP(timezone=True))
        held = func.mutirao_held(literal([worker], ARRAY(BigInteger)), false(), moment)
        return and_(_among(held), live.c.worker == worker)

    def running_near(self) -> Select[int]:
        """Look at the first jobs of each lane, and at the newest."""
        return running_jobs.running_near()

    def to_cancel_by(self, worker: int) -> ColumnElement[bool]:
        """Return the condition that a worker is to cancel the job: few are, in an index of them."""
        return _among(func.mutirao_cancelled(worker))

    def deliver_next(
        self, conn: Connection, publication: int, topics: Sequence[str], after: str, most: int
    ) -> tuple[str | None, bool, list[str]]:
        """Call the function that finds them, too: none of them travels."""
        met, reached, asked = conn.execute(_deliver(publication, topics, after, most, ())).one()
        return reached if met == most else None, met > len(asked), asked

    def deliver(self, conn: Connection, publication: int, subscriptions: Sequence[str]) -> None:
        """Call the function for it: one statement, of which the server makes the rows."""
        conn.execute(_deliver(publication, (), "", 0, subscriptions))

    def fan_out(
        self, publication: Job, done: Settlement, after: str | None, first: int
    ) -> Query[tuple[bool, str | None]]:
        """Call the function for it: one round trip."""
        which = done.id, done.run, int(done.started_ago * 1e6)
        topics = [*patterns_of(topic_of(publication.task))]
        most = first if after is None else max(first, _FURTHER_AT_ONCE)
        [found] = yield Execute(statements.FAN_OUT, (*which, topics, after, most))
        return found[0], found[1]

    def has_to_cancel(self, worker: int) -> ColumnElement[bool]:
        """Return whether there is such a job, as an expression."""
        return func.pg_catalog.cardinality(func.mutirao_cancelled(worker)) > 0

    def insert_unless_exists(self, table: Table) -> Insert:
        """Return an INSERT that does nothing, and counts no row, where the key is taken."""
        return insert(table).on_conflict_do_nothing()

    def before_pruning(self, conn: Connection, jobs: Sequence[int]) -> None:
        """Compile nothing: the triggers that count what is deleted switch sequential scans off.

        To the planner the scan of a table of one row seems so dear then that each of two deletions
        compiles it, which took three times as long as all else for 100 jobs.
        """
        conn.execute(_COMPILE_NOTHING)

    def came_late(self, finished_at: ColumnElement[datetime]) -> ColumnElement[Any]:
        """Call the function."""
        return func.nullif(finished_at < func.mutirao_closed(), false())

    def count_retry(self, conn: Connection) -> None:
        """Draw a number: a sequence makes no transaction wait."""
        conn.execute(_COUNT_RETRY)

    def refresh_statistics(self, conn: Connection) -> None:
        """Analyse the tables whose size changes with the load."""
        for table in ("mutirao_job", "mutirao_live", "mutirao_attempt"):
            conn.exec_driver_sql(f"ANALYZE {table}")


POSTGRESQL = PostgreSQL()


def _among(ids: ColumnElement[Any]) -> ColumnElement[bool]:
    # Selected, or the planner calls the function itself, to know how many there are.
    return live.c.id == func.any(cast(select(ids).scalar_subquery(), ARRAY(BigInteger)))


def _deliver(
    publication: int, topics: Sequence[str], after: str, most: int, also: Sequence[str]
) -> Select[Any]:
    made = func.mutirao_deliver(
        publication, literal([*topics], ARRAY(Text)), after, most, literal([*also], ARRAY(Text))
    )
    columns = made.table_valued("met", "reached", column("asked", ARRAY(Text)))
    return select(columns)
