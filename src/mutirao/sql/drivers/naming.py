"""Puts a chosen schema before the names of Mutirão's tables and functions in statements.

Statements are written without a schema. Each name gets it in the text, on its way to the driver: a
path (`search_path`) would be lost behind a pooler, and would hold for the caller's statements too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mutirao.sql.drivers.steps import Autocommits, Load, Query, R, Request, Rows, answered

# Execution option of a connection that is lent: what it says now is a handler's own.
IS_LENT = "mutirao_lent"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the set in `schema`; `qualify` gives a text of the dialect that schema."""

    schema: str
    qualify: Callable[[str, str], str]

    def steps(self, steps: Query[R]) -> Query[R]:
        """Return steps that do the same to this set."""
        return answered(steps, self._say)

    def say(
        self, conn: Any, cursor: object, sql: str, parameters: Any, context: object, many: bool
    ) -> tuple[str, Any]:
        """Listen to `before_cursor_execute`: a statement of the store is about this set."""
        if conn.get_execution_options().get(IS_LENT):
            return sql, parameters
        return self.qualify(sql, self.schema), parameters

    def _say(self, request: Request) -> Query[Rows]:
        return (yield self._request(request))

    def _request(self, request: Request) -> Request:
        if isinstance(request, Load):
            return replace(request, schema=self.schema)
        if isinstance(request, Autocommits):
            return request
        return request._replace(sql=self.qualify(request.sql, self.schema))


def named(names: Names | None, steps: Query[R]) -> Query[R]:
    """Return steps for the set that `names` says; as they are where no schema was chosen."""
    return steps if names is None else names.steps(steps)
