"""The part of the SQL store for changes, schedules, limits, graphs, results and progress.

It calls the modules of the same names; it is one class because each part is only a few lines.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mutirao.errors import InvalidSubscription, StoreBusy, StoreRefused
from mutirao.model.jobs.claim import UnfitClaim
from mutirao.model.jobs.graph_flags import TAKES_RESULTS, flags_of
from mutirao.model.jobs.job import Claim
from mutirao.model.jobs.outcome import completion
from mutirao.model.limits.claims_and_wakes import without
from mutirao.model.limits.limits import LimitOrigin
from mutirao.model.row_json import UnreadableRow
from mutirao.sql import statements
from mutirao.sql.connections.runner import for_people
from mutirao.sql.schema import tables

if TYPE_CHECKING:
    from mutirao.model.jobs.change import Change
    from mutirao.model.jobs.job import Job
    from mutirao.model.jobs.outcome import Settlement
    from mutirao.model.jobs.records import Ending, GraphRecord, GraphState, JobFilter, Progress
    from mutirao.model.keys.uniqueness import Unique
    from mutirao.model.limits.limits import LimitRecord, Rule
    from mutirao.model.schedules.schedule import Agenda, Amend, Amended, ScheduleRecord, TickResult
    from mutirao.model.topics.subscriptions import (
        Replay,
        Replayed,
        Subscription,
        SubscriptionRecord,
    )
    from mutirao.ports import Attempt
    from mutirao.sql.connections.runner import Runner
    from mutirao.sql.dialects.base import Dialect
    from mutirao.sql.enqueue.intake import SqlIntake
    from mutirao.sql.store.locking import RowLocking

log = logging.getLogger("mutirao")
MAX_KEYS_PER_LOOK = 100  # whose rules are applied before others have their turn
# Subscriptions of a publication in one transaction; or publications, in a replay. A thousand are
# one part.
SUBSCRIPTIONS_AT_ONCE = 1_024


class SqlRecords:
    """The part of `SqlStore` that implements `mutirao.ports.records_api`."""

    _dialect: Dialect
    _intake: SqlIntake
    _finish: statements.topics.Finish
    _runner: Runner
    _insistent: Runner
    _patient: Runner
    _locking: RowLocking

    # Jobs that wait

    async def change(
        self, which: JobFilter, new: Change, *, now: datetime | None = None
    ) -> list[int]:
        """Give waiting jobs new values."""
        return await self._locking.order(
            lambda conn, which: statements.change.change(conn, self._dialect, which, new, now),
            which,
        )

    # Supersede

    async def declare_supersede(self, tasks: Mapping[str, Unique]) -> None:
        """Record which tasks have a supersede rule."""
        await self._insistent.run(statements.supersede.declare, tasks)

    async def judge(self, rules: Mapping[str, Unique], *, now: datetime | None = None) -> int:
        """Apply rules to jobs that SQL enqueued."""
        found = await self._runner.alone(statements.supersede.unjudged, [*rules], MAX_KEYS_PER_LOOK)
        for task, name in found:
            await self._insistent.run(statements.supersede.judge, name, task, rules[task], now)
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
        moment = self._dialect.moment(now, -before)
        return await self._patient.run(statements.inbox.prune, moment, limit)

    # Schedules

    async def agenda(self, *, without: Collection[str] = (), now: datetime | None = None) -> Agenda:
        """Return the schedules that are due."""
        return await self._runner.alone(statements.schedules.agenda, self._dialect, without, now)

    async def amend_schedule(
        self, name: str, amend: Amend, *, now: datetime | None = None
    ) -> Amended:
        """Change a schedule and make its jobs."""
        [amended] = await self.amend_schedules({name: amend}, now=now)
        return amended

    async def amend_schedules(
        self, amends: Mapping[str, Amend], *, now: datetime | None = None
    ) -> list[Amended]:
        """Change schedules and make their jobs."""
        amendments = statements.schedule_changes.Amending(
            self._dialect, self._intake.enqueue, amends, now
        )
        return await self._insistent.run(amendments.write)

    async def tick_schedules(
        self, limit: int, *, without: Collection[str] = (), now: datetime | None = None
    ) -> list[TickResult]:
        """Make the jobs of due schedules."""
        batch = statements.ticking.Batch(self._dialect, self._intake.enqueue, limit, without, now)
        return await self._insistent.run(batch.write)

    async def confirm_declared(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Record that schedules are in a worker's code."""
        await self._runner.alone(
            statements.workers.confirm_declared,
            tables.schedule,
            self._dialect,
            names,
            worker,
            every,
            now,
        )

    async def schedules(self) -> list[ScheduleRecord]:
        """List the schedules."""
        return await self._runner.read(for_people(statements.schedules.listed))

    # Limits

    async def put_limit(
        self,
        rule: Rule,
        *,
        origin: LimitOrigin = LimitOrigin.COMMAND,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Create a limit, or change the one of that name."""
        await self._locking.limits(
            self._insistent, statements.limits.put, self._dialect, rule, origin, worker, now
        )

    async def remove_limit(self, name: str, *, now: datetime | None = None) -> bool:
        """Remove a limit."""
        return await self._locking.limits(
            self._insistent, statements.limits.remove, self._dialect, name, now
        )

    async def confirm_declared_limits(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Record that limits are in a worker's code."""
        await self._runner.alone(
            statements.workers.confirm_declared,
            tables.limit,
            self._dialect,
            names,
            worker,
            every,
            now,
        )

    async def limits(self, most: int | None = None) -> list[LimitRecord]:
        """List the limits."""
        return await self._runner.read(for_people(statements.limits.listed), most)

    async def paused_queues(self) -> list[str]:
        """List the queues that are paused."""
        return await self._runner.read(for_people(statements.limits.paused_queues))

    # Topics

    async def put_subscription(
        self,
        subscription: Subscription,
        *,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Write a subscription."""
        await self.put_subscriptions([subscription], worker=worker, now=now)

    async def put_subscriptions(
        self,
        asked: Sequence[Subscription],
        *,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Write subscriptions."""
        await self._locking.limits(
            self._insistent, statements.subscriptions.put, self._dialect, asked, worker, now
        )

    async def set_subscription_active(
        self, id: str, active: bool, *, now: datetime | None = None
    ) -> bool:
        """Enable or disable a subscription."""
        return await self._insistent.run(
            statements.subscriptions.set_active, self._dialect, id, active, now
        )

    async def change_subscription(
        self, id: str, new: Mapping[str, Any], *, now: datetime | None = None
    ) -> bool:
        """Change values of a subscription."""
        return await self._insistent.run(
            statements.subscriptions.change, self._dialect, id, new, now
        )

    async def remove_subscription(self, id: str) -> bool:
        """Remove a subscription."""
        return await self._locking.limits(
            self._insistent, statements.subscriptions.remove, self._dialect, id
        )

    async def confirm_declared_subscriptions(
        self, ids: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Record that subscriptions are in a worker's code."""
        await self._runner.alone(
            statements.workers.confirm_declared,
            tables.subscription,
            self._dialect,
            ids,
            worker,
            every,
            now,
        )

    async def subscriptions(self) -> list[SubscriptionRecord]:
        """List the subscriptions."""
        return await self._runner.read(for_people(statements.subscriptions.listed))

    async def replay(self, asked: Replay, after: int) -> Replayed:
        """Make deliveries of earlier publications."""
        part = statements.replaying.Replaying(
            self._dialect, self._intake.enqueue, asked, SUBSCRIPTIONS_AT_ONCE
        )
        return await self._patient.run(part.go_on, after)

    async def fan_out(self, publication: Job, attempt: Attempt, after: str | None) -> str | None:
        """Make deliveries, and complete the publication with the last ones."""
        try:
            return await self._fan_out(publication, attempt, after)
        except (InvalidSubscription, StoreRefused):
            if not await self._disable_unfit(publication):
                raise
        return await self._fan_out(publication, attempt, after)

    async def _disable_unfit(self, publication: Job) -> bool:
        """Disable subscriptions whose rows were spoilt by hand; return whether there were any."""
        part = statements.unfit_subscriptions.DisableUnfit(
            self._dialect, self._intake.enqueue, publication, None
        )
        found = await self._patient.run(part.write)
        for id, reason in found.items():
            log.error(
                "subscription %s is disabled: %s. Then enable it (`mutirao subscriptions enable`);"
                " `mutirao replay --missing` delivers what it has missed",
                id,
                reason,
            )
        return bool(found)

    async def _fan_out(self, publication: Job, attempt: Attempt, after: str | None) -> str | None:
        done = completion(publication, attempt.started_ago())
        done_there, last = await self._fan_out_in_database(publication, done, after)
        if not done_there:
            last = await self._fan_out_in_parts(publication, done, after)
        if last is None:
            attempt.mark_settled()
        return last

    async def _fan_out_in_database(
        self, publication: Job, done: Settlement, after: str | None
    ) -> tuple[bool, str | None]:
        """Make the next deliveries by a function of the database; return whether it could."""
        dialect, first, runner = self._dialect, SUBSCRIPTIONS_AT_ONCE, self._patient
        if not dialect.delivers or not statements.topics.is_plain(publication, done):
            return False, None
        return await runner.insist(
            lambda: runner.alone(dialect.fan_out(publication, done, after, first))
        )

    async def _fan_out_in_parts(
        self, publication: Job, done: Settlement, after: str | None
    ) -> str | None:
        part = statements.topics.FanOut(
            self._dialect, self._intake.enqueue, self._finish, SUBSCRIPTIONS_AT_ONCE
        )
        try:
            return await self._patient.run(part.go_on, publication, done, after)
        except StoreBusy:
            # A subscription with an order is locked for long. The others need not wait for it, nor
            # for the next attempt.
            while after := await self._patient.run(part.pass_by, publication, after):
                pass
            raise

    async def _whole(self, claims: list[Claim]) -> list[Claim]:
        """Fill in what claims refer to. Most have no metadata, and refer to nothing."""
        flagged = [claim for claim in claims if claim.metadata is not None]
        if not flagged:
            return claims
        if steps := [claim for claim in flagged if claim.linked]:
            flags = _flags(claims, steps)
            flagged = [claim for claim in claims if claim.metadata is not None]
            if any(TAKES_RESULTS in each for each in flags):
                claims[:] = await self._runner.alone(statements.graphs.with_results, claims)
        if any(
            claim.key is not None and statements.topics.may_be_delivery(claim) for claim in flagged
        ):
            held = await self._insistent.run(statements.ordering.hold_back, self._dialect, flagged)
            claims = without(claims, held)
        if any(map(statements.topics.may_be_delivery, flagged)):
            claims[:] = await self._runner.alone(statements.topics.with_events, claims)
        return claims

    # Graphs, results, progress

    async def graphs(
        self, state: GraphState | None = None, limit: int | None = 100
    ) -> list[GraphRecord]:
        """List graphs."""
        return await self._runner.read(for_people(statements.records.graphs), state, limit)

    async def graph(self, id: int) -> GraphRecord:
        """Return one graph with its steps."""
        return await self._runner.read(for_people(statements.records.graph), id)

    async def endings(self, jobs: Collection[int]) -> list[Ending]:
        """Return how the jobs stand."""
        return await self._runner.read(for_people(statements.results.endings), list(jobs))

    async def await_ends(self, jobs: Collection[int]) -> None:
        """Request a notification when one of these jobs ends."""
        if self._dialect.notifies_ends:
            await self._runner.alone(statements.results.await_ends, self._dialect, list(jobs))

    async def report(self, told: Collection[Progress], *, now: datetime | None = None) -> None:
        """Write the progress of attempts."""
        await self._insistent.run(statements.results.report, self._dialect, list(told), now)


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
