"""The store itself: ports.Store over plain dictionaries, one lock around each step."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from mutirao.errors import StaleRun, UnsupportedConnection, WrongState
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
from mutirao.outcome import Settlement, completion
from mutirao.planning import Plan
from mutirao.ports import Attempt
from mutirao.records import (
    JobFilter,
    JobRecord,
    QueueCount,
    WorkerRecord,
)
from mutirao.testing.memory import claiming, graphs, housekeeping, keys, people
from mutirao.testing.memory.books import Books
from mutirao.testing.memory.tables import Tables, arguments_of
from mutirao.testing.memory.transaction import MemoryTransaction, SessionFactory

Born = list[tuple[int, NewJob]]


class KeptBack(Born):
    """What lands with an open transaction: jobs, and graphs with the ids of theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.graphs: list[tuple[Plan, list[int]]] = []


def _utc_now() -> datetime:
    return datetime.now(UTC)


class MemoryStore(Books):
    """A `mutirao.ports.Store` without a database, for unit tests.

    Keeps every promise of the protocol but durability, and but one commit for several things. May
    be used from several threads and event loops at once. Ids count from 1.

    Parameters:
        now: the store's clock, an aware datetime at each call; for tests that move time.
        accept_any_connection: let `enqueue(conn=…)` take whatever the tested code passes. The
            jobs are then there at once, not at that connection's commit, and stay if it rolls
            back. Otherwise a `conn` raises UnsupportedConnection, unless it is the session of
            an open `job.transaction()`, with which the job then lands.
        session_factory: called for each `job.transaction()`; what it returns is entered for the
            session that the handler gets, and left before the job is completed. A
            `sessionmaker.begin` fits, or `lambda: contextlib.nullcontext(fake)`. Without one,
            `job.transaction()` raises WrongState.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime] = _utc_now,
        accept_any_connection: bool = False,
        session_factory: SessionFactory | None = None,
    ) -> None:
        self._clock = now
        self._accept_any_connection = accept_any_connection
        self._session_factory = session_factory
        self._lock = Lock()
        self._tables = Tables()
        self._children: dict[
            int, KeptBack
        ] = {}  # by the identity of the open transactions' sessions

    def enqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Add jobs; return their ids, in order."""
        news = list(jobs)
        for new in news:
            arguments_of(new)  # all or none
        with self._lock:
            kept_back = self._children.get(id(conn))
            if conn is not None and kept_back is None and not self._accept_any_connection:
                raise _unknown(conn)
            now = self._clock()
            born = [(next(self._tables.job_ids), new) for new in news]
            keys.refuse(self._tables, born, now)
            if kept_back is None:
                return self._write(born, now)
            ids = [keys.foretell(self._tables, new, now, id) for id, new in born]
            kept_back += [each for each, id in zip(born, ids, strict=True) if each[0] == id]
            return ids

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """As `enqueue`."""
        return self.enqueue(jobs, conn)

    def enqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Add a graph; return the ids of its jobs, in order."""
        for each in plan.steps:
            arguments_of(each.job)
        with self._lock:
            kept_back = self._children.get(id(conn))
            if conn is not None and kept_back is None and not self._accept_any_connection:
                raise _unknown(conn)
            ids = [next(self._tables.job_ids) for _ in plan.steps]
            if kept_back is None:
                graphs.plant(self._tables, plan, ids, self._clock())
            else:
                kept_back.graphs.append((plan, ids))
            return ids

    async def aenqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """As `enqueue_graph`."""
        return self.enqueue_graph(plan, conn)

    async def check(self) -> None:
        """Nothing can be missing."""

    async def close(self) -> None:
        """Nothing is open; the jobs stay."""

    def twin(self, connections: int = 1, *, within: float | None = None) -> "MemoryStore":
        """Return this store: it has no connections to share, and may be used from any thread."""
        return self

    def cut(self) -> None:
        """Do nothing: no call is ever under way."""

    async def register(
        self, worker: NewWorker, *, expiry: float, now: datetime | None = None
    ) -> int:
        """Add a worker, alive for `expiry` seconds and listening; return its id."""
        with self._lock:
            return housekeeping.register(self._tables, worker, expiry, now or self._clock())

    async def beat(
        self,
        worker: int,
        *,
        expiry: float,
        stuck: int = 0,
        late: float = 0.0,
        now: datetime | None = None,
    ) -> Beat:
        """Prolong a worker's life; return whether it has one, and what to cancel."""
        with self._lock:
            moment = now or self._clock()
            return housekeeping.beat(self._tables, worker, expiry, stuck, late, moment)

    async def listen(self, worker: int, listening: bool) -> None:
        """Note whether a worker is idle; shown by `workers()`."""
        with self._lock:
            known = self._tables.workers.get(worker)
            if known is not None:
                known.listening = listening

    async def retire(self, worker: int) -> None:
        """Remove a worker and give its jobs back, unattempted."""
        with self._lock:
            housekeeping.retire(self._tables, worker, self._clock())

    async def lanes(
        self, queues: Collection[str] | None, *, now: datetime | None = None
    ) -> list[LaneHead]:
        """Return the lanes with waiting jobs, by priority and queue."""
        with self._lock:
            return claiming.lanes(self._tables, queues, now or self._clock())

    async def claim(
        self,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        *,
        without: Collection[str] = (),
        now: datetime | None = None,
    ) -> list[Claim]:
        """Take up to `limit` due jobs for a registered worker."""
        with self._lock:
            moment = now or self._clock()
            return claiming.claim(self._tables, worker, lanes, limit, without, moment)

    async def settle(
        self, worker: int, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> set[int]:
        """Write the outcomes that are not stale; return the ids of their jobs."""
        with self._lock:
            return claiming.settle(self._tables, settlements, now or self._clock())

    async def release(self, jobs: Sequence[tuple[int, int]]) -> set[int]:
        """Give back (id, run) pairs that were never started; return the ids given back."""
        with self._lock:
            return claiming.release(self._tables, jobs, self._clock())

    async def lose(
        self, jobs: Sequence[tuple[int, int]], *, now: datetime | None = None
    ) -> set[int]:
        """Make jobs wait again whose runs were lost; return their ids."""
        with self._lock:
            return housekeeping.lose(self._tables, jobs, now or self._clock())

    async def unlocked(self, jobs: Collection[int]) -> set[int]:
        """Return which of these jobs are live: nothing is ever locked."""
        with self._lock:
            return self._tables.live.keys() & jobs

    async def held(self, worker: int) -> list[tuple[int, int]]:
        """Return (id, run) of every job a worker holds."""
        with self._lock:
            return [(job.id, job.run) for job in self._tables.held_by(worker)]

    async def lease(
        self, duty: str, worker: int, *, ttl: float, every: float, now: datetime | None = None
    ) -> bool:
        """Try to become the one who does `duty` now."""
        with self._lock:
            moment = now or self._clock()
            return housekeeping.lease(self._tables, duty, worker, ttl, every, moment)

    async def rescue(
        self, *, orphans: bool = True, now: datetime | None = None
    ) -> list[tuple[int, int]]:
        """Remove expired workers and make their jobs wait again, under the new runs returned."""
        with self._lock:
            return housekeeping.rescue(self._tables, now or self._clock())

    async def prune(
        self, outcome: OutcomeKind, before: float, limit: int, *, now: datetime | None = None
    ) -> int:
        """Forget at most `limit` jobs that ended with `outcome` over `before` seconds ago."""
        with self._lock:
            return housekeeping.prune(self._tables, outcome, before, limit, now or self._clock())

    async def mend(self, *, now: datetime | None = None) -> dict[str, int]:
        """Nothing is ever left behind."""
        return {}

    async def refresh_statistics(self) -> None:
        """There is no planner."""

    async def declare_fair(self, tasks: Mapping[str, str | None]) -> None:
        """Note by which argument the jobs of tasks take turns."""
        with self._lock:
            for task, by in tasks.items():
                self._tables.fair.pop(task, None)
                if by is not None:
                    self._tables.fair[task] = by

    def transaction(self, job: Job, attempt: Attempt, *, session: bool) -> Transaction[Any, Any]:
        """Enter what `session_factory` makes; complete the job afterwards.

        Raises:
            WrongState: there is no `session_factory`.
        """
        if self._session_factory is None:
            raise WrongState(
                "job.transaction() was called on a MemoryStore, which has no transactions. Test"
                " this handler with an SQLite file, or give MemoryStore(session_factory=…) what"
                " its session is to be."
            )
        completion = _Completion(self, job, attempt)
        return MemoryTransaction(self._session_factory(), completion)

    async def jobs(self, which: JobFilter) -> list[JobRecord]:
        """List jobs, newest first."""
        return self.listing(which)

    def listing(self, which: JobFilter) -> list[JobRecord]:
        """As `jobs`, for callers without an event loop."""
        with self._lock:
            return people.jobs(self._tables, which, self._clock())

    async def job(self, id: int) -> JobRecord:
        """Return one job with all its attempts, or raise UnknownJob."""
        with self._lock:
            return people.job(self._tables, id, self._clock())

    async def counts(self) -> list[QueueCount]:
        """Count the jobs of every queue by state."""
        with self._lock:
            return people.counts(self._tables, self._clock())

    async def workers(self) -> list[WorkerRecord]:
        """List the registered workers, by id."""
        with self._lock:
            return people.workers(self._tables, self._clock())

    async def cancel(self, which: JobFilter, *, now: datetime | None = None) -> list[int]:
        """Finish waiting jobs as cancelled, flag running ones; return their ids."""
        with self._lock:
            return people.cancel(self._tables, which, now or self._clock())

    async def hurry(self, which: JobFilter, *, now: datetime | None = None) -> list[int]:
        """Make waiting jobs due now; return their ids."""
        with self._lock:
            return people.hurry(self._tables, which, now or self._clock())

    async def redrive(self, which: JobFilter) -> list[int]:
        """Enqueue dead jobs again; return the new ids."""
        with self._lock:
            return people.redrive(self._tables, which, self._clock())

    async def unserved_tasks(self, known: Collection[str]) -> dict[str, int]:
        """Count waiting jobs of tasks that are not in `known`."""
        with self._lock:
            return people.unserved(self._tables, known)

    def _write(self, born: Born, now: datetime) -> list[int]:
        return [keys.place(self._tables, new, now, id) for id, new in born]

    def _let_children_in(self, born: KeptBack, now: datetime) -> None:
        self._write(born, now)
        for plan, ids in born.graphs:
            graphs.plant(self._tables, plan, ids, now)


class _Completion:
    """The good end of a MemoryTransaction, on behalf of the store."""

    def __init__(self, store: MemoryStore, job: Job, attempt: Attempt) -> None:
        self._store, self._job, self._attempt = store, job, attempt
        self._kept_back = KeptBack()

    @contextmanager
    def adopt(self, session: object) -> Iterator[None]:
        self._store._children[id(session)] = self._kept_back
        try:
            yield
        finally:
            del self._store._children[id(session)]

    def require(self) -> None:
        live = self._store._tables.live.get(self._job.id)
        if live is None or not live.held(self._job.run):
            raise StaleRun(
                f"Job {self._job.id} was taken from run {self._job.run} of it; its transaction"
                " was not completed. Another attempt does the work: leave it to that one."
            )

    def complete(self) -> None:
        store = self._store
        done = completion(self._job, self._attempt.started_ago())
        with store._lock:
            self.require()
            now = store._clock()
            woken = claiming.settle(store._tables, [done], now).woken
            store._let_children_in(self._kept_back, now)
        if woken:
            self._attempt.mark_settled(woken)
        else:
            self._attempt.mark_settled()


def _unknown(conn: object) -> UnsupportedConnection:
    return UnsupportedConnection(
        f"conn= was given a {type(conn).__name__}, but this store is in memory and knows no"
        " connections. Leave conn out, or construct MemoryStore(accept_any_connection=True): jobs"
        " are then there at once, not at the commit."
    )
