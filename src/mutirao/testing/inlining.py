"""A store that runs every job the moment it is enqueued, in the caller's own thread or loop."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any

from mutirao.engine import logs, outcomes
from mutirao.engine.running import Running
from mutirao.job import Claim, Job, NewJob, Transaction
from mutirao.middleware import AttemptMiddleware, around_attempt
from mutirao.outcome import SUCCEEDED, Outcome, Settlement
from mutirao.planning import Plan
from mutirao.records import Progress
from mutirao.task import Task
from mutirao.testing.memory import MemoryStore
from mutirao.testing.memory.claiming import settle, take
from mutirao.testing.memory.store import KeptBack
from mutirao.testing.memory.transaction import SessionFactory
from mutirao.unique import PARKED

CALLER = 0  # in the place of a worker's id
Call = Callable[[Callable[[], object]], Awaitable[object]]


class InlineStore(MemoryStore):
    """Runs jobs at once, whenever they are due, and raises their errors where they were enqueued.

    There are no retries: a job whose handler fails is dead. The jobs of a call run one after
    another; those after a failed one are left waiting.

    Parameters:
        tasks: the application's tasks. Jobs of others are left waiting.
        middleware: what goes around each attempt.
        session_factory: what `job.transaction()` gives, as for MemoryStore.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task[..., Any]],
        middleware: Sequence[AttemptMiddleware],
        session_factory: SessionFactory | None = None,
    ) -> None:
        super().__init__(accept_any_connection=True, session_factory=session_factory)
        self._known, self._middleware = tasks, middleware
        self._let_in: list[int] = []
        self._blocked: set[int] = set()

    def enqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Add jobs and run them here; coroutines in an event loop of their own."""
        ids = super().enqueue(jobs, conn)
        for id in ids:
            self._run(id)
        return ids

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Add jobs and run them in this event loop; plain functions in a thread."""
        ids = super().enqueue(jobs, conn)
        for id in ids:
            await self._arun(id)
        return ids

    def enqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Add a graph and run it here, step after step."""
        ids = super().enqueue_graph(plan, conn)
        for id in ids:
            self._run(id)
        return ids

    async def aenqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Add a graph and run it in this event loop."""
        ids = super().enqueue_graph(plan, conn)
        for id in ids:
            await self._arun(id)
        return ids

    def _run(self, id: int) -> None:
        claim = self._take(id)
        if claim is None:
            return
        attempt = self._attempt(claim, _here)
        if self._suspends(claim):
            _in_a_loop(attempt)
        else:
            _without_a_loop(attempt)
        for child in self._children_let_in():
            self._run(child)

    async def _arun(self, id: int) -> None:
        claim = self._take(id)
        if claim is None:
            return
        await self._attempt(claim, asyncio.to_thread)
        for child in self._children_let_in():
            await self._arun(child)

    def _take(self, id: int) -> Claim | None:
        """Return the claim of a job that waits; None if a transaction keeps it back, or nobody."""
        with self._lock:
            live = self._tables.live.get(id)
            if live is None or live.worker is not None or live.task not in self._known:
                return None
            if live.run_at == PARKED:
                self._blocked.add(id)  # by others
                return None
            return take(self._tables, live, CALLER, self._clock())

    async def _attempt(self, claim: Claim, call: Call) -> None:
        task = self._known[claim.task]
        limit = claim.max_attempts or task.options.retry.max_attempts
        running = Running(claim, self._begin)
        timeout, keep = claim.timeout or task.options.timeout, task.keeper(claim.metadata)
        job = Job(claim, limit, timeout, running.begin, self._tell, keep)
        errors: list[BaseException] = []

        def judge(error: BaseException) -> Outcome:
            errors.append(error)
            return outcomes.of_error(error, limit, limit, task.options.retry)

        async def perform() -> Outcome:
            try:
                value = await _perform(task, job, claim, call)
                return SUCCEEDED if running.settled else outcomes.success(value, keep)
            except Exception as error:  # noqa: BLE001 (raised below, when middleware has seen it)
                return judge(error)

        logs.started(claim)
        outcome = await around_attempt(self._middleware, job, perform, judge)
        logs.ended(claim, outcome, running.started)
        self._settle(running, outcome)
        if errors:
            raise errors[0]

    def _begin(self, job: Job, running: Running, session: bool) -> Transaction[Any, Any]:
        return self.transaction(job, running, session=session)

    def _settle(self, running: Running, outcome: Outcome) -> None:
        if not running.settled:
            claim = running.claim
            done = Settlement(claim.id, claim.run, outcome, running.started_ago())
            with self._lock:
                settle(self._tables, [done], self._clock())

    def _suspends(self, claim: Claim) -> bool:
        asynchronous = map(inspect.isasyncgenfunction, self._middleware)
        return self._known[claim.task].is_coroutine or any(asynchronous)

    def _tell(self, claim: Claim, done: float, of: float | None, note: str | None) -> None:
        with self._lock:
            self.note([Progress(claim.id, claim.run, done, of, note)])

    def _let_children_in(self, born: KeptBack, now: datetime) -> None:
        super()._let_children_in(born, now)
        self._let_in += [id for id, _ in born]
        self._let_in += [id for _, ids in born.graphs for id in ids]

    def _children_let_in(self) -> list[int]:
        with self._lock:
            # Of the blocked ones those that still are will be left alone again.
            children, self._let_in = [*self._let_in, *sorted(self._blocked)], []
            self._blocked.clear()
        return children


async def _perform(task: Task[..., Any], job: Job, claim: Claim, call: Call) -> object:
    args, kwargs = task.signature.decode(claim.args)
    if task.signature.wants_job:
        args = (job, *args)
    if task.is_coroutine:
        return await task.function(*args, **kwargs)
    return await call(partial(task.function, *args, **kwargs))


async def _here(function: Callable[[], object]) -> object:
    return function()


def _without_a_loop(attempt: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing, so that its handler may have a loop of its own."""
    try:
        attempt.send(None)
    except StopIteration:
        return
    attempt.close()
    raise RuntimeError("a plain handler's attempt waited for something; this is a bug of Mutirão")


def _in_a_loop(attempt: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(attempt)
        return
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(context.run, asyncio.run, attempt).result()
