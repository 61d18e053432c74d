"""The store on SQL: `mutirao.ports.Store` over SQLAlchemy.

It only decides which statements run in one transaction; the statements themselves are in
`statements`, `rules` and `dialects`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from sqlalchemy import Connection

from mutirao.model.brokers.doorbell import is_rung
from mutirao.model.jobs.job import (
    OutcomeKind,
    Using,
)
from mutirao.sql import statements
from mutirao.sql.connections.direct import DirectTransaction, is_awaited
from mutirao.sql.connections.engines import POOL_SIZE, Engines
from mutirao.sql.connections.program_transaction import ProgramTransaction, program_of
from mutirao.sql.connections.runner import Runner, for_people
from mutirao.sql.connections.transaction import CompletingTransaction
from mutirao.sql.drivers.kinds import through
from mutirao.sql.enqueue.intake import SqlIntake, is_one, own_errors
from mutirao.sql.schema import version
from mutirao.sql.store.carried import SqlCarried
from mutirao.sql.store.locking import applied
from mutirao.sql.store.parts import Parts
from mutirao.sql.store.records import SqlRecords
from mutirao.sql.store.sender import StatementSender
from mutirao.sql.store.settling import Settling
from mutirao.sql.store.unreadable_rows import SqlSifting

if TYPE_CHECKING:
    from mutirao.model.deploys import Deployed
    from mutirao.model.graphs.graph_plan import Plan
    from mutirao.model.jobs.job import (
        Beat,
        Claim,
        Gives,
        Job,
        Lane,
        LaneHead,
        NewJob,
        NewWorker,
        Transaction,
    )
    from mutirao.model.jobs.outcome import Settlement
    from mutirao.model.jobs.records import JobFilter, JobRecord, QueueCount, WorkerRecord
    from mutirao.ports import Attempt, Notifier
    from mutirao.ports.program import ProgramConnections
    from mutirao.sql.connections.engines import Database

# Seconds that reading all jobs, pruning, or updating the planner's statistics may take.
LONG_CALL_TIMEOUT = 120.0
# So many are counted at each question: 25 ms. More are counted now and then.
MAX_LIVE_JOBS_COUNTED = 100_000
# For a worker's first call, which loads the driver and connects; it holds no jobs yet.
FIRST_CALL_TIMEOUT = 30.0


P = ParamSpec("P")
R = TypeVar("R")


class SqlStore(Parts, SqlRecords, SqlCarried, SqlSifting):
    """The jobs in a SQL database.

    `program`: the connections of the program, through which jobs go that are given none; None: the
    store uses its own.

    Parameters:
        database: where it is: a URL, or an engine of the application.
        pool_size: connections kept open for each event loop.
        within: maximum seconds of each asynchronous call; None: no limit.
        schema: the schema of the tables; None: the one that connections find them in.
    """

    def __init__(
        self,
        database: Database,
        *,
        pool_size: int = POOL_SIZE,
        within: float | None = None,
        schema: str | None = None,
    ) -> None:
        self.program: ProgramConnections | None = None
        self.engines = Engines(database, pool_size, schema=schema)
        dialect = self.engines.dialect
        self._intake = SqlIntake(dialect.intake, self.engines.names)
        self._settling = Settling(dialect, self._intake.enqueue)
        self._finish = self._settling.finish_one
        self._run_by(Runner(self.engines, within))

    def _run_by(self, runner: Runner) -> None:
        """Send all statements through a runner."""
        self._sender = StatementSender(
            self.engines.dialect,
            self._intake.enqueue,
            runner=runner,
            insistent=runner.having(again=True),
            patient=runner.having(seconds=LONG_CALL_TIMEOUT, again=True),
        )
        self._first = runner.having(seconds=FIRST_CALL_TIMEOUT)

    def clone(self, connections: int = 1, *, within: float | None = None) -> SqlStore:
        """Return another handle on the same database, with connections of its own."""
        engines = self.engines
        other = SqlStore(
            engines.database, pool_size=connections, within=within, schema=engines.schema
        )
        other.engines.share_with(engines)
        other.program = self.program
        return other

    def elsewhere(self, url: str, connections: int, *, within: float | None = None) -> SqlStore:
        """Return a handle on another database, whose tables are in a schema of the same name."""
        return SqlStore(url, pool_size=connections, within=within, schema=self.engines.schema)

    def listener(self) -> Notifier | None:
        """Return the notifier, or None if no connection is left for it."""
        share = self.engines.share
        return self.notifier() if share is None or share.may_listen() else None

    def notifier(self) -> Notifier | None:
        """Return the notifier that wakes workers; None if they only poll."""
        return self._sender.dialect.notifier(self.engines.place())

    def ends_notifier(self) -> Notifier | None:
        """Return the notifier of the ends of jobs that a program waits for, or None."""
        return self._sender.dialect.ends_notifier(self.engines.place())

    def cut(self) -> None:
        """Make the running calls that have a time limit fail now."""
        for runner in (self._sender.runner, self._sender.patient, self._first):
            runner.cut()

    async def check(self) -> None:
        """Raise SchemaError if the tables do not fit the code.

        Raises:
            ConfigurationError: the server, or a session, cannot be set up as needed.
        """
        await self._first.alone(self._sender.dialect.refuse_server)
        await self._first.alone(version.check, self.engines.schema)

    async def close(self) -> None:
        """Close the connections of this process and event loop."""
        await self._sender.runner.close()

    # Enqueueing

    def enqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Write jobs through `conn`, the program's connection, or in a transaction of their own."""
        if (conn := self._through(conn)) is not None:
            return self._intake.enqueue(jobs, conn)
        if is_one(jobs):
            return self._sender.runner.alone_sync(self._intake.steps(jobs))
        with own_errors(jobs) as theirs:
            return self._sender.runner.run_sync(lambda own: self._intake.enqueue(theirs, own))

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Write jobs through an asynchronous `conn`, or as `enqueue` does."""
        if conn is None and (program := self._writes_through()) is not None:
            return await program.call(self.enqueue, jobs)
        if conn is not None:
            return await self._intake.aenqueue(jobs, conn)
        if is_one(jobs):
            return await self._sender.runner.alone(self._intake.steps(jobs), keep=False)
        with own_errors(jobs) as theirs:
            return await self._sender.runner.run(lambda own: self._intake.enqueue(theirs, own))

    def enqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Write a graph through `conn`, the program's connection, or a transaction of its own."""
        if (conn := self._through(conn)) is not None:
            return self._intake.enqueue_graph(plan, conn)
        return self._sender.runner.run_sync(lambda own: self._intake.enqueue_graph(plan, own))

    async def aenqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Write a graph through an asynchronous `conn`, or as `enqueue_graph` does."""
        if conn is None and (program := self._writes_through()) is not None:
            return await program.call(self.enqueue_graph, plan)
        if conn is not None:
            return await self._intake.aenqueue_graph(plan, conn)
        return await self._sender.runner.run(lambda own: self._intake.enqueue_graph(plan, own))

    def _through(self, conn: object | None) -> object | None:
        """Return the connection that jobs are written through; None: one of the store's own."""
        program = self._writes_through()
        return program.current() if conn is None and program is not None else conn

    def _writes_through(self) -> ProgramConnections | None:
        """Return the program's connections, if jobs that are given none go through them."""
        return self.program

    # Workers

    async def register(
        self, worker: NewWorker, *, expiry: float, now: datetime | None = None
    ) -> int:
        """Register a worker and return its id."""
        return await self._sender.runner.alone(
            statements.workers.register, self._sender.dialect, worker, expiry, now
        )

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
        """Extend a worker's life."""
        return await self._sender.runner.alone(
            statements.workers.beat, self._sender.dialect, worker, expiry, stuck, late, duty, now
        )

    async def listen(self, worker: int, listening: bool) -> None:
        """Record whether a worker wants notifications."""
        await self._sender.runner.alone(statements.workers.listen, worker, listening)

    async def deployed(self, but: str, *, now: datetime | None = None) -> list[Deployed]:
        """Return what live workers of other versions of the application serve."""
        return await self._sender.runner.alone(
            statements.workers.deployed, self._sender.dialect, but, now
        )

    async def retire(self, worker: int) -> None:
        """Remove a worker that has ended."""
        await self._sender.insistent.run(
            _run_and_wake,
            self._sender.dialect,
            statements.workers.retire,
            self._sender.dialect,
            worker,
        )

    # Claiming and settling

    async def lanes(
        self, queues: Collection[str] | None, *, now: datetime | None = None
    ) -> list[LaneHead]:
        """Return the heads of all lanes."""
        heads = await self._sender.runner.alone(self._sender.rules.lanes(queues, now))
        return [head for head in heads if not is_rung(head.lane.queue)]

    async def claim(
        self,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        *,
        without: Collection[str] = (),
        now: datetime | None = None,
    ) -> list[Claim]:
        """Claim due jobs."""
        claims = await self._sender.locking.claim(
            lambda most: self._sender.apply(
                self._sender.rules.claim, worker, lanes, most, without, now
            ),
            lanes,
            limit,
        )
        return await self._whole(claims)

    async def settle(
        self, worker: int, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> set[int]:
        """Write the outcomes of attempts."""
        if not settlements:
            return set()
        done = [s for s in settlements if s.outcome.kind.final]
        waiting = [s for s in settlements if not s.outcome.kind.final]
        bound = [s for s in done if s.keyed or s.linked or s.outcome.stops]
        bound = bound or [s for s in settlements if s.follow_up]
        if not ((done and waiting) or bound or any(s.keyed for s in waiting)):
            if done:
                return await self._sender.apply(self._sender.rules.finish, done, now)
            return await self._sender.apply(self._sender.rules.resume, worker, waiting, now)

        def settle(
            conn: Connection, done: Sequence[Settlement], waiting: Sequence[Settlement]
        ) -> set[int]:
            return self._settling.settle(conn, worker, done, waiting, now)

        return await self._sender.locking.settle(settle, done, waiting)

    async def release(self, jobs: Sequence[tuple[int, int]]) -> set[int]:
        """Release jobs that were never started."""
        if not jobs:
            return set()
        return await self._sender.apply(self._sender.rules.release, jobs)

    async def lose(
        self, jobs: Sequence[tuple[int, int]], *, now: datetime | None = None
    ) -> set[int]:
        """Record that runs were lost."""
        if not jobs:
            return set()
        run, lose = self._sender.insistent.run, self._sender.rules.lose
        ids = [id for id, _ in jobs]
        return await self._history_of(lambda: run(applied, lose, jobs, now), ids)

    async def note_start(self, worker: int, job: int, run: int, *, lost: int, attempt: int) -> bool:
        """Record the start of a job that was lost before."""
        return await self._sender.runner.run(
            statements.workers.note_start, worker, (job, run), lost, attempt
        )

    async def unlocked(self, jobs: Collection[int]) -> set[int]:
        """Return the live jobs among these that no other transaction has locked."""
        return await self._sender.runner.run(statements.workers.unlocked, jobs)

    async def held(self, worker: int) -> list[tuple[int, int]]:
        """Return (id, run) of every job a worker holds."""
        return await self._sender.patient.alone(
            statements.workers.held, self._sender.dialect, worker
        )

    # Housekeeping

    async def lease(
        self, duty: str, worker: int, *, ttl: float, every: float, now: datetime | None = None
    ) -> bool:
        """Try to become the worker that performs `duty` now; return whether that succeeded."""
        return await self._sender.runner.alone(
            statements.workers.lease, self._sender.dialect, duty, worker, ttl, every, now
        )

    async def held_elsewhere(self, duty: str, worker: int, *, now: datetime | None = None) -> float:
        """Return the seconds for which another worker holds a duty."""
        return await self._sender.runner.alone(
            statements.workers.held_elsewhere, self._sender.dialect, duty, worker, now
        )

    async def rescue(
        self, *, orphans: bool = True, now: datetime | None = None
    ) -> list[tuple[int, int]]:
        """Rescue the jobs of vanished workers."""
        if self._sender.rules.in_transaction:
            if not await self._sender.runner.alone(self._sender.rules.is_anyone_gone(now)):
                return []
            run, rescue = self._sender.patient.run, self._sender.rules.rescue
            rescued = await self._history_of(lambda: run(applied, rescue, orphans, now), None)
        else:
            runner = self._sender.patient if orphans else self._sender.insistent
            rescued = await self._history_of(
                lambda: runner.insist(
                    lambda: runner.alone(self._sender.rules.rescue(orphans, now))
                ),
                None,
            )
        self._sender.announce(len(rescued))
        return rescued

    async def prune(
        self, outcome: OutcomeKind, before: float, limit: int, *, now: datetime | None = None
    ) -> int:
        """Delete a batch of finished jobs."""
        if outcome is OutcomeKind.SUCCEEDED:
            await self._sender.patient.alone(
                statements.results.expire, self._sender.dialect.moment(now)
            )
        return await self._sender.patient.run(
            statements.job_admin.prune, outcome, self._sender.dialect.moment(now, -before), limit
        )

    async def roll_up(self, keep: float | None, *, now: datetime | None = None) -> bool:
        """Add up finished jobs; count live jobs once all is added up."""
        more = await self._sender.patiently(self._sender.rules.roll_up, keep, now)
        if not more:
            await self._sender.patiently(
                self._sender.rules.count_backlog, MAX_LIVE_JOBS_COUNTED, now
            )
        return more

    async def mend(self, *, now: datetime | None = None) -> dict[str, int]:
        """Repair some leftovers; return how many, by a description."""
        return await self._sender.patient.run(statements.leftovers.mend, self._sender.dialect, now)

    async def refresh_statistics(self) -> None:
        """Update the query planner's statistics."""
        await self._sender.patient.run(self._sender.dialect.refresh_statistics)

    async def declare_fairness(self, tasks: Mapping[str, str | None]) -> None:
        """Record by which argument the jobs of each task are claimed fairly."""
        if any(tasks.values()):
            await self._sender.insistent.run(
                statements.fairness.declare, self._sender.dialect, tasks
            )
        else:
            alone = self._sender.runner.alone
            await self._sender.insistent.insist(
                lambda: alone(statements.fairness.declare, self._sender.dialect, tasks)
            )

    # Handlers, people and dashboards

    def transaction(
        self, job: Job, attempt: Attempt, *, gives: Gives | Using
    ) -> Transaction[Any, Any]:
        """Open a transaction whose commit completes a job.

        Raises:
            WrongState: it is to be on a connection of the program, which has none of its own.
        """
        if isinstance(gives, Using):
            program = program_of(self.program, job, gives)
            block = program.transaction(gives.alias)
            return ProgramTransaction(self.engines, (job, attempt), self._finish, program, block)
        finish, kind = self._finish, CompletingTransaction
        if gives == "driver" and self.engines.lends_directly and not is_awaited(job):
            kind = DirectTransaction
        return kind(self.engines, job, attempt, finish, gives)

    async def jobs(self, which: JobFilter) -> list[JobRecord]:
        """List the jobs that match, newest first."""
        return await self._sender.runner.read(for_people(statements.records.jobs), which)

    async def job(self, id: int) -> JobRecord:
        """Return one job with its attempts."""
        return await self._sender.runner.read(for_people(statements.records.job), id)

    async def counts(self) -> list[QueueCount]:
        """Count jobs by queue and state."""
        return await self._sender.runner.read(for_people(statements.records.counts))

    async def workers(self, *, near: bool = False) -> list[WorkerRecord]:
        """List the registered workers."""
        likely = self._sender.dialect.running_near() if near else None
        if likely is not None:
            return await self._sender.look(for_people(statements.finding.figures.workers), likely)
        return await self._sender.runner.read(for_people(statements.records.workers))

    async def cancel(self, which: JobFilter, *, now: datetime | None = None) -> list[int]:
        """Cancel live jobs."""
        enqueue = self._intake.enqueue
        return await self._history_of(
            lambda: self._sender.locking.order(
                lambda conn, which: statements.job_admin.cancel(
                    conn, self._sender.dialect, enqueue, which, now
                ),
                which,
            ),
            None,
        )

    async def end_expired(self, limit: int, *, now: datetime | None = None) -> int:
        """End jobs that wait and are not wanted any more."""
        moment, enqueue = self._sender.dialect.moment(now), self._intake.enqueue
        waiting, seen = await self._sender.runner.alone(statements.job_admin.expired, moment, limit)
        if not (waiting or seen):
            return 0
        from mutirao.model.jobs.records import JobFilter

        ended = await self._history_of(
            lambda: self._sender.locking.order(
                lambda conn, which: statements.job_admin.end_expired(
                    conn, self._sender.dialect, enqueue, which, now
                ),
                JobFilter(ids=tuple(waiting)),
            ),
            None,
        )
        await self._sender.insistent.run(statements.job_admin.has_seen_expired, [*seen, *ended])
        return len(ended)

    async def run_now(self, which: JobFilter, *, now: datetime | None = None) -> list[int]:
        """Make waiting jobs due now."""
        moment = self._sender.dialect.moment(now)
        ids = await self._sender.locking.order(
            lambda conn, which: _run_and_wake(
                conn, self._sender.dialect, statements.job_admin.run_now, which, moment
            ),
            which,
        )
        self._sender.announce(len(ids))
        return ids

    async def redrive(self, which: JobFilter) -> list[int]:
        """Enqueue dead jobs again."""
        redrive = statements.job_admin.redrive
        ids = await self._sender.insistent.run(redrive, which, self._intake.enqueue)
        self._sender.announce(len(ids))
        return ids

    async def unserved_tasks(self, known: Collection[str]) -> dict[str, int]:
        """Count waiting jobs of unknown tasks."""
        return await self._sender.runner.read(for_people(statements.records.unserved_tasks), known)


def _run_and_wake(conn: Connection, dialect: Any, body: Callable[..., Any], *args: Any) -> Any:
    """Run a body that makes jobs ready, and wake idle workers if it did."""
    found = body(conn, *args)
    if found != [] and found != set():
        through(conn, dialect.rules.wake())
    return found
