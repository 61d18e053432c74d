"""SQLite as a `Dialect`: the general rules in its SQL, and the differences."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Integer,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    exists,
    func,
    literal,
    literal_column,
    select,
    true,
    type_coerce,
)
from sqlalchemy.dialects.sqlite import insert

from mutirao.model.filters.conditions import Scalar
from mutirao.model.keys.uniqueness import PARKED
from mutirao.notifiers.sqlite import SqliteNotifier
from mutirao.ports import Notifier
from mutirao.sql.dialects.admin import Admin
from mutirao.sql.dialects.base import Dialect, Id
from mutirao.sql.dialects.connecting import Place
from mutirao.sql.dialects.sqlite.connecting import CONNECTING
from mutirao.sql.dialects.sqlite.enqueue import INTAKE
from mutirao.sql.dialects.sqlite.words import WORDS
from mutirao.sql.rules.generic import LockAskWrite
from mutirao.sql.schema.tables import job, subscription
from mutirao.sql.schema.types import IsoText, Micros, to_micros

_LAST = "SELECT seq FROM sqlite_sequence WHERE name = 'mutirao_job'"


class SQLite(Dialect):
    """SQLite 3.35 and later, in a file. A waiting worker sees that the file has changed."""

    name = "sqlite"
    connecting = CONNECTING
    intake = INTAKE
    rules = LockAskWrite(WORDS)
    instant = Micros()
    shown = IsoText()
    constants = MappingProxyType({"parked": str(to_micros(PARKED))})
    notifies_ends = False
    clock = bindparam("clock", callable_=partial(datetime.now, UTC), type_=instant)
    fan_out_at_once = 10_000

    @property
    def admin(self) -> Admin:
        """Return the part for people and migrations."""
        from mutirao.sql.dialects.sqlite.admin import ADMIN

        return ADMIN

    def notifier(self, place: Place) -> Notifier:
        """Return the notifier that watches the file."""
        return SqliteNotifier(place.url)

    def moment(self, now: datetime | None, plus: float = 0.0) -> ColumnElement[datetime]:
        """Return `now` (None: this machine's clock) plus some seconds, as a value."""
        return literal((now or datetime.now(UTC)) + timedelta(seconds=plus), self.instant)

    def by_topic(self, subscriptions: Select[Any]) -> Select[Any]:
        """Leave out those whose ids are bytes, which come after all texts; no job names them."""
        return subscriptions.where(subscription.c.id < literal_column("x''"))

    def among(self, column: ColumnElement[Id], values: Sequence[Id]) -> ColumnElement[bool]:
        """Pass one JSON array; the number of parameters is limited."""
        each = func.json_each(json.dumps(list(values))).table_valued("value")
        return column.in_(select(each.c.value))

    def has_tag(self, tags: ColumnElement[Any], tag: str) -> ColumnElement[bool]:
        """Search the array."""
        each = func.json_each(tags).table_valued("value")
        return exists(select(each).where(each.c.value == tag))

    def has_tag_like(self, tags: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
        """Search the array."""
        each = func.json_each(tags).table_valued("value")
        return exists(select(each).where(self.is_like(each.c.value, pattern)))

    def is_like(self, column: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
        """Match by GLOB, because LIKE ignores case here."""
        return func.glob(re.sub(r"([\[?])", r"[\1]", pattern), column) == true()

    def has_argument(
        self, args: ColumnElement[Any], name: str, value: Scalar
    ) -> ColumnElement[bool]:
        """Search the object; numbers are equal as numbers are."""
        each = func.json_each(args).table_valued("key", "type", "value")
        known = {str: ("text",), bool: (str(value).lower(),), type(None): ("null",)}
        kinds = known.get(type(value), ("integer", "real"))
        same = true() if kinds[0] in ("null", "true", "false") else each.c.value == literal(value)
        return exists(select(each.c.key).where(each.c.key == name, each.c.type.in_(kinds), same))

    def argument(self, args: ColumnElement[Any], name: str) -> ColumnElement[Any]:
        """Look into the object."""
        each = func.json_each(args).table_valued("key", "type", "value")
        found = select(each.c.value).where(each.c.key == name, each.c.type == "object").limit(1)
        return found.scalar_subquery()

    def insert_unless_exists(self, table: Table) -> Insert:
        """Return an INSERT that does nothing, and counts no row, where the key is taken."""
        return insert(table).on_conflict_do_nothing()

    def before_writing(self, conn: Connection) -> dict[str, int]:
        """Return the last id: one writes at a time, so all after it are written now."""
        return {"written_after": conn.exec_driver_sql(_LAST).scalar_one()}

    def written(self, beginning: ColumnElement[str]) -> ColumnElement[bool]:
        """Leave out what a trigger of others has inserted between them."""
        text = type_coerce(job.c["metadata"], Text)
        mine = func.substr(text, 1, func.length(beginning)) == beginning
        return and_(job.c.id > bindparam("written_after", type_=Integer), mine)

    def count_retry(self, conn: Connection) -> None:
        """Count nothing: one transaction writes at a time, and none is aborted for another one."""

    def refresh_statistics(self, conn: Connection) -> None:
        """Make SQLite analyse the tables that need it again."""
        conn.exec_driver_sql("PRAGMA optimize")


SQLITE = SQLite()
