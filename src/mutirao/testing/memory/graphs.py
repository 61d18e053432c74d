"""Graphs and results: as in the tables of a database."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mutirao.errors import UnknownGraph
from mutirao.fair import queue_of
from mutirao.graph import OnDead
from mutirao.job import Claim, JobState, Kept, NewJob, OutcomeKind
from mutirao.marks import TAKES, marks
from mutirao.planning import Needs, Plan, filled, numbered
from mutirao.records import AttemptRecord, Ending, GraphRecord, GraphState, StepRecord
from mutirao.testing.memory.tables import Live, Tables, attempt_of
from mutirao.unique import PARKED


@dataclass(slots=True)
class Step:
    """A place in a graph: the job that has it now, and what it waits for."""

    id: int
    job: int
    graph: int
    depth: int
    stage: str
    on_dead: OnDead
    after: tuple[int, ...]  # ids of steps
    needs: Needs
    compensate: NewJob | None = None
    compensate_needs: Needs | None = None
    outcome: OutcomeKind | None = None

    @property
    def well_ended(self) -> bool:
        """Whether it has ended, and not so that those after it stay blocked."""
        if self.outcome is None:
            return False
        return self.outcome is OutcomeKind.SUCCEEDED or self.on_dead is OnDead.CONTINUE


@dataclass(slots=True)
class Graph:
    """A graph, named by its first job."""

    name: str | None
    created_at: datetime
    steps: list[Step]
    undoing: bool = False

    @property
    def unfinished(self) -> bool:
        """Whether some step has not ended."""
        return any(step.outcome is None for step in self.steps)


def plant(tables: Tables, plan: Plan, ids: list[int], now: datetime) -> None:
    """Write a graph under these ids."""
    steps = []
    for id, each in zip(ids, plan.steps, strict=True):
        tables.write(each.job, now, id)
        after = () if each.gate is None else tuple(ids[place] for place in plan.gates[each.gate])
        if after:
            tables.live[id].run_at = PARKED
        undo = numbered(each.compensate_needs, ids)
        steps.append(
            Step(id, id, ids[0], each.depth, each.stage, each.on_dead, after,
                 numbered(each.needs, ids), each.compensate, undo)
        )  # fmt: skip
    tables.graphs[ids[0]] = Graph(plan.name, now, steps)


def finish(
    tables: Tables, job: Live, attempt: AttemptRecord, now: datetime, kept: Kept | None = None
) -> None:
    """Take a job out of the live ones, keep its result, and let go what waited for it."""
    tables.finish(job, attempt)
    if kept is not None:
        until = None if kept.seconds is None else now + timedelta(seconds=kept.seconds)
        tables.results[job.id] = kept.json, until
    step = step_of(tables, job.id)
    if step is None or step.outcome is not None:
        return
    step.outcome = attempt.outcome
    graph = tables.graphs[step.graph]
    if not step.well_ended and step.on_dead is OnDead.COMPENSATE:
        graph.undoing = True
        _give_up(tables, graph, now)
    _release(tables, graph)
    if graph.undoing and not graph.unfinished:
        _undo(tables, graph, now)


def step_of(tables: Tables, job: int) -> Step | None:
    """Return the step that a job is, if it is one."""
    steps = (step for graph in tables.graphs.values() for step in graph.steps)
    return next((step for step in steps if step.job == job), None)


def redriven(tables: Tables, dead: int, again: int) -> None:
    """Give the place of a dead step to the job that repeats it."""
    step = step_of(tables, dead)
    if step and step.outcome is OutcomeKind.DEAD and step.on_dead is OnDead.STOP:
        step.job, step.outcome = again, None


def with_results(tables: Tables, claim: Claim) -> Claim:
    """Fill in the arguments that are other steps' results."""
    step = step_of(tables, claim.id) if TAKES in marks(claim.metadata) else None
    if step is None or not step.needs:
        return claim
    results = {
        each.id: json.loads(tables.results[each.job][0])
        for each in tables.graphs[step.graph].steps
        if each.job in tables.results
    }
    args = filled(json.loads(claim.args), step.needs, results)
    return claim._replace(args=json.dumps(args))


def endings(tables: Tables, jobs: Collection[int]) -> list[Ending]:
    """Tell how jobs stand."""
    return [_ending(tables, id) for id in jobs if id in tables.asked]


def unfinished(tables: Tables, job: int) -> bool:
    """Tell whether a job is a step of a graph that is not over."""
    step = step_of(tables, job)
    return step is not None and tables.graphs[step.graph].unfinished


def forget(tables: Tables, pruned: Collection[int]) -> None:
    """Remove what is known of jobs that were pruned, and graphs that have none left."""
    for id in pruned:
        tables.results.pop(id, None)
        tables.progress.pop(id, None)
    for id, graph in list(tables.graphs.items()):
        graph.steps = [step for step in graph.steps if step.job not in pruned]
        if not graph.steps:
            del tables.graphs[id]


def expire(tables: Tables, now: datetime) -> None:
    """Forget the results whose time is over."""
    for id, (_, until) in list(tables.results.items()):
        if until is not None and until < now:
            del tables.results[id]


def listed(
    tables: Tables, state: GraphState | None, limit: int | None, now: datetime
) -> list[GraphRecord]:
    """List graphs, newest first."""
    found = [_record(tables, id, now) for id in sorted(tables.graphs, reverse=True)]
    return [record for record in found if state in (None, record.state)][:limit]


def one(tables: Tables, id: int, now: datetime) -> GraphRecord:
    """Return a graph with its steps."""
    if id not in tables.graphs:
        raise UnknownGraph(f"There is no graph {id}; it was never enqueued here, or was pruned.")
    return _record(tables, id, now, with_steps=True)


def state_of(tables: Tables, live: Live, now: datetime) -> JobState:
    """Return the state of a job that is live."""
    if live.worker is not None:
        return JobState.RUNNING
    if live.run_at == PARKED:
        return JobState.BLOCKED
    if live.run_at > now:
        return JobState.SCHEDULED
    return JobState.BLOCKED if tables.limits.stops(queue_of(live.queue)) else JobState.READY


def _waits_for_others(tables: Tables, live: Live) -> bool:
    """Whether a job waits for other jobs, not for a limit."""
    return live.run_at == PARKED and tables.limits.parked_at(live.id) is None


def _release(tables: Tables, graph: Graph) -> None:
    passed: set[int] = set()  # a step that was skipped has to wait for its turn, too
    for step in graph.steps:
        free = passed.issuperset(step.after)
        if free and step.well_ended:
            passed.add(step.id)
        live = tables.live.get(step.job)
        if free and live is not None and _waits_for_others(tables, live):
            live.run_at = tables.asked[step.job].run_at


def _give_up(tables: Tables, graph: Graph, now: datetime) -> None:
    for step in graph.steps:
        live = tables.live.get(step.job)
        if live is not None and live.worker is None:
            live.run += 1
            tables.finish(live, attempt_of(live, OutcomeKind.CANCELLED, now))
            step.outcome = OutcomeKind.CANCELLED


def _undo(tables: Tables, graph: Graph, now: datetime) -> None:
    before: tuple[int, ...] = ()
    deepest = max(step.depth for step in graph.steps)
    done = [step for step in graph.steps if step.outcome is OutcomeKind.SUCCEEDED]
    for n, step in enumerate(sorted(done, key=lambda s: (-s.depth, -s.id)), 1):
        undo, step.compensate = step.compensate, None
        if undo is None:
            continue
        id = tables.write(undo, now)
        if before:
            tables.live[id].run_at = PARKED
        graph.steps.append(
            Step(id, id, step.graph, deepest + n, f"undo {step.stage}", OnDead.STOP, before,
                 step.compensate_needs or {})
        )  # fmt: skip
        before = (id,)


def _ending(tables: Tables, id: int) -> Ending:
    ending, asked = tables.ending(id), tables.asked[id]
    if ending is None:
        return Ending(id, asked.new.task, None, None, None, None)
    result = tables.results.get(id, (None, None))[0]
    state = JobState(ending.outcome.value)
    return Ending(id, asked.new.task, state, result, ending.error_type, ending.error)


def _record(tables: Tables, id: int, now: datetime, *, with_steps: bool = False) -> GraphRecord:
    graph = tables.graphs[id]
    states = [_state_of_step(tables, step, now) for step in graph.steps]
    count = states.count
    blocked = sum(_is_blocked(tables, step) for step in graph.steps)
    waiting = sum(map(count, (JobState.READY, JobState.SCHEDULED, JobState.BLOCKED))) - blocked
    open_steps = sorted((s.depth, s.id, s.stage) for s in graph.steps if not s.well_ended)
    return GraphRecord(
        id=id,
        name=graph.name,
        state=_state(graph, waiting + count(JobState.RUNNING), blocked),
        stage=open_steps[0][2] if open_steps else None,
        jobs=len(states),
        blocked=blocked,
        waiting=waiting,
        running=count(JobState.RUNNING),
        succeeded=count(JobState.SUCCEEDED),
        dead=count(JobState.DEAD),
        cancelled=count(JobState.CANCELLED),
        created_at=graph.created_at,
        steps=tuple(_step_records(tables, graph, now)) if with_steps else (),
    )


def _state(graph: Graph, going: int, blocked: int) -> GraphState:
    if going:
        return GraphState.RUNNING
    if blocked:
        return GraphState.STOPPED
    failed = {step.outcome for step in graph.steps if not step.well_ended}
    if OutcomeKind.DEAD in failed:
        return GraphState.DEAD
    return GraphState.CANCELLED if failed else GraphState.SUCCEEDED


def _is_blocked(tables: Tables, step: Step) -> bool:
    live = tables.live.get(step.job)
    return live is not None and live.worker is None and _waits_for_others(tables, live)


def _state_of_step(tables: Tables, step: Step, now: datetime) -> JobState:
    if step.outcome is not None:
        return JobState(step.outcome.value)
    return state_of(tables, tables.live[step.job], now)


def _step_records(tables: Tables, graph: Graph, now: datetime) -> Iterator[StepRecord]:
    jobs = {step.id: step.job for step in graph.steps}
    for step in sorted(graph.steps, key=lambda step: (step.depth, step.id)):
        yield StepRecord(
            job=step.job,
            task=tables.asked[step.job].new.task,
            stage=step.stage,
            state=_state_of_step(tables, step, now),
            after=tuple(jobs[id] for id in step.after if id in jobs),
        )


def progress_of(tables: Tables, job: int) -> dict[str, Any]:
    """Return what a record says of a job's graph and progress."""
    step, told = step_of(tables, job), tables.progress.get(job)
    return {
        "graph": None if step is None else step.graph,
        "stage": None if step is None else step.stage,
        "progress": None if told is None else told.done,
        "progress_of": None if told is None else told.of,
        "progress_note": None if told is None else told.note,
    }
