"""Bulk operations: one transaction, or one per job if others hold some of the rows.

Where callers lock live rows as their calls come, and not in one order at their commit, a
transaction that holds some rows must not wait for others: that would be a deadlock. So all rows are
locked without waiting, or each in a transaction of its own, which may wait. See ADR 36.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from mutirao.errors import StoreBusy, StoreError
from mutirao.model.limits.claims_and_wakes import Claimed, both
from mutirao.sql import statements
from mutirao.sql.drivers.failures import was_given_up
from mutirao.sql.drivers.kinds import through
from mutirao.sql.rules.base import Rules

if TYPE_CHECKING:
    from mutirao.model.jobs.job import Claim, Lane
    from mutirao.model.jobs.outcome import Settlement
    from mutirao.model.jobs.records import JobFilter
    from mutirao.sql.connections.runner import Runner
    from mutirao.sql.drivers.steps import Query

P = ParamSpec("P")
R = TypeVar("R")


def applied(
    conn: Connection, rule: Callable[P, Query[R]], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Apply a rule through a connection."""
    return through(conn, rule(*args, **kwargs))


T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RowLocking:
    """Runs bodies that lock the live rows of many jobs.

    Parameters:
        rules: say whether rows may be waited for while others are held.
        insistent: runs a transaction, and again if it was given up for others.
        runner: runs it once.
    """

    rules: Rules
    insistent: Runner
    runner: Runner

    async def order(
        self, body: Callable[[Connection, JobFilter], list[int]], which: JobFilter
    ) -> list[int]:
        """Act on all jobs that match; return their ids."""

        async def one_by_one() -> list[int]:
            found = await self.runner.run(statements.job_admin.matching_live, which)
            batches = [await self.insistent.run(body, replace(which, ids=(id,))) for id in found]
            return [id for ids in batches for id in ids]

        return await self._in_batch(lambda runner: runner.run(body, which), one_by_one)

    async def claim(
        self,
        some: Callable[[int], Awaitable[list[Claim]]],
        lanes: Sequence[Lane],
        limit: int,
    ) -> list[Claim]:
        """Claim up to `limit` jobs by as many transactions as it takes.

        Claimed jobs are returned although a later transaction fails: no other would run them.
        """
        claims = await some(limit)
        again = getattr(claims, "again", False)
        if not again:
            return claims
        while again and len(claims) < limit:
            try:
                more = await some(limit - len(claims))
            except StoreError as error:
                log.warning("claiming more failed: %s", error)
                break
            claims.extend(more)
            again = getattr(more, "again", False)
            if isinstance(claims, Claimed) and isinstance(more, Claimed):
                claims.woken += more.woken
        from mutirao.sql.rules.fairness import in_order

        return in_order(claims, lanes, [claim.id for claim in claims])

    async def limits(
        self,
        runner: Runner,
        body: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Change limits by a runner; then see to the jobs that others had then, one by one."""

        def changing(conn: Connection) -> tuple[T, bool]:
            return body(conn, *args, **kwargs), statements.limits.has_left_some(conn)

        changed, some_left = await runner.run(changing)
        for job in await self.runner.alone(self.rules.left_by_limits()) if some_left else ():
            await self.insistent.run(self._catch_up, job)
        return changed

    def _catch_up(self, conn: Connection, job: int) -> None:
        through(conn, self.rules.catch_up(job, None))

    async def settle(
        self,
        body: Callable[[Connection, Sequence[Settlement], Sequence[Settlement]], set[int]],
        done: Sequence[Settlement],
        waiting: Sequence[Settlement],
    ) -> set[int]:
        """Settle jobs of which some are waited for; return those whose runs were current."""
        if self.rules.waits_while_holding:
            return await self.insistent.run(body, done, waiting)
        settled = await self._settle_some(lambda some: (some, ()), body, done)
        return both(settled, await self._settle_some(lambda some: ((), some), body, waiting))

    async def _settle_some(
        self,
        parts: Callable[[Sequence[Settlement]], tuple[Any, Any]],
        body: Callable[..., set[int]],
        some: Sequence[Settlement],
    ) -> set[int]:
        async def one_by_one() -> set[int]:
            settled = set[int]()
            for each in some:
                settled = both(settled, await self.insistent.run(body, *parts([each])))
            return settled

        if len(some) <= 1:
            return await one_by_one()
        return await self._in_batch(lambda runner: runner.run(body, *parts(some)), one_by_one)

    async def _in_batch(
        self, all: Callable[[Runner], Awaitable[T]], one_by_one: Callable[[], Awaitable[T]]
    ) -> T:
        if self.rules.waits_while_holding:
            return await all(self.insistent)
        try:
            return await all(self.runner)
        except StoreBusy as error:
            if not was_given_up(error):
                raise
        return await one_by_one()
