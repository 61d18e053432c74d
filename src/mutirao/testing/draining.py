"""Drains a database in a test: runs all due jobs until none is left."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mutirao.app import Mutirao
from mutirao.engine.calls.processes import Processes
from mutirao.engine.calls.progress import ProgressWriter
from mutirao.engine.calls.threads import Threads
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.dispatch.executor import AttemptContext, Executor
from mutirao.engine.dispatch.slots import Slots
from mutirao.engine.duties.schedules import Pauser
from mutirao.engine.loops import LoopHealth
from mutirao.engine.settings import WorkerSettings, identity
from mutirao.engine.settling.completer import Completer
from mutirao.engine.worker_row import WorkerRow
from mutirao.errors import WrongState
from mutirao.model.jobs.job import Claim, NewWorker, OutcomeKind
from mutirao.ports import Store
from mutirao.sql.drivers.borrowing import Borrowed
from mutirao.tasks.handle import NOT_GIVEN, given
from mutirao.tasks.registration import subscriptions_of
from mutirao.tasks.task import check_each
from mutirao.testing.borrowing import BorrowingStore
from mutirao.testing.calling import CallersPauser, CallersThread
from mutirao.testing.capturing import instead

HEARTBEAT_EXPIRY = 3_600.0  # seconds: there is no heartbeat
AFTER_ALL_RUN_ATS = datetime(9000, 1, 1, tzinfo=UTC)
DEFAULT_JOB_LIMIT = 10_000


async def adrain(
    app: Mutirao,
    *,
    with_scheduled: bool = False,
    queues: Collection[str] | None = None,
    concurrency: int = 1,
    limit: int = DEFAULT_JOB_LIMIT,
) -> Counter[str]:
    """Run all due jobs of an application, and those they enqueue, until none is left.

    Everything is as in a worker: threads, timeouts, middleware, retries, history. Errors are
    outcomes; look at the counts. Jobs of tasks that `app` does not have are left alone.

    Parameters:
        app: the application, with its own store or inside `capture`.
        with_scheduled: run jobs that are not due yet as well, retries included.
        queues: only these; None means all.
        concurrency: handlers running at once; with 1, jobs run in the order of their lanes.
        limit: the most attempts in all.

    Returns:
        How many attempts ended with each outcome.

    Raises:
        InvalidTask: some tasks cannot work as they are; all of them are named.
        SchemaError: the tables do not fit the code.
        WrongState: `limit` was reached and there are jobs left.
    """
    settings = WorkerSettings(concurrency=concurrency, prefetch=0.0, linger=0.0)
    means = _Means(app.store.clone(concurrency + 1))
    return await _drain(app, means, settings, with_scheduled, queues, limit)


def drain(
    app: Mutirao,
    *,
    conn: object = NOT_GIVEN,
    with_scheduled: bool = False,
    queues: Collection[str] | None = None,
    concurrency: int = 1,
    limit: int = DEFAULT_JOB_LIMIT,
) -> Counter[str]:
    """Run all due jobs of an application, and those they enqueue, until none is left.

    For tests that are not coroutines. Everything is as in a worker: coroutines in an event loop
    that is made for it, plain functions in threads, timeouts, middleware, retries, history. Errors
    are outcomes; look at the counts. Jobs of tasks that `app` does not have are left alone.

    With `conn` all of it happens on that connection, inside its open transaction, which is neither
    committed nor rolled back: claiming, settling, `job.transaction()`, and what is enqueued through
    `app` meanwhile. Plain functions, those of `process=True` as well, are called in this thread,
    with no event loop running and no timeout. If a handler leaves the transaction failed, it goes
    back to where that handler began.

    Parameters:
        app: the application, with its own store or inside `capture`.
        conn: a synchronous connection or session to the application's database, of those that
            `using(conn=…)` takes.
        with_scheduled: run jobs that are not due yet as well, retries included.
        queues: only these; None means all.
        concurrency: handlers running at once; with 1, jobs run in the order of their lanes.
        limit: the most attempts in all.

    Returns:
        How many attempts ended with each outcome.

    Raises:
        InvalidTask: some tasks cannot work as they are; all of them are named.
        SchemaError: the tables do not fit the code.
        UnsupportedConnection: `conn` is None, asynchronous, of another database, or no connection.
        WrongState: `limit` was reached and there are jobs left; or an event loop runs in this
            thread: await `adrain` there. Or `conn` was given with a `concurrency` or inside
            `capture`, has no open transaction, or was closed by a handler.
    """
    _refuse_in_loop()
    settings = WorkerSettings(concurrency=concurrency, prefetch=0.0, linger=0.0)
    lent = given(conn)
    if lent is None:
        means = _Means(app.store.clone(concurrency + 1))
        return asyncio.run(_drain(app, means, settings, with_scheduled, queues, limit))
    if concurrency != 1:
        raise WrongState(
            f"concurrency={concurrency} was given with conn=, and one connection serves one handler"
            " at a time; leave one of them out"
        )
    store, thread = BorrowingStore(app.store, lent), CallersThread()
    means = _Means(store, store.borrowed, lambda: thread, CallersPauser)
    with instead(app, store):
        try:
            return thread.drive(_drain(app, means, settings, with_scheduled, queues, limit))
        except Exception:
            store.borrowed.refuse_closed()
            raise


def _refuse_in_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise WrongState("drain(app) was called in a running event loop; use `await adrain(app)`.")


@dataclass(frozen=True, slots=True)
class _Means:
    """The store of the jobs, and the threads that call their handlers."""

    store: Store
    borrowed: Borrowed | None = None
    threads: Callable[[], Threads] = Threads
    pauser: Callable[[Store], Pauser] = Pauser


async def _drain(
    app: Mutirao,
    means: _Means,
    settings: WorkerSettings,
    with_scheduled: bool,
    queues: Collection[str] | None,
    limit: int,
) -> Counter[str]:
    store = means.store
    try:
        check_each(app.tasks.values())
        await store.check()
        here = _identity(settings)
        for each in subscriptions_of(app.tasks):
            await store.subscriptions.put(each, worker=here.name)
        worker = await store.register(here, expiry=HEARTBEAT_EXPIRY)
        try:
            bench = _Bench(app, means, worker, settings)
            return await bench.drain(AFTER_ALL_RUN_ATS if with_scheduled else None, queues, limit)
        finally:
            await store.retire(worker)
    finally:
        await store.close()


class _Bench:
    def __init__(self, app: Mutirao, means: _Means, worker: int, settings: WorkerSettings) -> None:
        self._app, self._store, self._worker = app, means.store, worker
        self._settings, self._means = settings, means
        self._threads = means.threads()
        self._processes = Processes(self._threads)
        self._counts: Counter[str] = Counter()

    async def drain(
        self, moment: datetime | None, queues: Collection[str] | None, limit: int
    ) -> Counter[str]:
        try:
            while claims := await self._claim(moment, queues):
                try:
                    self._bound(claims, limit)
                    await self._run(claims)
                except BaseException:
                    # Signing off gives back due jobs: not those claimed ahead of their time.
                    await self._store.release([(claim.id, claim.run) for claim in claims])
                    raise
            return self._counts
        finally:
            self._processes.close()
            self._threads.close()

    def _bound(self, claims: list[Claim], limit: int) -> None:
        if self._counts.total() + len(claims) > limit:
            raise WrongState(
                f"{limit} attempts were made and there are still jobs, such as one of"
                f" {claims[0].task!r}. Does one snooze or enqueue itself for ever?"
                " Otherwise give drain a higher limit."
            )

    async def _claim(self, moment: datetime | None, queues: Collection[str] | None) -> list[Claim]:
        heads = await self._store.lanes(queues, now=moment)
        lanes = [head.lane for head in heads if head.due_in <= 0]
        if not lanes:
            return []
        strange = await self._store.unserved_tasks(self._app.tasks)
        most = self._settings.concurrency
        while True:
            claims = await self._store.claim(self._worker, lanes, most, without=strange, now=moment)
            # All that it met have to wait for others, perhaps, and there are more behind them.
            if claims or not getattr(claims, "woken", ()):
                return claims

    async def _run(self, claims: list[Claim]) -> None:
        # New ones each time: a stuck one must not take up a later slot.
        threads = self._means.threads()
        store, borrowed = self._store, self._means.borrowed
        board = ProgressWriter(store)
        context = AttemptContext(
            report=board.report,
            pauser=self._means.pauser(store),
            home=self._app.home(),
            fan_out=store.subscriptions.fan_out,
        )
        processes = None if borrowed else self._processes
        executor = Executor(self._app.tasks, self._app._around_attempt, threads, processes, context)
        row = WorkerRow(store, _identity(self._settings), self._worker)
        pulse = LoopHealth("completer", self._settings.turn_limit)
        completer = Completer(row, self._settings, executor.alternatives, pulse)
        dispatcher = Dispatcher(
            self._settings,
            executor,
            completer,
            Slots(self._settings.concurrency, threads),
            lambda job, running, gives: store.transaction(job, running, gives=gives),
        )
        if borrowed is not None:
            borrowed.keep()
        dispatcher.feed(claims)
        await dispatcher.idle()
        undone = borrowed is not None and borrowed.mend()
        completer.close()
        await completer.run()
        await board.write()
        threads.close()
        for claim in claims:
            self._counts[await self._outcome(claim, undone)] += 1

    async def _outcome(self, claim: Claim, undone: bool) -> OutcomeKind:
        record = await self._store.job(claim.id)
        ended = [each.outcome for each in record.attempts if each.run == claim.run]
        if not ended and undone:
            raise WrongState(
                f"job {claim.id} ({claim.task}) had completed in its job.transaction(), and then a"
                " statement failed on the connection of the drain, which took that back; elsewhere"
                " it would have stayed. Have such a statement in a savepoint of its own"
            )
        return ended[0]


def _identity(settings: WorkerSettings) -> NewWorker:
    here = identity(settings, version="")
    return replace(here, name=f"drain:{here.name}")
