"""Sends the statements of a store: in a transaction or without one, once or again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from mutirao.model.jobs.job import Wake
from mutirao.sql.drivers.pipelining import in_one_transaction
from mutirao.sql.store.locking import RowLocking, applied

if TYPE_CHECKING:
    from mutirao.notifiers.hub_access import HubAccess
    from mutirao.sql.connections.runner import Body, Runner
    from mutirao.sql.dialects.base import Dialect
    from mutirao.sql.drivers.steps import Query
    from mutirao.sql.enqueue.intake import Enqueue
    from mutirao.sql.rules.base import Rules

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class StatementSender:
    """Sends the statements of a store, for itself and its parts.

    Parameters:
        dialect: that of the database.
        enqueue: writes jobs through a connection.
        runner: sends once.
        insistent: sends again what the database aborted for other transactions.
        patient: the same, for calls that take long.
        hub: receives a notification when jobs became ready; None: there is no hub.
    """

    dialect: Dialect
    enqueue: Enqueue
    runner: Runner
    insistent: Runner
    patient: Runner
    hub: HubAccess | None = None

    @cached_property
    def rules(self) -> Rules:
        """Those of the dialect."""
        return self.dialect.rules

    @cached_property
    def locking(self) -> RowLocking:
        """What runs bodies that lock the live rows of many jobs."""
        return RowLocking(self.rules, self.insistent, self.runner)

    async def apply(self, rule: Callable[P, Query[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply a rule, in a transaction if the rules need one."""
        if (bracket := self.rules.bracket) is not None:
            return await self.insistent.insist(
                lambda: self.runner.alone(in_one_transaction(bracket, rule(*args, **kwargs)))
            )
        if self.rules.in_transaction:
            return await self.insistent.run(applied, rule, *args, **kwargs)
        return await self.insistent.insist(lambda: self.runner.alone(rule(*args, **kwargs)))

    async def patiently(self, rule: Callable[P, Query[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply a rule that may take long. A single statement is in no transaction of ours.

        Pruning would wait for a machine that is paused within one.
        """
        if self.rules.in_transaction:
            return await self.patient.run(applied, rule, *args, **kwargs)
        return await self.patient.alone(rule(*args, **kwargs))

    async def look(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a body that reads many rows for people, in a transaction only if that is needed.

        One of SQLite keeps others from writing.
        """
        alone = not self.dialect.looks_up_in_transaction
        look = self.runner.read if alone else self.runner.run
        return await look(body, *args, **kwargs)

    def announce(self, ready: int) -> None:
        """Notify the hub, if there is one, that so many jobs became ready."""
        if self.hub is not None and self.hub.listens and ready:
            self.hub.announce(Wake(), ready)
