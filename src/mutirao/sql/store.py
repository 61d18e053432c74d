"""The store on SQL: `mutirao.ports.Store` over SQLAlchemy.

It only decides which statements travel together; what they say is in `dialects/`, `workers`,
`records` and `commands`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import URL, Connection

from mutirao.errors import StoreError
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
)
from mutirao.limit import both
from mutirao.marks import TAKES, marks
from mutirao.outcome import Settlement
from mutirao.planning import Plan
from mutirao.ports import Attempt
from mutirao.records import JobFilter, JobRecord, QueueCount, WorkerRecord
from mutirao.sql import (
    commands,
    fair,
    graphs,
    keys,
    leftovers,
    records,
    results,
    schema,
    workers,
)
from mutirao.sql.books import Books
from mutirao.sql.dialects import dialect_named
from mutirao.sql.engines import KEPT, Engines
from mutirao.sql.intake import SqlIntake
from mutirao.sql.runner import Runner
from mutirao.sql.transaction import CompletingTransaction

# Seconds that looking through all jobs may take, or pruning, or a look at the planner's statistics.
PATIENCE = 120.0
FIRST = 30.0  # for a worker's first call, which loads the driver and connects; it holds no jobs yet


class SqlStore(Books):
    """Jobs in the SQL database at `url`.

    Parameters:
        pool_size: connections kept open for each loop.
        within: seconds that each asynchronous call may take; None sets no limit.
    """

    def __init__(
        self, url: str | URL, *, pool_size: int = KEPT, within: float | None = None
    ) -> None:
        self.engines = Engines(url, pool_size)
        self._dialect = dialect_named(self.engines.database)
        self._standing = self._dialect.standing
        self._intake = SqlIntake(self.engines.database)
        self._runner = Runner(self.engines, within)
        self._patient = self._runner.within(PATIENCE)
        self._first = self._runner.within(FIRST)

    def twin(self, connections: int = 1, *, within: float | None = None) -> "SqlStore":
        """Return another handle on the same database, with connections of its own."""
        return SqlStore(self.engines.url, pool_size=connections, within=within)

    def cut(self) -> None:
        """Make the calls that are under way within a limit fail now."""
        for runner in (self._runner, self._patient, self._first):
            runner.cut()

    async def check(self) -> None:
        """Raise SchemaError if the tables do not fit the code."""
        await self._first.alone(schema.check)

    async def close(self) -> None:
        """Close the connections of this process and loop."""
        await self._runner.close()

    # Jobs get in.

    def enqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Write jobs through `conn`, or in a short transaction of their own."""
        if conn is not None:
            return self._intake.enqueue(jobs, conn)
        if _is_one(jobs):
            return self._runner.lend_sync(lambda own: self._intake.enqueue_through(jobs, own))
        with _own_errors(jobs) as theirs:
            return self._runner.run_sync(lambda own: self._intake.enqueue(theirs, own))

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Write jobs through an asynchronous `conn`, or in a short transaction of their own."""
        if conn is not None:
            return await self._intake.aenqueue(jobs, conn)
        if _is_one(jobs):
            return await self._runner.lend(
                lambda own: self._intake.aenqueue_through(jobs, own),
                lambda own: self._intake.enqueue_through(jobs, own),
            )
        with _own_errors(jobs) as theirs:
            return await self._runner.run(lambda own: self._intake.enqueue(theirs, own))

    def enqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Write a graph through `conn`, or in a short transaction of its own."""
        if conn is not None:
            return self._intake.enqueue_graph(plan, conn)
        return self._runner.run_sync(lambda own: self._intake.enqueue_graph(plan, own))

    async def aenqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Write a graph through an asynchronous `conn`, or in a short transaction of its own."""
        if conn is not None:
            return await self._intake.aenqueue_graph(plan, conn)
        return await self._runner.run(lambda own: self._intake.enqueue_graph(plan, own))

    # Workers.

    async def register(
        self, worker: NewWorker, *, expiry: float, now: datetime | None = None
    ) -> int:
        """Add a worker and return its id."""
        return await self._runner.alone(workers.register, self._dialect, worker, expiry, now)

    async def beat(
        self,
        worker: int,
        *,
        expiry: float,
        stuck: int = 0,
        late: float = 0.0,
        now: datetime | None = None,
    ) -> Beat:
        """Prolong a worker's life."""
        told = (worker, expiry, stuck, late, now)
        return await self._runner.alone(workers.beat, self._dialect, *told)

    async def listen(self, worker: int, listening: bool) -> None:
        """Say whether a worker wants to be notified."""
        await self._runner.alone(workers.listen, worker, listening)

    async def retire(self, worker: int) -> None:
        """Remove a worker that has ended."""
        await self._runner.insist(_then_wake, self._dialect, workers.retire, self._dialect, worker)

    # Jobs on their way through a worker.

    async def lanes(
        self, queues: Collection[str] | None, *, now: datetime | None = None
    ) -> list[LaneHead]:
        """Read the heads of all lanes."""
        return await self._runner.alone(self._dialect.lanes, queues, now)

    async def claim(
        self,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        *,
        without: Collection[str] = (),
        now: datetime | None = None,
    ) -> list[Claim]:
        """Take due jobs."""
        asked = (worker, lanes, limit, without, now)
        if self._standing is not None:
            claims = await self._runner.ask(self._standing.claim(*asked))
        else:
            claims = await self._runner.run(self._dialect.claim, *asked)
        # Most have no metadata, and then there is nothing to find in them.
        marked = [claim.metadata for claim in claims if claim.metadata is not None]
        if any(TAKES in marks(metadata) for metadata in marked):
            claims[:] = await self._runner.alone(graphs.with_results, claims)
        return claims

    async def settle(
        self, worker: int, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> set[int]:
        """Write the outcomes of attempts."""
        if not settlements:
            return set()
        done = [s for s in settlements if s.outcome.kind.final]
        waiting = [s for s in settlements if not s.outcome.kind.final]
        bound = [s for s in done if s.keyed or s.linked] or [s for s in settlements if s.follow_up]
        if self._standing is not None and not ((done and waiting) or bound):
            if done:
                return await self._runner.ask(self._standing.finish(done, now))
            return await self._runner.ask(self._standing.resume(worker, waiting, now))
        return await self._runner.insist(self._settle, worker, done, waiting, now)

    async def release(self, jobs: Sequence[tuple[int, int]]) -> set[int]:
        """Give back jobs that were never started."""
        if not jobs:
            return set()
        if self._standing is not None:
            return await self._runner.ask(self._standing.release(jobs))
        return await self._runner.run(self._dialect.release, jobs)

    async def lose(
        self, jobs: Sequence[tuple[int, int]], *, now: datetime | None = None
    ) -> set[int]:
        """Write down that runs were lost."""
        return await self._runner.insist(self._dialect.lose, jobs, now) if jobs else set()

    async def unlocked(self, jobs: Collection[int]) -> set[int]:
        """Return the live jobs among these that nobody has locked."""
        return await self._runner.run(workers.unlocked, jobs)

    async def held(self, worker: int) -> list[tuple[int, int]]:
        """Return (id, run) of every job a worker holds."""
        return await self._patient.alone(workers.held, self._dialect, worker)

    # Housekeeping.

    async def lease(
        self, duty: str, worker: int, *, ttl: float, every: float, now: datetime | None = None
    ) -> bool:
        """Try to become the one who does `duty` now."""
        return await self._runner.alone(workers.lease, self._dialect, duty, worker, ttl, every, now)

    async def rescue(
        self, *, orphans: bool = True, now: datetime | None = None
    ) -> list[tuple[int, int]]:
        """Give back the jobs of vanished workers."""
        if self._standing is not None:
            runner = self._patient if orphans else self._runner
            return await runner.alone(self._dialect.rescue, orphans, now)
        if await self._runner.alone(self._dialect.someone_is_gone, now):
            return await self._runner.run(self._dialect.rescue, orphans, now)
        return []

    async def prune(
        self, outcome: OutcomeKind, before: float, limit: int, *, now: datetime | None = None
    ) -> int:
        """Delete a batch of old history."""
        if outcome is OutcomeKind.SUCCEEDED:
            await self._patient.alone(results.expire, self._dialect.moment(now))
        return await self._patient.insist(
            commands.prune, outcome, self._dialect.moment(now, -before), limit
        )

    async def mend(self, *, now: datetime | None = None) -> dict[str, int]:
        """Mend some of what is left behind; return how many, by what they are."""
        return await self._patient.insist(leftovers.mend, self._dialect, now)

    async def refresh_statistics(self) -> None:
        """Bring the planner's statistics up to date."""
        await self._patient.run(self._dialect.refresh_statistics)

    async def declare_fair(self, tasks: Mapping[str, str | None]) -> None:
        """Note by which argument the jobs of tasks take turns."""
        run = self._runner.run if any(tasks.values()) else self._runner.alone
        await run(fair.declare, self._dialect, tasks)

    # Handlers, people and dashboards.

    def transaction(self, job: Job, attempt: Attempt, *, session: bool) -> Transaction[Any, Any]:
        """Open a transaction whose commit completes a job."""
        return CompletingTransaction(self.engines, job, attempt, self._finish_one, session=session)

    async def jobs(self, which: JobFilter) -> list[JobRecord]:
        """List jobs."""
        return await self._runner.alone(records.jobs, which)

    async def job(self, id: int) -> JobRecord:
        """Return one job with its attempts."""
        return await self._runner.alone(records.job, id)

    async def counts(self) -> list[QueueCount]:
        """Count jobs by queue and state."""
        return await self._runner.alone(records.counts)

    async def workers(self) -> list[WorkerRecord]:
        """List the registered workers."""
        return await self._runner.alone(records.workers)

    async def cancel(self, which: JobFilter, *, now: datetime | None = None) -> list[int]:
        """Cancel live jobs."""
        enqueue = self._intake.enqueue
        return await self._runner.insist(commands.cancel, self._dialect, enqueue, which, now)

    async def hurry(self, which: JobFilter, *, now: datetime | None = None) -> list[int]:
        """Make waiting jobs due now."""
        moment = self._dialect.moment(now)
        return await self._runner.insist(_then_wake, self._dialect, commands.hurry, which, moment)

    async def redrive(self, which: JobFilter) -> list[int]:
        """Enqueue dead jobs again."""
        return await self._runner.insist(commands.redrive, which, self._intake.enqueue)

    async def unserved_tasks(self, known: Collection[str]) -> dict[str, int]:
        """Count waiting jobs of unknown tasks."""
        return await self._runner.alone(records.unserved_tasks, known)

    # What travels together.

    def _settle(
        self,
        conn: Connection,
        worker: int,
        done: Sequence[Settlement],
        waiting: Sequence[Settlement],
        now: datetime | None,
    ) -> set[int]:
        settled = set[int]()
        if done:
            settled = self._finish(conn, done, now, [s.id for s in waiting])
        if waiting:
            settled = both(settled, self._dialect.resume(conn, worker, waiting, now))
        # Of two runs of one job in a batch the later one is current, the earlier one stale.
        latest = {s.id: s for s in sorted((*done, *waiting), key=lambda s: s.run)}
        follow_ups = [s.follow_up for s in latest.values() if s.follow_up and s.id in settled]
        if follow_ups:
            self._intake.enqueue(follow_ups, conn)
        return settled

    def _finish(
        self,
        conn: Connection,
        done: Sequence[Settlement],
        now: datetime | None,
        beside: Sequence[int] = (),
        *,
        patient: bool = False,
    ) -> set[int]:
        together = sorted([*beside, *(s.id for s in done)])
        linked = {s.id: s for s in sorted(done, key=lambda s: s.run) if s.linked}
        if linked:
            graphs.hold(conn, list(linked))
            succeeded = OutcomeKind.SUCCEEDED
            if failed := [s.id for s in linked.values() if s.outcome.kind is not succeeded]:
                graphs.hold_undone(conn, self._dialect, failed, together)
        awaited = beside or any(s.keyed for s in done)
        held = together if awaited else ()
        settled = self._dialect.finish(conn, done, now, held, patient=patient)
        if ended := [s for s in linked.values() if s.id in settled]:
            results.keep(conn, self._dialect, ended, now)
            kinds = {s.id: s.outcome.kind for s in ended}
            graphs.ended(conn, self._dialect, self._intake.enqueue, kinds, now)
            self._dialect.tell_ended(conn, list(kinds))
        if keyed := [s.id for s in done if s.keyed and s.id in settled]:
            keys.let_go(conn, self._dialect, keyed)
        return settled

    def _finish_one(self, conn: Connection, settlement: Settlement) -> set[int]:
        return self._finish(conn, [settlement], None, patient=True)


def _is_one(jobs: Iterable[NewJob]) -> bool:
    """Tell whether this is a single job, which needs no transaction around it."""
    return isinstance(jobs, list | tuple) and len(jobs) == 1


@contextmanager
def _own_errors(jobs: Iterable[NewJob]) -> Iterator[Iterable[NewJob]]:
    """Lend the caller's jobs; what raises while they are read reaches the caller as it is.

    An OSError of a file that jobs are read from does not mean that the database is away.
    """
    raised: list[BaseException] = []

    def each() -> Iterator[NewJob]:
        try:
            yield from jobs
        except BaseException as error:
            raised.append(error)
            raise

    try:
        yield each()
    except StoreError as told:
        if raised and told.__cause__ is raised[0]:
            raise raised[0] from raised[0].__cause__
        raise


def _then_wake(conn: Connection, dialect: Any, body: Callable[..., Any], *args: Any) -> Any:
    """Run a body that gives jobs back, and wake the idle if it did."""
    found = body(conn, *args)
    if found != [] and found != set():
        dialect.wake(conn)
    return found
