"""Rules, applied in a transaction where they need one."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sqlalchemy import Connection

from mutirao.sql.connections.runner import Runner
from mutirao.sql.drivers.kinds import through
from mutirao.sql.drivers.steps import Asking
from mutirao.sql.drivers.together import together
from mutirao.sql.rules.base import Rules

P = ParamSpec("P")
R = TypeVar("R")


class Applying:
    """The part of a store that applies its rules."""

    _rules: Rules
    _runner: Runner
    _insistent: Runner
    _patient: Runner

    async def _apply(self, rule: Callable[P, Asking[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply a rule, in a transaction if the rules need one."""
        if (bracket := self._rules.bracket) is not None:
            return await self._insistent.insist(
                lambda: self._runner.alone(together(bracket, rule(*args, **kwargs)))
            )
        if self._rules.in_transaction:
            return await self._insistent.run(applied, rule, *args, **kwargs)
        return await self._insistent.insist(lambda: self._runner.alone(rule(*args, **kwargs)))

    async def _patiently(
        self, rule: Callable[P, Asking[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Apply a rule that may take long. A single statement is in no transaction of ours.

        Whoever prunes would wait for a machine that is paused within one.
        """
        if self._rules.in_transaction:
            return await self._patient.run(applied, rule, *args, **kwargs)
        return await self._patient.alone(rule(*args, **kwargs))


def applied(
    conn: Connection, rule: Callable[P, Asking[R]], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Apply a rule through a connection."""
    return through(conn, rule(*args, **kwargs))
