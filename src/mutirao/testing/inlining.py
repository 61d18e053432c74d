"""A store that runs every job the moment it is enqueued, in the caller's own thread or loop."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, bindparam, select, type_coerce, update

from mutirao.engine.calls import outcomes
from mutirao.engine.calls.attempt import Running
from mutirao.engine.dispatch import attempt_log
from mutirao.engine.dispatch.external_work import until_done
from mutirao.log import naming_job
from mutirao.model.graphs.graph_plan import Plan
from mutirao.model.jobs.graph_flags import TAKES_RESULTS, flags_of
from mutirao.model.jobs.job import NOWHERE, Claim, Gives, Home, Job, NewJob, Transaction, Using
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome, Settlement
from mutirao.model.jobs.records import Progress
from mutirao.model.keys.uniqueness import PARKED
from mutirao.model.trace import own_trace
from mutirao.sql.schema.tables import job, json_columns, live, next_run
from mutirao.sql.statements import graphs
from mutirao.tasks.around.middleware import AttemptMiddleware, around_attempt
from mutirao.tasks.task import Task
from mutirao.testing.calling import CallersThread
from mutirao.testing.memory import MemoryStore, at_once
from mutirao.testing.transactions import SessionFactory

CALLER_WORKER_ID = 0  # in the place of a worker's id
Perform = Callable[[Callable[[], object]], Awaitable[object]]
_NOT_YET = ("cancel", "lost", "cut_off")  # what happens to claims only


def _field(name: str) -> ColumnElement[Any]:
    """Return the source of a claim's field, once the job is taken."""
    taken = {"run": next_run(), "attempt": live.c.attempt + 1, "run_at": live.c.run_at}
    column = taken[name] if name in taken else job.c[name]
    return (type_coerce(column, Text) if name in json_columns(job) else column).label(name)


# Independent of its lane's turn and its limits.
_WAITING = (
    select(*(_field(name) for name in Claim._fields if name not in _NOT_YET))
    .join(live, live.c.id == job.c.id)
    .where(live.c.id == bindparam("of"), live.c.worker.is_(None))
)
_TAKE = update(live).where(live.c.id == bindparam("of"))


class InlineStore(MemoryStore):
    """Runs jobs at once, whenever they are due, and raises their errors where they were enqueued.

    There are no retries: a job whose handler fails is dead. The jobs of a call run one after
    another; those after a failed one are left waiting. What is enqueued through the session of a
    `job.transaction()` runs after that.

    Parameters:
        tasks: the application's tasks. Jobs of others are left waiting.
        middleware: it wraps each attempt.
        session_factory: what `job.transaction()` gives, as for MemoryStore.
        home: what handlers know of the database.
    """

    _within_enqueue = True

    def __init__(
        self,
        tasks: Mapping[str, Task[..., Any]],
        middleware: Sequence[AttemptMiddleware],
        session_factory: SessionFactory | None = None,
        home: Home = NOWHERE,
    ) -> None:
        super().__init__(accept_any_connection=True, session_factory=session_factory)
        self._home = home
        self._known, self._middleware = tasks, middleware
        self._landed: list[int] = []
        self._blocked: set[int] = set()

    def enqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Add jobs and run them here; coroutines in an event loop of their own."""
        ids = super().enqueue(jobs, conn)
        self._run(ids, conn)
        return ids

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Add jobs and run them in this event loop; plain functions in a thread."""
        ids = super().enqueue(jobs, conn)
        await self._arun(ids, conn)
        return ids

    def enqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Add a graph and run it here, step after step."""
        ids = super().enqueue_graph(plan, conn)
        self._run(ids, conn)
        return ids

    async def aenqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Add a graph and run it in this event loop."""
        ids = super().enqueue_graph(plan, conn)
        await self._arun(ids, conn)
        return ids

    def _run(self, ids: Iterable[int], conn: object | None = None) -> None:
        for id in ids if self._enqueued_through(conn) is None else ():
            claim = self._take(id)
            if claim is None:
                continue
            attempt = self._attempt(claim, _here)
            if self._suspends(claim):
                _in_a_loop(attempt)
            else:
                at_once(attempt)
            self._run(self._let_in())

    async def _arun(self, ids: Iterable[int], conn: object | None = None) -> None:
        for id in ids if self._enqueued_through(conn) is None else ():
            claim = self._take(id)
            if claim is None:
                continue
            await self._attempt(claim, asyncio.to_thread)
            await self._arun(self._let_in())

    def _take(self, id: int) -> Claim | None:
        """Return the claim of a waiting job; None if it is blocked, or has gone."""
        return self._sender.runner.run_sync(self._claim, id)

    def _claim(self, conn: Connection, id: int) -> Claim | None:
        row = conn.execute(_WAITING, {"of": id}).first()
        if row is None or row.task not in self._known:
            return None
        if row.run_at == PARKED:
            self._blocked.add(id)  # by others
            return None
        claim = Claim(**row._mapping)
        taken = {"worker": CALLER_WORKER_ID, "run": claim.run, "attempt": claim.attempt}
        conn.execute(_TAKE, {**taken, "of": id, "claimed_at": datetime.now(UTC)})
        if TAKES_RESULTS in flags_of(claim.metadata):
            [claim] = graphs.with_results(conn, [claim])
        return claim

    async def _attempt(self, claim: Claim, call: Perform) -> None:
        task = self._known[claim.task]
        policy, usual = task.terms()
        limit = claim.max_attempts or policy.max_attempts
        running = Running(claim, self._begin)
        timeout, keep = claim.timeout or usual, task.keeper(claim.metadata)
        job = Job(
            claim, limit, timeout, running.begin, self._report_progress, keep, home=self._home
        )
        errors: list[BaseException] = []

        def judge(error: BaseException) -> Outcome:
            errors.append(error)
            return outcomes.of_error(error, limit, limit, policy)

        async def perform() -> Outcome:
            if (late := outcomes.of_expiry(claim, datetime.now)) is not None:
                return late
            try:
                value = await _perform(task, job, claim, call)
                return SUCCEEDED if running.settled else outcomes.success(value, keep)
            except Exception as error:  # noqa: BLE001 (raised below, when middleware has seen it)
                return judge(error)

        with naming_job(claim), own_trace():  # the context is the caller's
            attempt_log.started(claim)
            outcome = await around_attempt(self._middleware, job, perform, judge)
            attempt_log.ended(claim, outcome, running.started, errors[0] if errors else None)
        self._settle_one(running, outcome)
        if errors:
            raise errors[0]

    def _begin(self, job: Job, running: Running, gives: Gives | Using) -> Transaction[Any, Any]:
        return self.transaction(job, running, gives=gives)

    def _settle_one(self, running: Running, outcome: Outcome) -> None:
        if running.settled:
            return
        claim = running.claim
        keyed = claim.key is not None
        linked = claim.linked or self._known[claim.task].keeps_results
        ago = running.started_ago()
        done = Settlement(claim.id, claim.run, outcome, ago, keyed=keyed, linked=linked)
        at_once(self.settle(CALLER_WORKER_ID, [done]))

    def _suspends(self, claim: Claim) -> bool:
        asynchronous = map(inspect.isasyncgenfunction, self._middleware)
        task = self._known[claim.task]
        return task.is_coroutine or task.asks is not None or any(asynchronous)

    def _report_progress(
        self, claim: Claim, done: float, of: float | None, note: str | None
    ) -> None:
        at_once(self.report([Progress(claim.id, claim.run, done, of, note)]))

    def _land(self, children: Sequence[int]) -> None:
        self._landed += children

    def _let_in(self) -> list[int]:
        """Return whose turn has come, perhaps; of the blocked ones some will be left again."""
        ids, self._landed = [*self._landed, *sorted(self._blocked)], []
        self._blocked.clear()
        return ids


async def _perform(task: Task[..., Any], job: Job, claim: Claim, call: Perform) -> object:
    args, kwargs = task.signature.decode(claim.args)
    if task.signature.wants_job:
        args = (job, *args)
    handler = partial(task.function, *args, **kwargs)
    if task.is_coroutine:
        value = await task.inside.acall(job, handler)
    else:
        value = await call(partial(task.inside.call, job, handler))
    if task.asks is not None:
        await until_done(task.asks, job, value, call)
    return value


async def _here(function: Callable[[], object]) -> object:
    return function()


def _in_a_loop(attempt: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        CallersThread().drive(attempt)
        return
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(context.run, asyncio.run, attempt).result()
