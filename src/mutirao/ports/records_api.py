"""The parts of a store for schedules, limits, topics, changes and graphs, as protocols.

The rest of the store, and the meaning of `now`, is in `mutirao.ports.store`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from mutirao.model.limits.limits import LimitOrigin

if TYPE_CHECKING:
    from mutirao.model.jobs.change import Change
    from mutirao.model.jobs.job import Attempt, Job
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


class DeclaredApi(Protocol):
    """A part whose rows programs may have in their code."""

    async def confirm_declared(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Record that a worker has those of these names, or ids, in its code.

        Only for those that were declared in code and whose last confirmation is older than `every`
        seconds. Those that another transaction has locked are skipped until the next call.
        """
        ...


class SchedulesApi(DeclaredApi, Protocol):
    """`store.schedules`.

    The functions of `mutirao.model.schedules.schedule_rules` decide how one changes.
    """

    async def agenda(self, *, without: Collection[str] = (), now: datetime | None = None) -> Agenda:
        """Return the schedules that are due, and the time until the next one is.

        A schedule is due if it is not paused and its next tick has come, or if it awaits the end of
        a job that is no longer live. If very many are due, only the first ones are returned, at
        least `mutirao.model.schedules.schedule.MANY_DUE`. Schedules named in `without` are left
        out, as by `tick`. Reads only.
        """
        ...

    async def amend(self, name: str, amend: Amend, *, now: datetime | None = None) -> Amended:
        """Lock a schedule, ask `amend` how it changes, and write the change: one transaction.

        `amend` receives the state of the schedule, with everything that was committed before the
        lock was taken, and the time. It may be called again if another transaction created a
        schedule of that name at the same moment. Its errors reach the caller, and nothing is
        written. Jobs are enqueued as usual, idle workers are woken, and each job is recorded with
        its tick: no tick ever gets a second job.

        Raises:
            WrongState: a tick has a job already; nothing was written.
        """
        ...

    async def amend_all(
        self, amends: Mapping[str, Amend], *, now: datetime | None = None
    ) -> list[Amended]:
        """Change each of several schedules as by `amend`: all in one transaction, or none.

        `amends` are by the schedules' names; what was written is returned in their order. If one
        of them raises, none is changed. Schedules that are not changed, and new ones, cost a few
        statements for all of them.

        Raises:
            WrongState: a tick has a job already; nothing was written.
        """
        ...

    async def tick(
        self, limit: int, *, without: Collection[str] = (), now: datetime | None = None
    ) -> list[TickResult]:
        """Let due schedules tick, up to `limit` of them, in one transaction; return the results.

        Each is changed as by `amend` with `mutirao.model.schedules.schedule_rules.tick`.
        Those that have been due longest come first. Schedules that another transaction has locked
        are skipped, never waited for, so several workers take different ones. Fewer than `limit`
        are taken if they make very many jobs. One that cannot tick, because of its row or because
        the database refuses what it makes, stays as it was and is returned with the error; the
        others are written. Schedules named in `without` are left alone.

        Raises:
            StoreError: the database cannot be used, or refuses to say which are due; nothing was
                written.
        """
        ...

    async def listed(self) -> list[ScheduleRecord]:
        """List the schedules by name, with their next ticks and the outcomes of their last jobs."""
        ...


class LimitsApi(DeclaredApi, Protocol):
    """`store.limits`; see `mutirao.model.limits.limits`.

    At no moment do more jobs of a limited queue, task or value of an argument run than the limit
    allows, whichever workers claim them. A rate never lets more jobs start than its burst plus the
    tokens that have arrived since. A job is claimed only if all of its limits have room; otherwise
    it is `blocked` and costs nothing until there is room. The slots that a run holds are released
    when the run ends.
    """

    async def put(
        self,
        rule: Rule,
        *,
        origin: LimitOrigin = LimitOrigin.COMMAND,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Create a limit, or change the one of that name; it is in force when this returns.

        Jobs that run already are counted. With `origin` CODE, a worker declares a limit of its
        code: an existing limit changes only if the declaration differs from the last one.
        """
        ...

    async def remove(self, name: str, *, now: datetime | None = None) -> bool:
        """Remove a limit and release the jobs that waited for it; return whether it existed."""
        ...

    async def listed(self, most: int | None = None) -> list[LimitRecord]:
        """List the limits by name and key, with their current use.

        With `most`, only so many: those for which most jobs wait, and those that are paused.
        """
        ...

    async def paused_queues(self) -> list[str]:
        """List the paused queues, by name, without reading running or waiting jobs."""
        ...


class SubscriptionsApi(DeclaredApi, Protocol):
    """`store.subscriptions`: topics and their subscriptions; see `mutirao.model.topics.topics`.

    The job of a topic's task is a publication. A claim of a delivery has as arguments an object of
    `event`, the fields of `mutirao.model.topics.topics.Event`, and `payload`, the publication's
    arguments. A publication is not pruned while a delivery of it is kept. A redriven delivery is
    one again.
    """

    async def put(
        self,
        subscription: Subscription,
        *,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Create a subscription, or replace the one of that id; a disabled one stays disabled.

        With `worker`, that worker declares one of its code: an existing one changes only if the
        declaration differs from the last one. It is in force for publications that are fanned out
        from now on.
        """
        ...

    async def put_all(
        self,
        asked: Sequence[Subscription],
        *,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Put each of several subscriptions, with different ids: all in one transaction, or none.

        As by `put`. New ones, and those that stay as they are, cost a few statements
        for all of them.
        """
        ...

    async def set_active(self, id: str, active: bool, *, now: datetime | None = None) -> bool:
        """Enable or disable a subscription; return whether it exists.

        While it is disabled nothing is fanned out to it. Deliveries that it has are left alone.
        """
        ...

    async def change(self, id: str, new: Mapping[str, Any], *, now: datetime | None = None) -> bool:
        """Give a subscription new values, and leave all others; return whether it exists.

        `new`: some of topic, tenant, group, filter, order_by, when_dead, queue and priority, which
        must fit the other values: callers have checked that.
        """
        ...

    async def remove(self, id: str) -> bool:
        """Remove a subscription; return whether it existed. Its deliveries are left alone."""
        ...

    async def listed(self) -> list[SubscriptionRecord]:
        """List the subscriptions by id."""
        ...

    async def replay(self, asked: Replay, after: int) -> Replayed:
        """Make deliveries of the next publications after this id, in the order of their ids.

        These are publications that were delivered to subscriptions, and that this one receives by
        its topic, tenant, group and filter, paused or not. All of it is one commit; with `missing`
        existing deliveries are not made again. A publication that a worker is about to deliver is
        left to it.

        Raises:
            UnknownSubscription: there is none of that id.
            InvalidSubscription: it does not receive that topic, or cannot be read.
            InvalidArguments: a filter has to be checked, and a publication cannot be read.
        """
        ...

    async def fan_out(self, publication: Job, attempt: Attempt, after: str | None) -> str | None:
        """Make a job for each of the next subscriptions to a topic, in the order of their ids.

        Only subscriptions that are active, are for any tenant and group or the publication's, and
        whose filter the payload passes. First come all those with `order_by`, and missing
        deliveries to them of earlier publications that are due: so their jobs are made in the order
        of publications. `claim` does not return a job while an earlier one of its subscription and
        value is live, or is dead with `when_dead` `stop` and was not redriven.

        All of it is one commit. With the last subscriptions the publication is completed in the
        same commit, and `attempt` is informed. Otherwise returns the last subscription of this
        call, for the next call. With `after` None it continues where an earlier run has ended, if
        there was one: each subscription gets one job.

        Raises:
            StaleRun: another run has the publication; nothing was written.
            InvalidSubscription: a subscription in the database cannot be read.
            InvalidArguments: a filter has to be checked, and the payload cannot be read.
        """
        ...


class RecordsApi(Protocol):
    """Changes, the inbox, graphs, results and progress; part of `Store`."""

    # Waiting jobs

    async def change(
        self, which: JobFilter, new: Change, *, now: datetime | None = None
    ) -> list[int]:
        """Give waiting jobs new values, effective at once; return their ids.

        Running and finished jobs are left alone. Earlier attempts still count. A job that is
        blocked by another one stays blocked, and has the new values when it is released. The same
        holds for a job that is blocked by a limit; it gets the place among the waiting ones that
        the new values give it. But if its queue changes, or it is due later, it is released, and
        the limit is checked again when it is claimed. A job keeps the unique key that it was
        enqueued with, in the queue in which it was. Fair jobs take turns in their new queue. All
        workers are woken.
        """
        ...

    # Supersede, for jobs that SQL enqueues

    async def declare_supersede(self, tasks: Mapping[str, Unique]) -> None:
        """Record which of these tasks have a supersede rule, and in which scope; others have none.

        From now on a job of such a task that SQL enqueues with a key is blocked until the rule has
        decided. Its other keys, and redrives, are labels as before.
        """
        ...

    async def judge(self, rules: Mapping[str, Unique], *, now: datetime | None = None) -> int:
        """Apply the rules of these tasks to some jobs that SQL enqueued; return the number of keys.

        Each key is one transaction, under its lock. Its jobs are placed in the order of their ids,
        as if they were enqueued now. A job that the rule drops, or for which it raises InvalidJob,
        is cancelled. A caller that enqueues a job with such a key under the rule first applies the
        rule to the waiting ones.
        """
        ...

    # Graphs, results, progress

    async def graphs(
        self, state: GraphState | None = None, limit: int | None = 100
    ) -> list[GraphRecord]:
        """List graphs, newest first, without their steps."""
        ...

    async def graph(self, id: int) -> GraphRecord:
        """Return a graph with its steps, in the order of the plan, all read at one moment.

        Raises:
            UnknownGraph: no graph has that id.
        """
        ...

    async def endings(self, jobs: Collection[int]) -> list[Ending]:
        """Return the states of the jobs, with their results; unknown jobs are left out."""
        ...

    async def await_ends(self, jobs: Collection[int]) -> None:
        """Request a notification, by the notifier of ends, when one of these jobs ends.

        The notification is immediate only for jobs that keep results or are steps of a graph.
        """
        ...

    async def report(self, told: Collection[Progress], *, now: datetime | None = None) -> None:
        """Write the progress of attempts; progress that a later run of a job reported is kept."""
        ...
