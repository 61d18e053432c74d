"""What the engine needs of the world, as protocols with their contracts.

A backend implements these and passes the suites in `mutirao.testing.conformance`; the engine
knows nothing else of it. Times: where a method takes `now`, None means the database's own clock,
which is what production uses; tests pass an aware datetime. All lengths of time are seconds.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from mutirao.job import (
    Beat,
    Claim,
    Job,
    Lane,
    LaneHead,
    NewJob,
    NewWorker,
    OutcomeKind,
    Settlement,
    Transaction,
    Wake,
)
from mutirao.limit import LimitRecord, Origin, Rule
from mutirao.records import JobFilter, JobRecord, QueueCount, WorkerRecord
from mutirao.schedule import Agenda, Amend, Amended, ScheduleRecord


class Intake(Protocol):
    """How jobs get in. Both faces write the same; neither commits a caller's transaction."""

    def enqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Write jobs and return their ids, in order.

        With `conn`, inside the caller's transaction: visible to others when the caller commits,
        gone when it rolls back (savepoints included); the connection is left as it was found.
        Without, in a short transaction of its own. Either all of `jobs` are written or none.
        Idle workers that listen are woken at commit, with one notification at most a call.
        Streams: memory does not grow with the number of jobs, but for the ids.

        A job with `unique` is held against the one that has its key, by `mutirao.unique.judge`; its
        id is a `Placed`: that of the job that stands. Of two transactions with one key the second
        waits for the end of the first. What is replaced is cancelled when the transaction
        commits, and what runs by then is waited for: the new job is due once that one has left
        the live table. Until then no job of others is held, so nobody waits to settle one.
        With `Unique.supersede` the job is held against the last live one of its key, and
        `mutirao.supersede.decide` says what is left of the two; what it drops is cancelled at the
        commit, if nobody has tried it by then. What is kept of a key runs one after another, in
        the order of the enqueues.

        Raises:
            DuplicateJob: another job has the key, and this one was to be the only one.
            UnsupportedConnection: `conn` is not one of the accepted kinds, or is asynchronous.
        """
        ...

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """As `enqueue`, for asynchronous connections and sessions."""
        ...


class Store(Intake, Protocol):
    """The system of record, as workers use it."""

    async def check(self) -> None:
        """Raise SchemaMissing, SchemaTooOld or SchemaTooNew if the tables do not fit the code."""
        ...

    async def close(self) -> None:
        """Give back every connection. Safe to call twice; the store opens again when used."""
        ...

    def twin(self, connections: int = 1) -> "Store":
        """Return another handle on the same data that keeps up to `connections` of its own.

        A worker has one, and its heartbeat another one in its own thread and event loop, so that
        nothing the worker does can hold it up.
        """
        ...

    # Workers and their liveness.

    async def register(
        self, worker: NewWorker, *, expiry: float, now: datetime | None = None
    ) -> int:
        """Add a worker, alive for `expiry` seconds and listening; return its id (never reused)."""
        ...

    async def beat(
        self, worker: int, *, expiry: float, stuck: int = 0, now: datetime | None = None
    ) -> Beat:
        """Prolong a worker's life and report its stuck slots.

        Returns whether it is still registered (False: its jobs have been rescued) and which of
        its running jobs somebody asked to cancel.
        """
        ...

    async def listen(self, worker: int, listening: bool) -> None:
        """Say whether this worker wants to be notified of new jobs; only idle workers do."""
        ...

    async def retire(self, worker: int) -> None:
        """Remove a worker that has ended. Jobs it still holds are given back, unattempted."""
        ...

    # The way of a job through a worker.

    async def lanes(
        self, queues: Collection[str] | None, *, now: datetime | None = None
    ) -> list[LaneHead]:
        """Return every lane that has waiting jobs, with its true lower bound.

        Only those of `queues` unless None. Ordered by priority, then queue.
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
        """Take up to `limit` due jobs for a worker, exclusively, and return them.

        Reads the lanes in the order given, each from its lower bound, in (run_at, id) order;
        jobs that another claim is taking at this moment are passed over, never waited for.
        Jobs of tasks named in `without` are left alone. Each claim adds one to the job's `run`
        and `attempt`. Returned in the order of the lanes, then (run_at, id).
        """
        ...

    async def settle(
        self, worker: int, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> set[int]:
        """Write the outcomes of attempts and return the ids of the jobs that were settled.

        A settlement whose run is not the job's current one is stale: it writes nothing (its
        follow-up neither) and its id is not returned. Each settlement appends one attempt row.
        Final outcomes remove the job from the live table; `retried`, `snoozed` and `released`
        make it wait again until `outcome.at`, or `after` seconds from now; the last two give the
        attempt back. One that somebody asked to cancel meanwhile is due at once instead, and its
        next claim says so (`Claim.cancel`). Where a job that is `keyed` ends, the one that waits
        for it gets its own time. All in one transaction. What is returned may be a
        `mutirao.limit.Settled`, which tells the lanes that blocked jobs came back to.
        """
        ...

    async def release(self, jobs: Sequence[tuple[int, int]]) -> set[int]:
        """Give back claimed jobs (id, run) that were never started; no attempt, no history.

        They keep their place in the lane. Returns the ids given back; stale ones are left out.
        """
        ...

    async def held(self, worker: int) -> list[tuple[int, int]]:
        """Return (id, run) of every job this worker holds by the tables.

        When the answer to a claim was lost with its connection, this tells which jobs the worker
        holds without knowing, so that it can give them back.
        """
        ...

    # Housekeeping. Any worker may call these; the leases keep them from working at once.

    async def lease(
        self, duty: str, worker: int, *, ttl: float, every: float, now: datetime | None = None
    ) -> bool:
        """Try to become the one who does `duty` now.

        True if nobody else holds it (a holder's lease ends `ttl` seconds after it was taken) and
        it was last taken at least `every` seconds ago.
        """
        ...

    async def rescue(
        self, *, orphans: bool = True, now: datetime | None = None
    ) -> list[tuple[int, int]]:
        """Remove workers whose heartbeat expired and make their jobs wait again.

        Each of their jobs gets an attempt with outcome `lost` and a new run, so that the vanished
        worker, should it come back, can settle nothing. The attempt stays counted; the job keeps
        its place in the lane and is ready at once, out of attempts or not: whoever claims it
        next decides about that. Returns (job id, new run). Idle workers are woken.

        Blocked jobs are called that there is room for, should anything have kept them.

        Orphans are jobs held under an id that is not registered (any more). They may be left alone
        where `orphans` is False.
        """
        ...

    async def prune(
        self, outcome: OutcomeKind, before: float, limit: int, *, now: datetime | None = None
    ) -> int:
        """Delete jobs that ended with `outcome` more than `before` seconds ago, all attempts too.

        At most `limit` jobs, oldest first; returns how many. Live jobs are never touched. A job
        whose last attempt was `lost` on the way to being dead has its own `dead` row.
        """
        ...

    async def refresh_statistics(self) -> None:
        """Bring the query planner's statistics up to date."""
        ...

    # Schedules. What becomes of one is decided by the functions of `mutirao.timetable`.

    async def agenda(self, *, now: datetime | None = None) -> Agenda:
        """Tell which schedules have something to do, and when the next one will.

        Due are those not paused whose next tick has come, or that await the end of a job which is
        not live any more; of very many the first. Reads only.
        """
        ...

    async def amend_schedule(
        self, name: str, amend: Amend, *, wait: bool = True, now: datetime | None = None
    ) -> Amended:
        """Hold a schedule, ask `amend` what becomes of it, and write that: one transaction.

        `amend` is given how the schedule stands, with everything that was committed before it was
        held and with the time; it may be called again if another one made a schedule of that name
        at the same moment. What it raises reaches the caller, and nothing is written. Its jobs
        are enqueued as ever, idle workers are woken, and each of them is written down with its
        tick: there is never a second job of a tick. With `wait` False a schedule that somebody
        else holds is left alone, as if there were none, and `amend` may change nothing then.

        Raises:
            WrongState: a tick has its job already; nothing was written.
        """
        ...

    async def vouch(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Note that a worker has schedules of these names in its code.

        Only of schedules that code declared, and where the last note is older than `every`
        seconds; of one that somebody else holds, another time.
        """
        ...

    async def schedules(self) -> list[ScheduleRecord]:
        """List the schedules by name, with their next ticks and how their last jobs went."""
        ...

    # Limits; see `mutirao.limit`. Of any queue, task or value of an argument that is limited, at no
    # moment do more jobs run than may, whoever claims them; a rate never lets start more than its
    # burst and what has come since. A job that all its limits have no room for is not claimed: it
    # is `blocked`, and costs nothing until there is room. What is held by a run ends with the run.

    async def put_limit(
        self,
        rule: Rule,
        *,
        origin: Origin = Origin.COMMAND,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Make a limit, or give the one of that name other terms; in force when this returns.

        What runs already is counted. With `origin` CODE, a worker says what its code has: that
        changes a limit that is there only if the code says something new.
        """
        ...

    async def remove_limit(self, name: str, *, now: datetime | None = None) -> bool:
        """Remove a limit, and let go what waited for it; tell whether there was one."""
        ...

    async def vouch_limits(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Note that a worker has limits of these names in its code; as `vouch` of schedules."""
        ...

    async def limits(self) -> list[LimitRecord]:
        """List the limits by name and key, with how full they are."""
        ...

    async def declare_fair(self, tasks: Mapping[str, str | None]) -> None:
        """Note by which argument the jobs of tasks take turns; None: they take none.

        Concerns what is enqueued from now on; likewise a `NewJob.fair_by` notes it, of a task of
        which nothing is known. Jobs that take turns stand in lanes of their own, named by
        `mutirao.fair.fair_lane`, where `claim` takes the most urgent due job of each value, round
        after round, whatever the bounds; each worker goes on after the value whose turn came last.
        These claims are `FairClaim`s, in the order of the turns. In all else they are jobs like
        others, of the queue that was asked for.
        """
        ...

    # What handlers, people and dashboards ask for.

    def transaction(self, job: Job, attempt: "Attempt", *, session: bool) -> Transaction[Any, Any]:
        """Open what `job.transaction()` promises; `attempt` is told when it has committed."""
        ...

    async def jobs(self, which: JobFilter) -> list[JobRecord]:
        """List jobs, newest first, without their attempts."""
        ...

    async def job(self, id: int) -> JobRecord:
        """Return one job with all its attempts. Raises UnknownJob."""
        ...

    async def counts(self) -> list[QueueCount]:
        """Count the jobs of every queue by state, finished ones included."""
        ...

    async def workers(self) -> list[WorkerRecord]:
        """List the registered workers, alive or not, and how many jobs each holds."""
        ...

    async def cancel(self, which: JobFilter, *, now: datetime | None = None) -> list[int]:
        """Cancel live jobs; return their ids.

        A waiting one is finished at once with outcome `cancelled`; a running one is flagged, and
        its worker is told with its next heartbeat.
        """
        ...

    async def hurry(self, which: JobFilter, *, now: datetime | None = None) -> list[int]:
        """Make waiting jobs due now, whatever their `run_at`; return their ids.

        One that waits for a running job with its key, or for a limit, is left alone.
        """
        ...

    async def redrive(self, which: JobFilter) -> list[int]:
        """Enqueue dead jobs again as new jobs with `redrive_of` set; return the new ids.

        The dead job stays in history. One that was redriven already is passed over, unless it is
        named in `which.ids`.
        """
        ...

    async def unserved_tasks(self, known: Collection[str]) -> dict[str, int]:
        """Count waiting jobs by task, for tasks not in `known`."""
        ...


class Attempt(Protocol):
    """What a transaction needs to know of the attempt it completes."""

    def started_ago(self) -> float:
        """Return the seconds since the handler was started."""
        ...

    def mark_settled(self, woken: Sequence[Wake] = ()) -> None:
        """Called once, after the commit succeeded: nobody has to settle the job any more.

        `woken`: the lanes that blocked jobs came back to, if there are any.
        """
        ...


class Notifier(Protocol):
    """A wake-up; may save latency, never a job. The worker polls anyway."""

    def listen(self) -> AsyncIterator[Wake]:
        """Yield a wake for every notification until the iterator is closed.

        Opens its own connection. When that breaks, raises StoreUnavailable; the caller listens
        again. Yields one Wake() without a lane as soon as it listens, because jobs may have
        arrived before.
        """
        ...
