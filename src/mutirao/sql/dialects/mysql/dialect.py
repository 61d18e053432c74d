"""MySQL and MariaDB as a `Dialect`: the general rules in its SQL, and the differences."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Insert,
    LargeBinary,
    Row,
    Select,
    Table,
    Text,
    Update,
    and_,
    bindparam,
    cast,
    column,
    false,
    func,
    literal,
    literal_column,
    null,
    select,
    text,
    true,
    type_coerce,
    update,
)
from sqlalchemy.dialects.mysql import insert
from sqlalchemy.exc import IntegrityError

from mutirao.model.filters.conditions import Scalar
from mutirao.model.jobs.job import LaneHead
from mutirao.model.jobs.states import OutcomeKind
from mutirao.sql.dialects.admin import Admin
from mutirao.sql.dialects.base import LIKE_ESCAPE, Dialect, Id, like_pattern
from mutirao.sql.dialects.mysql import packets, server
from mutirao.sql.dialects.mysql.connecting import CONNECTING
from mutirao.sql.dialects.mysql.enqueue import INTAKE
from mutirao.sql.dialects.mysql.join_order import update_those
from mutirao.sql.dialects.mysql.moments import CONSTANTS, NOW, InUtc
from mutirao.sql.dialects.mysql.words import DROP, WORDS
from mutirao.sql.drivers.failures import is_taken
from mutirao.sql.drivers.kinds import through
from mutirao.sql.drivers.steps import Query
from mutirao.sql.rules import claim
from mutirao.sql.rules.generic import LockAskWrite
from mutirao.sql.schema.tables import job, subscription
from mutirao.sql.schema.types import MICROS_PER_SECOND, Micros, to_micros


class MysqlRules(LockAskWrite):
    """The general rules; a look for lanes also places jobs that other programs have inserted."""

    bracket = WORDS.transaction

    def lanes(self, queues: Collection[str] | None, now: datetime | None) -> Query[list[LaneHead]]:
        """Read the heads of all lanes."""
        moment = yield from WORDS.place_inserted()
        return (yield from claim.lanes(WORDS, queues, now or moment))


RULES = MysqlRules(WORDS)


_FINAL = ", ".join(f"'{kind}'" for kind in OutcomeKind if kind.final)
# Nothing is added up until they are gone.
_NOBODY_ADDS = "SELECT name FROM mutirao_lock WHERE name = 'hours' LOCK IN SHARE MODE"
_TAKE_FROM_KEPT = text(f"""
    INSERT INTO mutirao_kept (queue, outcome, hour, jobs)
    SELECT j.queue, a.outcome, a.finished_at - a.finished_at MOD 3600000000, -1
    FROM mutirao_attempt a FORCE INDEX (PRIMARY) JOIN mutirao_job j ON j.id = a.job
    WHERE a.job IN :jobs AND a.outcome IN ({_FINAL}) AND a.came_late IS NULL
      AND a.finished_at < (SELECT until FROM mutirao_rolled)
""").bindparams(bindparam("jobs", expanding=True))  # noqa: S608 (constants)
_NAMES = ("mysql", "mariadb")  # of the dialect, by the URL
_BY_ID = "FORCE INDEX (PRIMARY)"
_BY_TOPIC = "FORCE INDEX (mutirao_subscription_topic)"
_COUNT_RETRY = "UPDATE mutirao_lock SET retries = retries + 1 WHERE name = 'retries'"


class MariaDB(Dialect):
    """MariaDB 10.6 and later, by the names that SQLAlchemy has for it. A waiting worker polls."""

    name = "mysql"
    connecting = CONNECTING
    intake = INTAKE
    rules = RULES
    instant = Micros()
    shown = InUtc()
    constants = CONSTANTS
    notifies_ends = False
    clock = type_coerce(literal_column(NOW), instant)
    placed = MappingProxyType({"unplaced": null()})
    fan_out_at_once = 10_000

    @property
    def admin(self) -> Admin:
        """Return the part for people and migrations."""
        from mutirao.sql.dialects.mysql.admin import ADMIN

        return ADMIN

    def refuse_server(self, conn: Connection) -> None:
        """Query its features."""
        server.refuse(conn)

    def moment(self, now: datetime | None, plus: float = 0.0) -> ColumnElement[datetime]:
        """Return `now` (None: the server's clock) plus some seconds, as an expression."""
        start = literal_column(NOW) if now is None else literal(to_micros(now))
        return type_coerce(start + literal(round(plus * MICROS_PER_SECOND)), self.instant)

    def among(self, column: ColumnElement[Id], values: Sequence[Id]) -> ColumnElement[bool]:
        """List them, numbers as plain ones: some ids know more of a job."""
        if isinstance(column.type, Text):
            return column.in_(values)
        return column.in_([*map(int, values)])

    def has_tag(self, tags: ColumnElement[Any], tag: str) -> ColumnElement[bool]:
        """Search the array."""
        return func.json_contains(tags, func.json_quote(literal(tag))) == true()

    def has_tag_like(self, tags: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
        """Search the array."""
        escape: ColumnElement[str] = literal_column(f"'{LIKE_ESCAPE}'")
        return func.json_search(tags, "one", like_pattern(pattern), escape).is_not(None)

    def has_argument(
        self, args: ColumnElement[Any], name: str, value: Scalar
    ) -> ColumnElement[bool]:
        """Search the object; numbers are equal as numbers are."""
        found = _in_object(args, name)
        kind, text = func.json_type(found), func.json_unquote(found)
        if value is None:
            return kind == "NULL"
        if isinstance(value, bool):
            return and_(kind == "BOOLEAN", text == json.dumps(value))
        if isinstance(value, str):
            same = cast(text, LargeBinary) == cast(literal(value), LargeBinary)
            return and_(kind == "STRING", same)
        numbers = ["INTEGER", "UNSIGNED INTEGER", "DOUBLE", "DECIMAL"]
        return and_(kind.in_(numbers), text + 0 == literal(value))

    def argument(self, args: ColumnElement[Any], name: str) -> ColumnElement[Any]:
        """Look into the object."""
        found = _in_object(args, name)
        return func.if_(func.json_type(found) == "OBJECT", found, null())

    def insert_unless_exists(self, table: Table) -> Insert:
        """Return an INSERT that leaves a row with that key as it is."""
        [first, *_] = table.primary_key.columns
        return insert(table).on_duplicate_key_update({first.name: first})

    def write_new(self, conn: Connection, table: Table, row: dict[str, Any]) -> bool:
        """Insert a row, and return whether it was new: an error undoes the statement only."""
        try:
            conn.execute(insert(table).values(**row))
        except IntegrityError as error:
            if not is_taken(error):
                raise
            return False
        return True

    def write_new_rows(
        self, conn: Connection, table: Table, rows: Sequence[dict[str, Any]]
    ) -> set[Any]:
        """Insert all of them, as nearly always all are new; one by one where one is not."""
        if not rows:
            return set()
        [first, *_] = table.primary_key.columns
        try:
            with conn.begin_nested():  # a driver may make several statements of it
                conn.execute(insert(table), list(rows))
        except IntegrityError as error:
            if not is_taken(error):
                raise
            return {row[first.name] for row in rows if self.write_new(conn, table, row)}
        return {row[first.name] for row in rows}

    def update_returning(
        self, conn: Connection, change: Update, *wanted: ColumnElement[Any]
    ) -> Row[Any] | None:
        """Change one row and select the expressions: an UPDATE returns nothing."""
        return conn.execute(select(*wanted)).first() if conn.execute(change).rowcount else None

    def update_free(
        self, conn: Connection, table: Table, which: ColumnElement[bool], values: dict[str, Any]
    ) -> None:
        """Go from each that is free to its row: a small table would be read whole, and waited for.

        MySQL refuses a subquery of the table that is changed.
        """
        [key] = table.primary_key.columns
        free = select(key).where(which).order_by(key).with_for_update(skip_locked=True)
        its = {table.c[name]: value for name, value in values.items()}
        conn.execute(update_those(table, free).values(its))

    def before_looking_for_old(self, conn: Connection) -> None:
        """Wait until no transaction adds up hours: it would wait for rows of attempts."""
        conn.exec_driver_sql(_NOBODY_ADDS).all()

    def before_pruning(self, conn: Connection, jobs: Sequence[int]) -> None:
        """Append them to the journal, as no trigger does."""
        conn.execute(_TAKE_FROM_KEPT, {"jobs": [*map(int, jobs)]})

    def by_ids(self, found: Select[Any], table: Table) -> Select[Any]:
        """Go by the primary key: an index that has these columns might be locked whole."""
        for name in _NAMES:
            found = found.with_hint(table, _BY_ID, name)
        return found

    def update_by_ids(self, table: Table) -> Update:
        """Go by the primary key: a small table would be read whole, and others waited for."""
        found = update(table)
        for name in _NAMES:
            found = found.with_hint(_BY_ID, dialect_name=name)
        return found

    def delete_rows(
        self, conn: Connection, column: Column[int], ids: Sequence[int], index: str = "PRIMARY"
    ) -> None:
        """Go from each id to its rows: a small table is read whole, whatever the hint says."""
        if ids:
            sql = DROP.format(column.table.description, column.name, index).replace("?", "%s")
            conn.exec_driver_sql(sql, (json.dumps([*map(int, ids)]),))

    def make_live(self, conn: Connection, beginning: str) -> None:
        """Look for them from the first one on: others' may come between."""
        through(conn, WORDS.make_new_live(beginning))

    def written(self, beginning: ColumnElement[str]) -> ColumnElement[bool]:
        """Leave out what other programs insert; as no index is to be used for that, not by NULL."""
        mine = func.left(type_coerce(job.c["metadata"], Text), func.length(beginning)) == beginning
        placed = func.coalesce(column("unplaced"), false()) == false()
        return and_(job.c.id >= func.last_insert_id(), mine, placed)

    def by_topic(self, subscriptions: Select[Any]) -> Select[Any]:
        """Name the index: each part of a fan-out would read others from the first one on."""
        for name in _NAMES:
            subscriptions = subscriptions.with_hint(subscription, _BY_TOPIC, name)
        return subscriptions

    def place_inserted(self, conn: Connection) -> None:
        """Do what workers do at their next claim."""
        while len(through(conn, WORDS.place())) == packets.MAX_ROWS:
            pass

    def count_retry(self, conn: Connection) -> None:
        """Count it in a row that no transaction holds for longer."""
        conn.exec_driver_sql(_COUNT_RETRY)

    def refresh_statistics(self, conn: Connection) -> None:
        """Analyse the tables whose size changes with the load."""
        conn.exec_driver_sql("ANALYZE TABLE mutirao_job, mutirao_live, mutirao_attempt").all()


def _in_object(args: ColumnElement[Any], name: str) -> ColumnElement[Any]:
    """Return a JSON object's value of a name, which is written as it is or in ASCII."""
    # It is compared as it was written.
    written = dict.fromkeys(json.dumps(name, ensure_ascii=ascii) for ascii in (False, True))
    readable = func.if_(func.json_valid(args), args, null())  # half a character is no JSON
    return func.coalesce(*(func.json_extract(readable, f"$.{each}") for each in written))


MARIADB = MariaDB()
