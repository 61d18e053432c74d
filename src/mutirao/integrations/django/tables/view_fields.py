"""How Django reads what the views show: JSON, and moments.

PostgreSQL shows moments as `timestamptz`, MySQL and MariaDB as `datetime(6)` in UTC, SQLite as a
text in UTC: `2026-11-21T13:44:28.000000Z`.
"""

from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models.expressions import Col
from django.utils import timezone

from mutirao.integrations.django.tables.vendors import is_postgresql, is_sqlite
from mutirao.sql.schema.types import EARLIEST_MOMENT

_JSONB = "::jsonb"
_AS_DJANGO_WRITES = "%Y-%m-%d %H:%M:%S.%f"


class _MomentColumn(Col):  # type: ignore[misc]
    """A moment's column; on SQLite as text that Django's own functions of dates understand."""

    def as_sqlite(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return it with a space in the place of the T, and without the Z."""
        sql, params = self.as_sql(compiler, connection)
        return f"replace(rtrim({sql}, 'Z'), 'T', ' ')", list(params)


class _JsonColumn(Col):  # type: ignore[misc]
    """A column with JSON; on PostgreSQL, where it is `json`, as `jsonb`, which Django asks."""

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return it as `jsonb`."""
        sql, params = self.as_sql(compiler, connection)
        return sql + _JSONB, list(params)


class JsonField(models.JSONField):  # type: ignore[misc]
    """JSON in a view, of which keys and parts are found: `args__order_id=7`."""

    def get_internal_type(self) -> str:
        """Return the name of the field that it is like."""
        return "JSONField"

    def get_col(self, alias: str, output_field: Any = None) -> Col:
        """Return the column in a statement."""
        return _JsonColumn(alias, self, output_field)

    @property
    def cached_col(self) -> Col:
        """The column in a statement about one table."""
        return _JsonColumn(self.model._meta.db_table, self)

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        """Return what is selected: as it was written, which not everything has as `jsonb`."""
        if not sql.endswith(_JSONB):
            return sql, params
        return sql.removesuffix(_JSONB) + "::text", params


class MomentField(models.DateTimeField):  # type: ignore[misc]
    """A moment in a view: aware with USE_TZ, else in the project's time zone, as Django has it."""

    def get_internal_type(self) -> str:
        """Return a name of its own: the backend's conversion would take it for local time."""
        return "MomentField"

    def get_col(self, alias: str, output_field: Any = None) -> Col:
        """Return the column in a statement."""
        return _MomentColumn(alias, self, output_field)

    @property
    def cached_col(self) -> Col:
        """The column in a statement about one table."""
        return _MomentColumn(self.model._meta.db_table, self)

    def from_db_value(self, value: Any, expression: object, connection: Any) -> datetime | None:
        """Return a moment as Django's other fields do."""
        if isinstance(value, str):
            value = _read(value)
        if not isinstance(value, datetime):
            return None
        moment: datetime = value
        if moment.tzinfo is None:
            if is_postgresql(connection):  # local already: its session has the time zone
                return moment
            moment = moment.replace(tzinfo=UTC)
        if settings.USE_TZ:
            return moment
        local: datetime = timezone.make_naive(moment, timezone.get_default_timezone())
        return local

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """Return a moment in the form in which the database compares it with the column."""
        if not prepared:
            value = self.get_prep_value(value)
        if not isinstance(value, datetime):
            return value
        if timezone.is_naive(value):
            value = timezone.make_aware(value, timezone.get_default_timezone())
        if is_postgresql(connection):
            return value
        value = value.astimezone(UTC).replace(tzinfo=None)
        return value.strftime(_AS_DJANGO_WRITES) if is_sqlite(connection) else value


def _read(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # changed by hand; our own reading takes it for the same
        return EARLIEST_MOMENT
