"""How a store reads for people: in a transaction only if the database needs it."""

from typing import ParamSpec, TypeVar

from mutirao.sql.connections.runner import Body, Runner
from mutirao.sql.dialects.base import Dialect

P = ParamSpec("P")
R = TypeVar("R")


class Looking:
    """A part of the store that looks at many rows, and writes none."""

    _dialect: Dialect
    _runner: Runner

    async def _look(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a body that only looks. One of SQLite keeps others from writing."""
        alone = not self._dialect.looks_up_in_transaction
        look = self._runner.read if alone else self._runner.run
        return await look(body, *args, **kwargs)
