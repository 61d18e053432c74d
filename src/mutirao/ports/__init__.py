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
    Transaction,
    Wake,
)
from mutirao.outcome import Settlement
from mutirao.planning import Plan
from mutirao.ports.books import Books
from mutirao.records import JobFilter, JobRecord, QueueCount, WorkerRecord


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

    def enqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Write a graph and return the ids of its jobs, in the order of the plan's steps.

        As `enqueue`: all or none, in the caller's transaction or one of its own. The first id is
        the graph's. A step that waits at a gate is blocked: it is due, at its own time, from the
        moment that all steps which lead to the gate have ended, in the transaction that settles
        or cancels the last of them; idle workers are woken by that. It is released exactly once,
        whoever settles at the same time. A step that dies or is cancelled counts as ended where
        its `on_dead` is "continue", though not before those that it waits for. With "stop" it
        does not; redriving it, if it is dead, makes the new job take its place. With "compensate"
        what waits of the graph is cancelled, what runs goes on, and once nothing does, in that
        transaction, the compensating jobs of the steps that have succeeded are enqueued, to run
        one after the other, the last step's first.
        """
        ...

    async def aenqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """As `enqueue_graph`, for asynchronous connections and sessions."""
        ...


class Store(Intake, Books, Protocol):
    """The system of record, as workers use it."""

    async def check(self) -> None:
        """Raise SchemaMissing, SchemaTooOld or SchemaTooNew if the tables do not fit the code."""
        ...

    async def close(self) -> None:
        """Give back every connection. Safe to call twice; the store opens again when used."""
        ...

    def twin(self, connections: int = 1, *, within: float | None = None) -> "Store":
        """Return another handle on the same data that keeps up to `connections` of its own.

        A worker has one, and its heartbeat another one in its own thread and event loop, so that
        nothing the worker does can hold it up. Its asynchronous calls fail with StoreBusy after
        `within` seconds, whatever the database and the network do; those that look through all
        jobs, and prune, may take longer.
        """
        ...

    def cut(self) -> None:
        """Make the calls of this handle that are under way fail now, if they have a limit."""
        ...

    # Workers and their liveness.

    async def register(
        self, worker: NewWorker, *, expiry: float, now: datetime | None = None
    ) -> int:
        """Add a worker, alive for `expiry` seconds and listening; return its id (never reused)."""
        ...

    async def beat(
        self,
        worker: int,
        *,
        expiry: float,
        stuck: int = 0,
        late: float = 0.0,
        now: datetime | None = None,
    ) -> Beat:
        """Prolong a worker's life and report its stuck slots, and how late beats came lately.

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

        Reads the lanes in the order given, each from its lower bound, in (run_at, id) order; of
        lanes with the same priority it may take from each a part, and no less than it finds;
        jobs that another claim is taking at this moment are passed over, never waited for.
        Jobs of tasks named in `without` are left alone. Each claim adds one to the job's `run`
        and `attempt`; after 2,147,483,647 a run is followed by 1. Returned in the order of the
        lanes, then (run_at, id). Arguments that are the results of other steps are filled in; null
        for one that has none.

        Raises:
            WorkerGone: the worker is not registered (any more), so that nobody would rescue what it
                takes; nothing was taken.
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
        attempt back. A claim tells how many workers in a row were lost with a job (`lost`), and
        how many of its attempts in a row were released as `Fault.CONNECTION` (`cut_off`); one
        released as `Fault.WORKER` counts as lost, and one released for neither leaves both as they
        are. One that somebody asked to cancel meanwhile is due at once instead, and its
        next claim says so (`Claim.cancel`). Where a job that is `keyed` ends, the one that waits
        for it gets its own time. Where one that is `linked` ends, its result is kept, if it has
        one, the steps behind it are released (see `enqueue_graph`), and those who wait for its end
        are told. All in one transaction. What is returned may be a `mutirao.limit.Settled`, which
        tells the lanes that jobs came back to for which there was no room.
        """
        ...

    async def release(self, jobs: Sequence[tuple[int, int]]) -> set[int]:
        """Give back claimed jobs (id, run) that were never started; no attempt, no history.

        They keep their place in the lane. Returns the ids given back; stale ones are left out.
        """
        ...

    async def lose(
        self, jobs: Sequence[tuple[int, int]], *, now: datetime | None = None
    ) -> set[int]:
        """Write down that runs (job, run) were lost, and let those jobs wait again.

        As `rescue` does it, for a worker that was taken for gone and knows what it had begun under
        the id that it had. Returns the ids; stale ones are left out.
        """
        ...

    async def unlocked(self, jobs: Collection[int]) -> set[int]:
        """Return those of these jobs that are live and that no other transaction has locked.

        A hint, as it may be otherwise at once. Where nothing is locked by rows, all that are live.
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

        At most `limit` jobs, oldest first; returns how many. Live jobs are never touched, nor the
        steps of a graph of which some are live. A job whose last attempt was `lost` on the way to
        being dead has its own `dead` row. Results and progress go with their jobs, a graph with
        its last one; results whose time is over go when `outcome` is succeeded.
        """
        ...

    async def mend(self, *, now: datetime | None = None) -> dict[str, int]:
        """Mend some of what is left behind: blocked by nothing, or of jobs that are no more.

        That is so after changes by hand. What somebody has locked is left for the next time.
        Returns how many were mended, by what they are, for people to read.
        """
        ...

    async def refresh_statistics(self) -> None:
        """Bring the query planner's statistics up to date."""
        ...

    async def declare_fair(self, tasks: Mapping[str, str | None]) -> None:
        """Note by which argument the jobs of tasks take turns; None: they take none.

        Concerns what is enqueued from now on without `NewJob.fair_by`: in SQL, or once more. Jobs
        that take turns stand in lanes of their own (`mutirao.fair.fair_lane`), where `claim` takes
        the most urgent due job of each value, round after round, whatever the bounds; each worker
        goes on after the value whose turn came last. These claims are `FairClaim`s, in the order of
        the turns. In all else they are jobs like others, of the queue that was asked for.
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
        """Return one job with all its attempts, of one moment. Raises UnknownJob."""
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

        One that is blocked, by a job with its key, by earlier steps or by a limit, is left alone.
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
