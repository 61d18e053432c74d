"""Figures for pages, from hourly sums, and bounded without them.

Sums that workers write every minute are read whole; later jobs by index, up to a bound.
"""

from collections import Counter, defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    func,
    literal,
    literal_column,
    null,
    select,
    union_all,
)

from mutirao.model.jobs.hours import FINAL_OUTCOME_NAMES
from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.jobs.records import WorkerRecord
from mutirao.model.keys.uniqueness import PARKED
from mutirao.model.limits.fairness import queue_of
from mutirao.model.reading.figures import (
    ErrorFigure,
    HourFigure,
    MinuteFigure,
    QueueFigure,
    RunningJob,
    WaitFigure,
    share,
)
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema import tables, views
from mutirao.sql.statements.finding.paging import PATIENCE
from mutirao.sql.statements.limits import is_paused
from mutirao.sql.statements.records import to_worker

COUNTED = 20_000  # live jobs; and attempts that are not added up, of all outcomes together
LATELY = timedelta(minutes=3)  # so old may be what a worker has counted
_LATE: ColumnElement[bool] = literal_column("came_late")  # as the index of those says it
_KIND = {"running": JobState.RUNNING, "parked": JobState.BLOCKED, "ahead": JobState.SCHEDULED}


def figures(conn: Connection) -> list[QueueFigure]:
    """Count jobs by queue and state. Five statements, in one transaction."""
    dialect = dialect_of(conn.dialect)
    dialect.look_up(conn, PATIENCE)
    counted = _counted(conn, dialect)
    added = _added_up(conn)
    return [*(counted or _live(conn, dialect, added.paused)), *_finished(conn, added)]


def _counted(conn: Connection, dialect: Dialect) -> list[QueueFigure]:
    """Return what a worker has counted lately, where live jobs are many."""
    backlog = tables.backlog.c
    since = dialect.moment(None, -LATELY.total_seconds())
    merged: dict[tuple[str, str], QueueFigure] = {}
    for row in conn.execute(select(tables.backlog).where(backlog.counted_at > since)):
        name = (queue_of(row.queue), row.state)
        before = merged.get(name)
        merged[name] = QueueFigure(
            queue=name[0],
            state=JobState(row.state),
            jobs=row.jobs + (before.jobs if before else 0),
            oldest=_earlier(row.since, before.oldest if before else None),
            counted_at=row.counted_at,
        )
    return [merged[name] for name in sorted(merged)]


class _AddedUp(NamedTuple):
    """The sums of ended attempts, until when they reach, and which queues are paused."""

    jobs: Counter[tuple[str, str]]
    until: datetime | None
    paused: Collection[str]


def _added_up(conn: Connection) -> _AddedUp:
    """Read three small tables at once."""
    kept, limit, nothing = tables.kept.c, tables.limit.c, null()
    until = select(literal("").label("queue"), nothing.label("outcome"),
                   literal(0).label("jobs"), tables.rolled.c.until)  # fmt: skip
    sums = select(kept.queue, kept.outcome, func.sum(kept.jobs), nothing)
    paused = select(limit.queue, nothing, literal(0), nothing).where(is_paused())
    rows = conn.execute(union_all(until, sums.group_by(kept.queue, kept.outcome), paused)).all()
    return _AddedUp(
        Counter({(row.queue, row.outcome): int(row.jobs) for row in rows if row.outcome}),
        next((row.until for row in rows if row.until is not None), None),
        {row.queue for row in rows if row.outcome is None and row.queue},
    )


def _live(conn: Connection, dialect: Dialect, paused: Collection[str]) -> list[QueueFigure]:
    live = tables.live.c
    kind = case(
        (live.worker.is_not(None), "running"),
        (live.run_at >= PARKED, "parked"),
        (live.run_at > dialect.moment(None), "ahead"),
        else_="due",
    )
    since = case((live.worker.is_not(None), live.claimed_at), (live.run_at < PARKED, live.run_at))
    some = (
        select(live.queue, kind.label("kind"), since.label("since")).limit(COUNTED + 1).subquery()
    )
    counted = select(
        some.c.queue, some.c.kind, func.count().label("jobs"), func.min(some.c.since).label("since")
    ).group_by(some.c.queue, some.c.kind)
    found: Counter[tuple[str, JobState]] = Counter()
    oldest: dict[tuple[str, JobState], datetime | None] = {}
    for row in conn.execute(counted):
        queue = queue_of(row.queue)
        due = JobState.BLOCKED if queue in paused else JobState.READY
        name = (queue, _KIND.get(row.kind, due))
        found[name] += row.jobs
        oldest[name] = _earlier(oldest.get(name), None if row.kind == "ahead" else row.since)
    cut = found.total() > COUNTED
    return [
        QueueFigure(queue=q, state=s, jobs=n, at_least=cut, oldest=oldest[q, s])
        for (q, s), n in sorted(found.items())
    ]


def _finished(conn: Connection, added: _AddedUp) -> list[QueueFigure]:
    done, asked = tables.attempt.c, tables.job.c
    found, until = added.jobs, added.until
    most = COUNTED // len(FINAL_OUTCOME_NAMES)
    some = [
        select(done.job, done.outcome)
        .where(done.outcome == outcome, done.came_late.is_(None))
        .where(*([] if until is None else [done.finished_at >= until]))
        .limit(most + 1)
        .subquery()
        for outcome in FINAL_OUTCOME_NAMES
    ]
    late = select(done.job, done.outcome).where(_LATE).limit(most).subquery()
    newest = union_all(*(select(each) for each in (*some, late))).subquery()
    counted = (
        select(asked.queue, newest.c.outcome, func.count().label("jobs"))
        .join(tables.job, asked.id == newest.c.job)
        .where(newest.c.outcome.in_(FINAL_OUTCOME_NAMES))
        .group_by(asked.queue, newest.c.outcome)
    )
    fresh: Counter[str] = Counter()
    for row in conn.execute(counted):
        found[row.queue, row.outcome] += row.jobs
        fresh[row.outcome] += row.jobs
    return [
        QueueFigure(queue=q, state=JobState(o), jobs=n, at_least=fresh[o] > most)
        for (q, o), n in sorted(found.items())
        if n > 0
    ]


def hours(
    conn: Connection, since: datetime, queue: str | None = None, limit: int = 10_000
) -> list[HourFigure]:
    """Return what ended in each hour. A single statement."""
    view = views.throughput.c
    wanted = select(views.throughput).where(view.hour >= since)
    if queue is not None:
        wanted = wanted.where(view.queue == queue)
    ordered = wanted.order_by(view.hour.desc(), view.queue, view.task, view.outcome).limit(limit)
    return [
        HourFigure(
            hour=row.hour, queue=row.queue, task=row.task, outcome=row.outcome,
            attempts=row.attempts, mean=row.mean_duration, p50=row.p50_duration,
            p95=row.p95_duration, p99=row.p99_duration,
        )
        for row in conn.execute(ordered)
    ]  # fmt: skip


def minutes(conn: Connection, since: datetime) -> list[MinuteFigure]:
    """Return what ended in each minute. A single statement."""
    done = tables.attempt.c
    most = COUNTED // len(OutcomeKind)
    some = [
        select(done.outcome, done.finished_at)
        .where(done.outcome == str(outcome), done.finished_at >= since)
        .order_by(done.finished_at.desc())
        .limit(most)
        .subquery()
        for outcome in OutcomeKind
    ]
    found: defaultdict[str, Counter[datetime]] = defaultdict(Counter)
    for row in conn.execute(union_all(*(select(each) for each in some))):
        found[row.outcome][row.finished_at.replace(second=0, microsecond=0)] += 1
    return [
        MinuteFigure(
            minute=minute,
            outcome=outcome,
            attempts=number,
            at_least=counts.total() >= most and minute == min(counts),
        )
        for outcome, counts in sorted(found.items())
        for minute, number in sorted(counts.items())
    ]


def waits(conn: Connection, sample: int = 1_000) -> list[WaitFigure]:
    """Return how long the newest jobs waited, by queue. A single statement."""
    done, asked = tables.attempt.c, tables.job.c
    some = (
        select(done.job, done.attempt, done.started_at)
        .where(done.outcome == str(OutcomeKind.SUCCEEDED))
        .order_by(done.finished_at.desc())
        .limit(sample)
        .subquery()
    )
    rows = select(asked.queue, asked.run_at, asked.enqueued_at, some.c.started_at).join(
        tables.job, asked.id == some.c.job
    )
    found: defaultdict[str, list[float]] = defaultdict(list)
    for row in conn.execute(rows.where(some.c.attempt == 1)):
        waited = (row.started_at - max(row.run_at, row.enqueued_at)).total_seconds()
        found[row.queue].append(max(waited, 0.0))
    return [
        WaitFigure(
            queue=queue, jobs=len(all), p50=share(all, 0.5), p95=share(all, 0.95), longest=all[-1]
        )
        for queue, all in ((queue, sorted(each)) for queue, each in sorted(found.items()))
    ]


def errors(conn: Connection, task: str | None = None, limit: int = 100) -> list[ErrorFigure]:
    """Return errors, the last one first. A single statement."""
    view = views.errors.c
    wanted = select(views.errors).order_by(view.last_at.desc(), view.task).limit(limit)
    if task is not None:
        wanted = wanted.where(view.task == task)
    return [ErrorFigure(**row._asdict()) for row in conn.execute(wanted)]


def running(conn: Connection, worker: int | None = None, limit: int = 500) -> list[RunningJob]:
    """Return jobs that run, those that began first. In a transaction.

    Of all workers: among the jobs that are likely to run, where no index knows which do.
    """
    dialect = dialect_of(conn.dialect)
    dialect.look_up(conn, PATIENCE)
    live, asked = tables.live.c, tables.job.c
    held = live.worker.is_not(None) if worker is None else dialect.held_by(worker)
    if worker is None and (near := dialect.running_near()) is not None:
        held = and_(held, live.id.in_(near))
    wanted = (
        select(
            live.id,
            asked.task,
            asked.queue,
            live.worker,
            live.attempt,
            live.claimed_at,
            live.cancel,
        )
        .join(tables.job, asked.id == live.id)
        .where(held)
        .order_by(live.claimed_at, live.id)
        .limit(limit)
    )
    return [
        RunningJob(
            id=row.id, task=row.task, queue=row.queue, worker=row.worker, attempt=row.attempt,
            started_at=row.claimed_at, cancelling=bool(row.cancel),
        )
        for row in conn.execute(wanted)
    ]  # fmt: skip


def workers(conn: Connection, near: Select[int]) -> list[WorkerRecord]:
    """List the workers, alive or not. In a transaction.

    The view counts what each runs among all live jobs; here it is counted among some.

    Parameters:
        near: the jobs that are likely to run.
    """
    dialect_of(conn.dialect).look_up(conn, PATIENCE)
    view, live = views.workers.c, tables.live.c
    held = (
        select(live.worker, func.count().label("jobs"))
        .where(live.id.in_(near), live.worker.is_not(None))
        .group_by(live.worker)
        .subquery("held")
    )
    others = (column for column in view if column.name not in ("jobs", "running"))
    running = func.coalesce(held.c.jobs, 0).label("running")
    wanted = select(*others, running).outerjoin(held, held.c.worker == view.id)
    return [to_worker(row) for row in conn.execute(wanted.order_by(view.id))]


def _earlier(one: Any, other: Any) -> Any:
    known = [each for each in (one, other) if each is not None]
    return min(known) if known else None
