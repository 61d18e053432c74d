"""The part of the SQL store for changes, supersede, the inbox, graphs, results and progress.

It calls the modules of the same names; it is one class because each part is only a few lines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.model.jobs.claim import UnfitClaim
from mutirao.model.jobs.graph_flags import TAKES_RESULTS, flags_of
from mutirao.model.jobs.job import Claim
from mutirao.model.limits.claims_and_wakes import without
from mutirao.model.row_json import UnreadableRow
from mutirao.sql import statements
from mutirao.sql.connections.runner import for_people

if TYPE_CHECKING:
    from mutirao.model.jobs.change import Change
    from mutirao.model.jobs.records import Ending, GraphRecord, GraphState, JobFilter, Progress
    from mutirao.model.keys.uniqueness import Unique
    from mutirao.sql.enqueue.intake import SqlIntake
    from mutirao.sql.store.sender import StatementSender

MAX_KEYS_PER_LOOK = 100  # whose rules are applied before others have their turn


class SqlRecords:
    """The part of `SqlStore` for changes, supersede, the inbox, graphs, results and progress."""

    _sender: StatementSender
    _intake: SqlIntake

    # Jobs that wait

    async def change(
        self, which: JobFilter, new: Change, *, now: datetime | None = None
    ) -> list[int]:
        """Give waiting jobs new values."""
        ids = await self._sender.locking.order(
            lambda conn, which: statements.change.change(
                conn, self._sender.dialect, which, new, now
            ),
            which,
        )
        self._sender.announce(len(ids))
        return ids

    # Supersede

    async def declare_supersede(self, tasks: Mapping[str, Unique]) -> None:
        """Record which tasks have a supersede rule."""
        await self._sender.insistent.run(statements.supersede.declare, tasks)

    async def judge(self, rules: Mapping[str, Unique], *, now: datetime | None = None) -> int:
        """Apply rules to jobs that SQL enqueued."""
        found = await self._sender.runner.alone(
            statements.supersede.unjudged, [*rules], MAX_KEYS_PER_LOOK
        )
        for task, name in found:
            await self._sender.insistent.run(
                statements.supersede.judge, name, task, rules[task], now
            )
        return len(found)

    # The inbox

    def remember(self, consumer: str, message: str, conn: object) -> bool:
        """Remember a message in the transaction of `conn`; return whether it is new."""
        return self._intake.remember(consumer, message, conn)

    async def aremember(self, consumer: str, message: str, conn: object) -> bool:
        """Remember a message in the transaction of an asynchronous `conn`; see `remember`."""
        return await self._intake.aremember(consumer, message, conn)

    async def prune_inbox(self, before: float, limit: int, *, now: datetime | None = None) -> int:
        """Forget some old messages."""
        sender, prune = self._sender, statements.inbox.prune
        return await sender.patient.run(prune, sender.dialect, before, limit, now)

    async def _whole(self, claims: list[Claim]) -> list[Claim]:
        """Fill in what claims refer to. Most have no metadata, and refer to nothing."""
        flagged = [claim for claim in claims if claim.metadata is not None]
        if not flagged:
            return claims
        if steps := [claim for claim in flagged if claim.linked]:
            flags = _flags(claims, steps)
            flagged = [claim for claim in claims if claim.metadata is not None]
            if any(TAKES_RESULTS in each for each in flags):
                claims[:] = await self._sender.runner.alone(statements.graphs.with_results, claims)
        if any(
            claim.key is not None and statements.topics.may_be_delivery(claim) for claim in flagged
        ):
            held = await self._sender.insistent.run(
                statements.ordering.hold_back, self._sender.dialect, flagged
            )
            claims = without(claims, held)
        if any(map(statements.topics.may_be_delivery, flagged)):
            claims[:] = await self._sender.runner.alone(statements.topics.with_events, claims)
        return claims

    # Graphs, results, progress

    async def graphs(
        self, state: GraphState | None = None, limit: int | None = 100
    ) -> list[GraphRecord]:
        """List graphs."""
        return await self._sender.runner.read(for_people(statements.records.graphs), state, limit)

    async def graph(self, id: int) -> GraphRecord:
        """Return one graph with its steps."""
        return await self._sender.runner.read(for_people(statements.records.graph), id)

    async def endings(self, jobs: Collection[int]) -> list[Ending]:
        """Return how the jobs stand."""
        return await self._sender.runner.read(for_people(statements.results.endings), list(jobs))

    async def await_ends(self, jobs: Collection[int]) -> None:
        """Request a notification when one of these jobs ends."""
        if self._sender.dialect.notifies_ends:
            await self._sender.runner.alone(
                statements.results.await_ends, self._sender.dialect, list(jobs)
            )

    async def report(self, told: Collection[Progress], *, now: datetime | None = None) -> None:
        """Write the progress of attempts."""
        await self._sender.insistent.run(
            statements.results.report, self._sender.dialect, list(told), now
        )


def _flags(claims: list[Claim], steps: Collection[Claim]) -> list[frozenset[str]]:
    """Return the flags of steps; those whose flags cannot be read are not to run, in `claims`."""
    flags, unfit = list[frozenset[str]](), dict[int, Claim]()
    for claim in steps:
        try:
            flags.append(flags_of(claim.metadata))
        except UnreadableRow as error:
            unfit[claim.id] = UnfitClaim.of(claim, str(error))
    if unfit:
        claims[:] = [unfit.get(claim.id, claim) for claim in claims]
    return flags
