"""The part of an application for graphs and results: enqueue, list, cancel, wait.

Each operation has an asynchronous and a synchronous face.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import msgspec

from mutirao.client.enqueueing import Enqueuing
from mutirao.client.portal import Portal
from mutirao.errors import InvalidGraph, JobCancelled, JobDied, JobFailed, ResultMissing, WrongState
from mutirao.model.graphs.graph import Chain, Graph, Group, OnDead, Step, as_part
from mutirao.model.jobs.job import JobState, NewJob
from mutirao.tasks.around.middleware import Enqueueing, around_enqueue_many
from mutirao.tasks.handle import NOT_GIVEN, Handle, given
from mutirao.tasks.task import Task

if TYPE_CHECKING:
    from mutirao.model.graphs.graph_plan import Plan
    from mutirao.model.jobs.records import Ending, GraphRecord, GraphState

R = TypeVar("R")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class GraphHandle:
    """A graph that was enqueued. `id` is that of its first job; `jobs` are in the order they run.

    `handle[step]` is the job of a step that `step` or `Graph.add` returned.
    """

    id: int
    jobs: tuple[Handle[Any], ...]
    places: Mapping[Step, int] = field(repr=False, compare=False)

    def __getitem__(self, step: Step) -> Handle[Any]:
        """Return a step's job; raise InvalidGraph if it is not a step of this graph."""
        try:
            return self.jobs[self.places[step]]
        except (KeyError, TypeError):  # TypeError: not hashable
            raise InvalidGraph(
                f"the graph has no step {step!r}; give what step(…) or graph.add(…) returned, or"
                " take a job by its place: handle.jobs[0]"
            ) from None


class Endings(Protocol):
    """Waits for the ends of jobs, as this module needs it."""

    async def wait(self, id: int, timeout: float | None) -> Ending:
        """Wait until a job has ended, and return how; raises ResultTimeout, UnknownJob."""
        ...


class Graphs(Enqueuing, Protocol):
    """The part of an application for jobs that wait for each other."""

    _portal: Portal
    _endings: Endings
    _tasks: dict[str, Task[..., Any]]

    def enqueue_graph(
        self,
        graph: Graph | Chain | Group | Step,
        *,
        name: str | None = None,
        on_dead: OnDead | str | None = None,
        conn: object = NOT_GIVEN,
    ) -> GraphHandle:
        """Enqueue all jobs of a graph, or none; later ones wait for those before them.

        Parameters:
            graph: the return value of `chain`, `group`, `step` or `Graph`.
            name: a name for people; a `Graph` has its own.
            on_dead: what happens when a step dies or is cancelled, unless the step has its own
                rule: "stop" (the default), "continue" or "compensate". A `Graph` has its own.
            conn: the connection or session whose transaction the jobs join; it is never committed.

        Raises:
            InvalidGraph: it is empty, has a cycle, or a step uses a result that is not before it.
            InvalidJob: one of its jobs does not fit. Nothing was written.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        whole = around_enqueue_many(self._around_enqueue_many)
        with whole, _handing_in(self._open, _plan(graph, name, on_dead)) as (planned, done):
            return done(self._handles(planned, self.store.enqueue_graph(planned, given(conn))))

    async def aenqueue_graph(
        self,
        graph: Graph | Chain | Group | Step,
        *,
        name: str | None = None,
        on_dead: OnDead | str | None = None,
        conn: object = NOT_GIVEN,
    ) -> GraphHandle:
        """Enqueue all jobs of a graph, or none, from a coroutine.

        Parameters:
            graph: the return value of `chain`, `group`, `step` or `Graph`.
            name: a name for people; a `Graph` has its own.
            on_dead: "stop" (the default), "continue" or "compensate"; a `Graph` has its own.
            conn: the asynchronous connection or session whose transaction the jobs join.

        Raises:
            InvalidGraph: it is empty, has a cycle, or a step uses a result that is not before it.
            InvalidJob: one of its jobs does not fit. Nothing was written.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        whole = around_enqueue_many(self._around_enqueue_many)
        with whole, _handing_in(self._open, _plan(graph, name, on_dead)) as (planned, done):
            return done(
                self._handles(planned, await self.store.aenqueue_graph(planned, given(conn)))
            )

    async def agraph(self, id: int) -> GraphRecord:
        """Return a graph with its steps; raise UnknownGraph if there is none with this id."""
        from mutirao.model.jobs.records import checked_id

        return await self.store.graph(checked_id(id))

    async def agraphs(
        self, state: GraphState | str | None = None, limit: int | None = 100
    ) -> list[GraphRecord]:
        """List graphs, newest first, without their steps.

        Raises:
            InvalidFilter: `limit` is not a number of records.
        """
        from mutirao.model.jobs.records import GraphState, checked_limit

        chosen = None if state is None else GraphState(state)
        return await self.store.graphs(chosen, checked_limit(limit))

    async def acancel_graph(self, id: int) -> list[int]:
        """Cancel the unfinished jobs of a graph; return their ids.

        Running jobs learn of it with the next heartbeat; steps that ask for compensation are
        undone.

        Raises:
            UnknownGraph: no graph has that id.
        """
        from mutirao.model.jobs.records import JobFilter, checked_id

        await self.store.graph(checked_id(id))
        return await self.store.cancel(JobFilter(graph=id, limit=None))

    # The result of a coroutine function is what its coroutine returns.
    @overload
    async def aresult(
        self, id: int, timeout: float | None = None, *, of: Task[..., Coroutine[Any, Any, V]]
    ) -> V: ...
    @overload
    async def aresult(self, id: int, timeout: float | None = None, *, of: Task[..., R]) -> R: ...
    @overload
    async def aresult(self, id: int, timeout: float | None = None) -> Any: ...
    async def aresult(
        self, id: int, timeout: float | None = None, *, of: Task[..., Any] | None = None
    ) -> Any:
        """Wait until a job has finished, and return its result.

        The result is converted to the handler's return type, if the task is registered here.

        Parameters:
            id: the job's id.
            timeout: maximum seconds to wait; None: no limit.
            of: the job's task, which gives the result its type.

        Raises:
            JobDied, JobCancelled: the job has finished without a result.
            ResultTimeout: the job has not finished in time.
            ResultMissing: the result was not stored.
            UnknownJob: the job was not committed (yet), or was pruned.
            WrongState: the job is of another task than `of`.
        """
        from mutirao.model.jobs.records import checked_id

        ending = await self._endings.wait(checked_id(id), timeout)
        if of is not None and of.name != ending.task:
            raise WrongState(f"job {id} is of task {ending.task}, and not of {of.name}")
        if ending.state is JobState.SUCCEEDED and ending.result is not None:
            if (task := self._tasks.get(ending.task)) is None:
                return msgspec.json.decode(ending.result)
            return task.signature.decode_result(ending.result)
        raise _without_result(ending)

    def graph(self, id: int) -> GraphRecord:
        """Return a graph with its steps, from synchronous code.

        Raises:
            UnknownGraph: there is none with this id.
        """
        return self._portal.call(self.agraph, id)

    def graphs(
        self, state: GraphState | str | None = None, limit: int | None = 100
    ) -> list[GraphRecord]:
        """List graphs, newest first, without their steps, from synchronous code.

        Raises:
            InvalidFilter: `limit` is not a number of records.
        """
        return self._portal.call(self.agraphs, state, limit)

    def cancel_graph(self, id: int) -> list[int]:
        """Cancel the unfinished jobs of a graph, from synchronous code; return their ids.

        Raises:
            UnknownGraph: no graph has that id.
        """
        return self._portal.call(self.acancel_graph, id)

    @overload
    def result(
        self, id: int, timeout: float | None = None, *, of: Task[..., Coroutine[Any, Any, V]]
    ) -> V: ...
    @overload
    def result(self, id: int, timeout: float | None = None, *, of: Task[..., R]) -> R: ...
    @overload
    def result(self, id: int, timeout: float | None = None) -> Any: ...
    def result(
        self, id: int, timeout: float | None = None, *, of: Task[..., Any] | None = None
    ) -> Any:
        """Wait until a job has finished, and return its result, from synchronous code.

        Parameters:
            id: the job's id.
            timeout: maximum seconds to wait; None: no limit.
            of: the job's task, which gives the result its type.

        Raises:
            JobDied, JobCancelled: the job has finished without a result.
            ResultTimeout: the job has not finished in time.
            ResultMissing: the result was not stored.
            UnknownJob: the job was not committed (yet), or was pruned.
            WrongState: the job is of another task than `of`.
        """
        return self._portal.call(partial(self.aresult, of=of), id, timeout)

    def _handles(self, planned: Plan, ids: list[int]) -> GraphHandle:
        pairs = zip(ids, planned.steps, strict=True)
        jobs: Iterator[Handle[Any]] = (
            Handle(id, each.job.task, each.job.queue, results=self) for id, each in pairs
        )
        return GraphHandle(ids[0], tuple(jobs), planned.parts)


def _plan(
    given: Graph | Chain | Group | Step, name: str | None, on_dead: OnDead | str | None
) -> Plan:
    from mutirao.model.graphs.graph_plan import plan

    if not isinstance(given, Graph):
        graph = Graph(name, on_dead=on_dead or OnDead.STOP)
        graph.add(as_part(given))
        return plan(graph)
    if name is not None or on_dead is not None:
        raise InvalidGraph("a Graph has a name and on_dead of its own; give them to Graph(…)")
    return plan(given)


@contextmanager
def _handing_in(
    opening: Callable[[NewJob], Enqueueing], planned: Plan
) -> Iterator[tuple[Plan, Callable[[GraphHandle], GraphHandle]]]:
    """Check every job and pass it through the middleware, which gets the result."""
    opened: list[Enqueueing] = []

    def done(handle: GraphHandle) -> GraphHandle:
        for each, its in zip(opened, handle.jobs, strict=True):
            each.done(its)
        return handle

    try:
        opened.extend(map(opening, planned.jobs))
        steps = zip(planned.steps, opened, strict=True)
        yield replace(planned, steps=[step._replace(job=each.job) for step, each in steps]), done
    except BaseException as error:
        for each in opened:
            each.failed(error)
        raise


def _without_result(ending: Ending) -> JobFailed:
    about = f"job {ending.id}"
    if ending.state is JobState.SUCCEEDED:
        return ResultMissing(
            f"{about} has succeeded, and its result is not there: it was not kept, or not for so"
            " long. Register the task with @app.task(keep_result=True)",
            ending.id,
        )
    why = f"{ending.error_type}: {ending.error}" if ending.error_type else ending.error
    if ending.state is JobState.CANCELLED:
        return JobCancelled(f"{about} was cancelled{f' ({why})' if why else ''}", ending.id)
    return JobDied(f"{about} is dead; redrive it once its error is mended: {why}", ending.id)
