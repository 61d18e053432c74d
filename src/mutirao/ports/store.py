"""The system of record, as workers, handlers and people use it.

Times: where a method takes `now`, None means the database's own clock, which production uses; tests
pass an aware datetime. All durations are in seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from mutirao.ports.audit import AuditApi
from mutirao.ports.carried import CarriedApi
from mutirao.ports.endpoints import EndpointsApi
from mutirao.ports.federation import FederationApi
from mutirao.ports.intake import Intake
from mutirao.ports.limits import LimitsApi
from mutirao.ports.reading import ReadingApi
from mutirao.ports.schedules import SchedulesApi
from mutirao.ports.subscriptions import SubscriptionsApi
from mutirao.ports.unreadable_rows import SiftingApi

if TYPE_CHECKING:
    from mutirao.model.deploys import Deployed
    from mutirao.model.jobs.change import Change
    from mutirao.model.jobs.job import (
        Attempt,
        Beat,
        Claim,
        Gives,
        Job,
        Lane,
        LaneHead,
        NewWorker,
        OutcomeKind,
        Transaction,
        Using,
    )
    from mutirao.model.jobs.outcome import Settlement
    from mutirao.model.jobs.records import (
        Ending,
        GraphRecord,
        GraphState,
        JobFilter,
        JobRecord,
        Progress,
        QueueCount,
        WorkerRecord,
    )
    from mutirao.model.keys.uniqueness import Unique


class Store(Intake, CarriedApi, SiftingApi, Protocol):
    """The system of record."""

    # Its parts

    @property
    def schedules(self) -> SchedulesApi:
        """Schedules."""
        ...

    @property
    def limits(self) -> LimitsApi:
        """Limits."""
        ...

    @property
    def subscriptions(self) -> SubscriptionsApi:
        """Topics and their subscriptions."""
        ...

    @property
    def reading(self) -> ReadingApi:
        """What pages show."""
        ...

    @property
    def audit(self) -> AuditApi:
        """Actions on many jobs, and their audit."""
        ...

    @property
    def endpoints(self) -> EndpointsApi:
        """Endpoints, webhooks and breakers."""
        ...

    @property
    def federation(self) -> FederationApi:
        """Hosts, and what was sent to them last."""
        ...

    async def check(self) -> None:
        """Raise one of the errors of the schema if the tables do not fit the code."""
        ...

    async def close(self) -> None:
        """Close every connection. Safe to call twice; the store reconnects when it is next used."""
        ...

    def clone(self, connections: int = 1, *, within: float | None = None) -> Store:
        """Return another handle on the same data that keeps up to `connections` of its own.

        A worker has one, and its heartbeat has another in its own thread and event loop, so that
        nothing in the worker can delay the heartbeat. The asynchronous calls of the handle fail
        with StoreBusy after `within` seconds, whatever the database and the network do; calls that
        read all jobs, and `prune`, may take longer.
        """
        ...

    def cut(self) -> None:
        """Make the running calls of this handle fail now, if they have a time limit."""
        ...

    # Workers and their liveness

    async def register(
        self, worker: NewWorker, *, expiry: float, now: datetime | None = None
    ) -> int:
        """Add a worker, alive for `expiry` seconds and listening; return its id, never reused."""
        ...

    async def beat(
        self,
        worker: int,
        *,
        expiry: float,
        stuck: int = 0,
        late: float = 0.0,
        duty: str | None = None,
        now: datetime | None = None,
    ) -> Beat:
        """Extend a worker's life by `expiry` seconds and record its state.

        Parameters:
            stuck: the number of its slots that are stuck.
            late: the longest delay of its recent beats, in seconds.
            duty: a duty about which it wants to know, as by `held_elsewhere`; None: none.

        Returns whether the worker is still registered (False: its jobs have been rescued), which of
        its running jobs have a request to cancel, and for how long another worker holds the duty.
        """
        ...

    async def listen(self, worker: int, listening: bool) -> None:
        """Record whether this worker wants notifications of new jobs; only idle workers do."""
        ...

    async def deployed(self, but: str, *, now: datetime | None = None) -> list[Deployed]:
        """Return what live workers with another version of their application than `but` serve.

        Only of workers that gave their version and have beaten since they were registered: a worker
        that ends right after its start has taken over nothing.
        """
        ...

    async def retire(self, worker: int) -> None:
        """Remove a worker that has ended. The jobs it still holds are released, unattempted."""
        ...

    # Claiming and settling

    async def lanes(
        self, queues: Collection[str] | None, *, now: datetime | None = None
    ) -> list[LaneHead]:
        """Return every lane that has waiting jobs, with its true lower bound.

        Only lanes of `queues`, unless that is None. Ordered by priority, then by queue.
        """
        ...

    async def claim(
        self,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        *,
        without: Collection[str] = (),
        now: datetime | None = None,
    ) -> list[Claim]:
        """Claim up to `limit` due jobs exclusively for a worker, and return them.

        Reads the lanes in the given order, each from its lower bound, in (run_at, id) order. Of
        lanes with the same priority it may take a part from each, but in total no fewer than it
        finds. Jobs that another claim is taking at this moment are skipped, never waited for. Jobs
        of tasks named in `without` are skipped. Each claim adds one to the job's `run` and
        `attempt`; after 2,147,483,647 a run is followed by 1. The jobs are returned in the order of
        the lanes, then (run_at, id). Arguments that are the results of other steps are filled in,
        with null if a step has no result. If it stops at jobs that have to wait for others, a
        `Claimed` is returned, whose `woken` are the lanes in which more may be due behind them.

        Raises:
            WorkerGone: the worker is not registered (any more), so no worker would rescue the jobs
                that it takes; nothing was claimed.
        """
        ...

    async def settle(
        self, worker: int, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> set[int]:
        """Write the outcomes of attempts and return the ids of the jobs that were settled.

        A settlement whose run is not the job's current one is stale: neither it nor its follow-up
        is written, and its id is not returned. Each settlement appends one attempt row. Final
        outcomes remove the job from the live table; `retried`, `snoozed` and `released` make it
        wait until `outcome.at`, or for `after` seconds from now; the last two do not count the
        attempt. A claim contains how many workers in a row were lost with a job (`lost`), and how
        many of its attempts in a row were released as `Fault.CONNECTION` (`cut_off`); one released
        as `Fault.WORKER` counts as lost, and one released for neither leaves both counts unchanged.
        A job with a request to cancel is due at once instead, and its next claim has
        `Claim.cancel`. When a `keyed` job ends, the job that waits for it becomes due at its own
        time. The same happens when a `keyed` job would wait again and a newer job of its unique key
        waits for it: the older one is then cancelled as superseded. When a `linked` job ends, its
        result is stored, if it has one, the steps behind it are released (see `enqueue_graph`), and
        listeners for its end are notified. If an outcome `stops` the schedule that made its job,
        that is paused. All in one transaction. The return value may be a
        `mutirao.model.limits.limits.Settled`, which has the lanes in which other jobs became ready.
        """
        ...

    async def release(self, jobs: Sequence[tuple[int, int]]) -> set[int]:
        """Release claimed jobs (id, run) that were never started; no attempt, no history.

        They keep their position in the lane. Returns the ids of the released jobs; stale ones are
        left out.
        """
        ...

    async def lose(
        self, jobs: Sequence[tuple[int, int]], *, now: datetime | None = None
    ) -> set[int]:
        """Record that runs (job, run) were lost, and make those jobs wait again.

        Does what `rescue` does, for a worker that was considered gone and knows which jobs it had
        started under its former id. Returns the ids; stale ones are left out.
        """
        ...

    async def note_start(self, worker: int, job: int, run: int, *, lost: int, attempt: int) -> bool:
        """Record the start of a job that vanished workers have held; return False if it is stale.

        A rescue counts each job that was held; this record distinguishes those that had begun
        (`mutirao.model.jobs.lost_workers`).

        Parameters:
            lost: the count to be stored.
            attempt: the number of the attempt that starts.
        """
        ...

    async def unlocked(self, jobs: Collection[int]) -> set[int]:
        """Return those of these jobs that are live and that no other transaction has locked.

        Only a hint, because that may change at once. A database without row locks returns all that
        are live.
        """
        ...

    async def held(self, worker: int) -> list[tuple[int, int]]:
        """Return (id, run) of every job that this worker holds according to the tables.

        If the response to a claim was lost with its connection, the worker holds jobs that it does
        not know of; this finds them, so that it can release them.
        """
        ...

    # Housekeeping. Any worker may call these; leases keep two workers from doing so at once.

    async def lease(
        self, duty: str, worker: int, *, ttl: float, every: float, now: datetime | None = None
    ) -> bool:
        """Try to become the worker that performs `duty` now; return whether that succeeded.

        It succeeds if no other worker holds the duty (a lease ends `ttl` seconds after it was
        taken) and if the duty was last taken at least `every` seconds ago.
        """
        ...

    async def held_elsewhere(self, duty: str, worker: int, *, now: datetime | None = None) -> float:
        """Return the seconds for which another worker holds a duty; 0.0 if no other does."""
        ...

    async def rescue(
        self, *, orphans: bool = True, now: datetime | None = None
    ) -> list[tuple[int, int]]:
        """Remove workers whose heartbeat expired and make their jobs wait again.

        Each of their jobs gets an attempt with outcome `lost` and a new run, so that the vanished
        worker cannot settle anything should it come back. The attempt stays counted; the job keeps
        its position in the lane and is ready at once, even if it is out of attempts: the worker
        that claims it next decides about that. Returns (job id, new run). Idle workers are woken.

        Also releases blocked jobs whose limits have room, in case their release was missed.

        Orphans are jobs held under a worker id that is not registered (any more). The store may
        leave them alone if `orphans` is False.
        """
        ...

    async def prune(
        self, outcome: OutcomeKind, before: float, limit: int, *, now: datetime | None = None
    ) -> int:
        """Delete jobs that ended with `outcome` more than `before` seconds ago, with all attempts.

        Deletes at most `limit` jobs, oldest first, and returns how many. Live jobs are never
        touched, nor are the steps of a graph that has live ones. A job whose last attempt was
        `lost` before it died has its own `dead` row. Results and progress are deleted with their
        jobs, a graph with its last job; results that have expired are deleted when `outcome` is
        succeeded.
        """
        ...

    async def end_expired(self, limit: int, *, now: datetime | None = None) -> int:
        """End waiting jobs that have expired, as cancelled.

        At most `limit`, the earliest first; returns how many. Running ones continue. Workers end
        the expired jobs that they claim, so these are of tasks that no worker serves, or wait for
        others.
        """
        ...

    async def prune_inbox(self, before: float, limit: int, *, now: datetime | None = None) -> int:
        """Forget messages that were first remembered more than `before` seconds ago.

        At most `limit`, oldest first; returns how many.
        """
        ...

    async def roll_up(self, keep: float | None, *, now: datetime | None = None) -> bool:
        """Add up finished jobs by the hour; each call does a part of the whole history.

        `counts` and the views of docs/sql.md are right with it and without it, but fast only with
        it. Hours and errors older than `keep` seconds are forgotten; None: never. Returns whether
        there is more.
        """
        ...

    async def mend(self, *, now: datetime | None = None) -> dict[str, int]:
        """Repair some leftovers: jobs that nothing blocks any more, and rows whose jobs are gone.

        Changes by hand leave these behind. Rows that another transaction has locked are left for
        the next call. Returns how many were repaired, by a description for people.
        """
        ...

    async def refresh_statistics(self) -> None:
        """Update the query planner's statistics."""
        ...

    async def declare_fairness(self, tasks: Mapping[str, str | None]) -> None:
        """Record by which argument the jobs of each task are claimed fairly; None: by none.

        Applies to jobs that are enqueued from now on without `NewJob.fair_by`: in SQL, or by a
        redrive. Fair jobs wait in lanes of their own (`mutirao.model.limits.fairness.fair_lane`).
        There `claim` takes the most urgent due job of each value, in rounds; each worker continues
        after the value that was served last. No job is expected before the bounds, as in other
        lanes. These claims are `FairClaim`s, in the order of the rounds. A job that is retried with
        an outcome that is `apart` leaves these lanes for the plain lane of its queue. In all other
        respects fair jobs are ordinary jobs of the queue they were enqueued in.
        """
        ...

    # For handlers, people and dashboards

    def transaction(
        self, job: Job, attempt: Attempt, *, gives: Gives | Using
    ) -> Transaction[Any, Any]:
        """Open the transaction of `job.transaction()`; notify `attempt` when it has committed.

        Raises:
            WrongState: `gives` names a connection of the program, which has none of its own.
        """
        ...

    async def jobs(self, which: JobFilter) -> list[JobRecord]:
        """List jobs, newest first, without their attempts."""
        ...

    async def job(self, id: int) -> JobRecord:
        """Return one job with all its attempts, read at one moment.

        Raises:
            UnknownJob: no job has that id.
        """
        ...

    async def counts(self) -> list[QueueCount]:
        """Count the jobs of every queue by state, finished jobs included."""
        ...

    async def workers(self, *, near: bool = False) -> list[WorkerRecord]:
        """List the registered workers, alive or not, and how many jobs each holds.

        Parameters:
            near: an exact number is not needed if it would take reading all live jobs: then jobs
                are counted that are among the first of their lane, or the newest.
        """
        ...

    async def cancel(self, which: JobFilter, *, now: datetime | None = None) -> list[int]:
        """Cancel live jobs; return their ids.

        A waiting job is finished at once with outcome `cancelled`; a running one is flagged, and
        its worker learns of it with its next heartbeat.
        """
        ...

    async def run_now(self, which: JobFilter, *, now: datetime | None = None) -> list[int]:
        """Make waiting jobs due now, whatever their `run_at`; return their ids.

        Jobs that are blocked, by a job with their key, by earlier steps or by a limit, are left
        alone.
        """
        ...

    async def redrive(self, which: JobFilter) -> list[int]:
        """Enqueue finished jobs again as new jobs with `redrive_of` set; return the new ids.

        These are dead jobs, or jobs in any final state if `which` has ids or a state. They stay in
        history. A job that was redriven before is skipped, unless it is named in `which.ids`. See
        `enqueue_graph` for steps; a step that does not take its place again has the earlier results
        as arguments.
        """
        ...

    async def unserved_tasks(self, known: Collection[str]) -> dict[str, int]:
        """Count waiting jobs by task, for tasks not in `known`.

        If very many wait, only those in front of each lane are counted.
        """
        ...

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
