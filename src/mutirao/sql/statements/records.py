"""The queries of people and dashboards, on the views; the same on every database.

Synchronous functions of a SQLAlchemy `Connection`; their contracts are those of the methods of the
same name in `mutirao.ports.Store`. None of them writes.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Select,
    Text,
    and_,
    cast,
    select,
)

from mutirao.errors import UnknownGraph, UnknownJob
from mutirao.model.jobs.job import JobState, Lane, OutcomeKind
from mutirao.model.jobs.records import (
    AttemptRecord,
    GraphRecord,
    GraphState,
    JobFilter,
    JobRecord,
    QueueCount,
    StepRecord,
    WorkerRecord,
)
from mutirao.model.keys.uniqueness import PARKED
from mutirao.model.limits.fairness import queue_of
from mutirao.model.row_json import shown
from mutirao.sql.drivers import kinds
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema import tables, views
from mutirao.sql.schema.tables import webhook_attempt
from mutirao.sql.schema.types import EARLIEST_MOMENT
from mutirao.sql.statements.finding.matching import matching

JOB_COLUMNS = [
    column for column in views.jobs.c if column.name not in ("duration", "run", "fingerprint")
]  # the columns of a JobRecord
_ATTEMPT = [
    *(column for column in tables.attempt.c if column.name not in ("job", "came_late")),
    webhook_attempt.c.status,
]  # of an AttemptRecord
JOBS_SEARCHED_PER_LANE = 250  # jobs of each lane whose tasks are looked at
_ITS = "its_"  # prefix of the columns of the joined table


def jobs(conn: Connection, which: JobFilter) -> list[JobRecord]:
    """List jobs, newest first, without their attempts. A single statement."""
    rows = conn.execute(
        select(*JOB_COLUMNS)
        .where(matching(conn, which))
        .order_by(views.jobs.c.id.desc())
        .limit(which.limit)
    )
    return [to_record(row) for row in rows]


def job(conn: Connection, id: int) -> JobRecord:
    """Return one job with all its attempts and its result; raise UnknownJob. A single statement."""
    attempt, result, sent = tables.attempt, tables.result, webhook_attempt.c
    delivery, published = tables.delivery, tables.job.alias("published")
    payload = cast(published.c.args, Text).label("payload")
    its = (column.label(_ITS + column.name) for column in _ATTEMPT)
    rows = conn.execute(
        select(*JOB_COLUMNS, *its, result.c.value.label("result"), payload)
        .outerjoin(result, result.c.job == views.jobs.c.id)
        .outerjoin(attempt, attempt.c.job == views.jobs.c.id)
        .outerjoin(webhook_attempt, and_(sent.job == attempt.c.job, sent.run == attempt.c.run))
        .outerjoin(delivery, delivery.c.job == views.jobs.c.id)
        .outerjoin(published, published.c.id == delivery.c.publication)
        .where(views.jobs.c.id == id)
        .order_by(attempt.c.run)
    ).all()
    if not rows:
        raise UnknownJob(
            f"There is no job {id}. It was never committed, or it was pruned from history since;"
            " `mutirao list` shows the jobs there are."
        )
    attempts = tuple(_to_attempt(row) for row in rows if row.its_run is not None)
    values = {"result": rows[0].result, "payload": rows[0].payload}
    read = {name: shown(value) for name, value in values.items() if value is not None}
    return replace(to_record(rows[0], attempts), **read)


def counts(conn: Connection) -> list[QueueCount]:
    """Count the jobs of every queue by state. A single statement."""
    view = views.queues.c
    rows = conn.execute(
        select(view.queue, view.state, view.jobs, view.oldest_age).order_by(view.queue, view.state)
    )
    return [QueueCount(queue=row[0], state=JobState(row[1]), jobs=row[2], oldest_age=row[3])
            for row in rows]  # fmt: skip


def workers(conn: Connection) -> list[WorkerRecord]:
    """List the registered workers, alive or not. A single statement."""
    columns = [column for column in views.workers.c if column.name != "jobs"]
    rows = conn.execute(select(*columns).order_by(views.workers.c.id))
    return [to_worker(row) for row in rows]


def unserved_tasks(conn: Connection, known: Collection[str]) -> dict[str, int]:
    """Count waiting jobs by task, for tasks not in `known`; see `waiting`."""
    found = Counter[str]()
    for (_, task), jobs in waiting(conn).items():
        found[task] += jobs
    return {task: found[task] for task in sorted(found.keys() - set(known))}


def waiting(conn: Connection) -> Counter[tuple[str, str]]:
    """Count waiting jobs by (queue, task). A statement for each lane.

    Of each lane the first ones: what no worker runs comes to the front, and to look at a million
    took 3 s.
    """
    found = Counter[tuple[str, str]]()
    for head in kinds.through(conn, dialect_of(conn.dialect).rules.lanes(None, None)):
        queue = queue_of(head.lane.queue)
        found.update((queue, task) for task in conn.scalars(_in_front(head.lane)))
    return found


def _in_front(lane: Lane) -> Select[str]:
    """Select the tasks of the first waiting jobs of a lane."""
    live, asked = tables.live, tables.job
    first = (
        select(live.c.id)
        .where(live.c.queue == lane.queue, live.c.priority == lane.priority)
        .where(live.c.worker.is_(None), live.c.run_at <= PARKED)
        .order_by(live.c.run_at, live.c.id)
        .limit(JOBS_SEARCHED_PER_LANE)
        .subquery()
    )
    return select(asked.c.task).join(first, first.c.id == asked.c.id)


def graphs(conn: Connection, state: GraphState | None, limit: int | None) -> list[GraphRecord]:
    """List graphs, newest first, without their steps. A single statement."""
    view = views.graphs
    wanted = select(view).order_by(view.c.id.desc()).limit(limit)
    if state is not None:
        wanted = wanted.where(view.c.state == str(state))
    return [_to_graph(row) for row in conn.execute(wanted)]


def graph(conn: Connection, id: int) -> GraphRecord:
    """Return a graph with its steps; raise UnknownGraph.

    A single statement reads what changes; the order of the steps never does.
    """
    step, its = tables.step, views.jobs.c
    rows = conn.execute(
        select(
            views.graphs,
            *(step.c.id.label("step"), its.id.label("job"), its.task),
            *(step.c.stage.label("its_stage"), its.state.label("its_state")),
        )
        .join(step, step.c.graph == views.graphs.c.id)
        .join(views.jobs, its.id == step.c.job)
        .where(views.graphs.c.id == id)
        .order_by(step.c.depth, step.c.id)
    ).all()
    if not rows:
        raise UnknownGraph(
            f"There is no graph {id}. It was never committed, or it was pruned with the history of"
            " its jobs; `mutirao graphs list` shows those there are."
        )
    after = _before_each(conn, id)
    return _to_graph(rows[0], tuple(_to_step(row, after) for row in rows))


def _before_each(conn: Connection, graph: int) -> dict[int, list[int]]:
    """Return, by step, the jobs of the steps that come before it."""
    step, edge = tables.step, tables.edge
    first = step.alias("first")
    leading = (
        select(step.c.id, first.c.job)
        .join(edge, edge.c.gate == step.c.gate)
        .join(first, first.c.id == edge.c.step)
        .where(step.c.graph == graph)
        .order_by(first.c.id)
    )
    after: dict[int, list[int]] = {}
    for id, job in conn.execute(leading):
        after.setdefault(id, []).append(job)
    return after


def _to_step(row: Any, after: dict[int, list[int]]) -> StepRecord:
    return StepRecord(
        job=row.job,
        task=row.task,
        stage=row.its_stage,
        state=JobState(row.its_state),
        after=tuple(after.get(row.step, ())),
    )


def _to_graph(row: Any, steps: tuple[StepRecord, ...] = ()) -> GraphRecord:
    values = _of(row, views.graphs.c)
    return GraphRecord(**values | {"state": GraphState(values["state"])}, steps=steps)


def _of(row: Any, columns: Iterable[Column[Any]], prefix: str = "") -> dict[str, Any]:
    return {column.name: getattr(row, prefix + column.name) for column in columns}


def _to_attempt(row: Any) -> AttemptRecord:
    values = _of(row, _ATTEMPT, _ITS)
    return AttemptRecord(**values | {"outcome": OutcomeKind(values["outcome"])})


def to_record(row: Any, attempts: tuple[AttemptRecord, ...] = ()) -> JobRecord:
    """Return the record of a row with the columns of `JOB_COLUMNS`."""
    values = _of(row, JOB_COLUMNS)
    values["state"] = JobState(values["state"])
    values["tags"] = _names(values["tags"] or [])
    values["metadata"] = values["metadata"] or {}
    for name in ("run_at", "enqueued_at"):  # a view of SQLite has none for one beyond all years
        values[name] = values[name] or EARLIEST_MOMENT
    return JobRecord(**values, attempts=attempts)


def to_worker(row: Any) -> WorkerRecord:
    """Return a worker from a row of the view."""
    values = row._asdict()
    for name in ("queues", "tasks"):
        values[name] = None if values[name] is None else _names(values[name])
    values["exclude_queues"] = _names(values["exclude_queues"] or [])
    return WorkerRecord(**values)


def _names(listed: Any) -> tuple[str, ...]:
    """Return the names in a list of a row; as text where another program wrote something else."""
    return tuple(map(str, listed)) if isinstance(listed, list) else (str(listed),)
