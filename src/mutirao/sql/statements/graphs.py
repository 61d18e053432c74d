"""Graphs in the tables: the work for them in settling, cancelling, redriving and pruning.

Synchronous functions of a SQLAlchemy `Connection` in a transaction, the same on every database. A
graph's row is its lock: `hold` it before any live row is locked, and no other transaction changes
the states of its steps. So steps that end at the same moment, in two transactions, are counted one
after the other.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    Connection,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    not_,
    or_,
    select,
    true,
    update,
)

from mutirao.model.graphs.graph import OnDead
from mutirao.model.graphs.graph_plan import Needs, filled, steps_in
from mutirao.model.jobs.claim import UnfitClaim
from mutirao.model.jobs.graph_flags import TAKES_RESULTS, flags_of
from mutirao.model.jobs.job import Claim, NewJob, OutcomeKind
from mutirao.model.keys.uniqueness import PARKED
from mutirao.model.row_json import UnreadableRow, read_object
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.kinds import through
from mutirao.sql.enqueue.graphs import from_text
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.tables import edge, gate, graph, job, live, result, step
from mutirao.sql.schema.types import read_raw
from mutirao.sql.statements import limits
from mutirao.sql.statements.cancelling import cancel_waiting

log = logging.getLogger(__name__)
_MOST = 1 << 63  # what a database's number is below
SUCCEEDED, CANCELLED = str(OutcomeKind.SUCCEEDED), str(OutcomeKind.CANCELLED)


def hold(conn: Connection, jobs: Sequence[int]) -> bool:
    """Lock the graphs of these jobs until the transaction ends; return whether there are any."""
    theirs = select(step.c.graph).where(dialect_of(conn.dialect).among(step.c.job, jobs))
    locked = select(graph.c.id).where(graph.c.id.in_(theirs)).order_by(graph.c.id)
    return bool(conn.execute(locked.with_for_update()).all())


def lock_compensated(
    conn: Connection, dialect: Dialect, failed: Sequence[int], settled: Sequence[int]
) -> None:
    """Lock all live steps of the graphs that the failed steps will compensate.

    Waiting steps will be cancelled; one that runs may be released meanwhile, and wait, too.

    To be called before anything is settled, because live rows are locked before counters of limits,
    both in order: a claim may hold the one and want the other. `settled` are all jobs of the batch.
    """
    among = dialect_of(conn.dialect).among
    asks = step.c.on_dead == str(OnDead.COMPENSATE)
    undone = select(step.c.graph).where(among(step.c.job, failed), asks)
    steps = select(step.c.job).join(live, live.c.id == step.c.job).where(step.c.graph.in_(undone))
    if theirs := list(conn.scalars(steps)):
        through(conn, dialect.rules.hold(sorted({*theirs, *settled})))
        limits.hold(conn)


def ended(
    conn: Connection,
    dialect: Dialect,
    enqueue: Enqueue,
    jobs: Mapping[int, OutcomeKind],
    now: datetime | None,
) -> None:
    """Write the outcomes of jobs that are steps, and release the steps that waited for them.

    Their graphs must be locked. `enqueue` writes the compensating jobs.
    """
    among = dialect_of(conn.dialect).among
    found = select(step).where(among(step.c.job, list(jobs)), step.c.outcome.is_(None))
    rows = conn.execute(found).all()
    if not rows:
        return
    by_kind: dict[str, list[Any]] = {}
    for row in rows:
        by_kind.setdefault(str(jobs[row.job]), []).append(row)
    for kind, each in by_kind.items():
        _close(conn, kind, each)
    good = by_kind.pop(SUCCEEDED, [])
    bad = [row for each in by_kind.values() for row in each]
    if undone := {row.graph for row in bad if row.on_dead == OnDead.COMPENSATE}:
        _give_up(conn, dialect, sorted(undone), now)
    skipped = [row.id for row in bad if row.on_dead == OnDead.CONTINUE]
    passed = [row.id for row in good] + _unblocked(conn, skipped)
    while passed:
        passed = _open_gates(conn, dialect, passed)
    _undo(conn, enqueue, sorted({row.graph for row in rows}))


def awaited_steps(conn: Connection, jobs: Sequence[int]) -> Sequence[Any]:
    """Return the steps of finished jobs that their graphs still wait for. Graphs must be locked.

    Not those of a graph that continued without them, or that is compensated.
    """
    waited_for = or_(
        step.c.outcome == str(OutcomeKind.DEAD),
        and_(step.c.outcome == CANCELLED, not_(graph.c.undoing)),
    )
    return conn.execute(
        select(step, gate.c.unfinished)
        .join(graph, graph.c.id == step.c.graph)
        .outerjoin(gate, gate.c.id == step.c.gate)
        .where(dialect_of(conn.dialect).among(step.c.job, jobs))
        .where(waited_for, step.c.on_dead == str(OnDead.STOP))
    ).all()


def redriven(conn: Connection, rows: Sequence[Any], again: Mapping[int, int]) -> None:
    """Replace these steps by the jobs that repeat them, by job; blocked ones stay blocked."""
    for row in rows:
        conn.execute(
            update(step).where(step.c.id == row.id).values(job=again[row.job], outcome=None)
        )
    if blocked := [again[row.job] for row in rows if row.unfinished]:
        which = dialect_of(conn.dialect).among(live.c.id, blocked)
        conn.execute(dialect_of(conn.dialect).update_live().where(which).values(run_at=PARKED))
    _count(conn, Counter(row.graph for row in rows), +1)


def own_args(conn: Connection, jobs: Sequence[NewJob]) -> list[NewJob]:
    """Return jobs that repeat steps, with the results that those took as arguments."""
    needs, results = _needed(conn, [job.redrive_of or 0 for job in jobs])
    return [
        _repeated(job, its, results) if (its := needs.get(job.redrive_of or 0)) else job
        for job in jobs
    ]


def _repeated(
    job: NewJob, needs: dict[str, Any] | UnreadableRow, results: Mapping[int, msgspec.Raw]
) -> NewJob:
    """Return a job with the results that it took; without them where they cannot be read."""
    try:
        return job.with_args(_filled(job.args, needs, results))
    except UnreadableRow as unfit:
        log.error("job %s is redriven without the results it took: %s", job.redrive_of, unfit)
        return job


def with_results(conn: Connection, claims: Sequence[Claim]) -> list[Claim]:
    """Fill in the arguments that are results of other steps; null where there is no result."""
    takers = [claim.id for claim in claims if TAKES_RESULTS in flags_of(claim.metadata)]
    needs, results = _needed(conn, takers)
    return [
        _taking(claim, its, results) if (its := needs.get(claim.id)) else claim for claim in claims
    ]


def _taking(
    claim: Claim, needs: dict[str, Any] | UnreadableRow, results: Mapping[int, msgspec.Raw]
) -> Claim:
    """Return a step with the results it takes; or as one that is not to run."""
    try:
        return claim._replace(args=_filled(claim.args, needs, results))
    except UnreadableRow as unfit:
        return UnfitClaim.of(claim, str(unfit))


def unprunable(conn: Connection, jobs: Sequence[int]) -> set[int]:
    """Lock the graphs of these jobs; return the jobs whose graph is unfinished or locked."""
    theirs = select(step.c.job, step.c.graph).where(
        dialect_of(conn.dialect).among(step.c.job, jobs)
    )
    of = {row.job: row.graph for row in conn.execute(theirs)}
    if not of:
        return set()
    over = (
        select(graph.c.id)
        .where(dialect_of(conn.dialect).among(graph.c.id, sorted(set(of.values()))))
        .where(graph.c.unfinished == 0)
        .with_for_update(skip_locked=True)
    )
    held = set(conn.scalars(over))
    return {job for job, its in of.items() if its not in held}


def is_unfinished(of: Any) -> Any:
    """Return the condition that a job is a step of an unfinished graph."""
    return exists().where(step.c.job == of, graph.c.id == step.c.graph, graph.c.unfinished > 0)


def forget(conn: Connection, pruned: Sequence[int]) -> None:
    """Delete the steps whose jobs were pruned, and graphs without steps."""
    among = dialect_of(conn.dialect).among
    rows = conn.execute(select(step.c.id, step.c.graph).where(among(step.c.job, pruned))).all()
    if not rows:
        return
    ids, graphs = [row.id for row in rows], sorted({row.graph for row in rows})
    for column in (edge.c.step, gate.c.id, step.c.id):
        dialect_of(conn.dialect).delete_rows(conn, column, ids)
    empty = ~exists().where(step.c.graph == graph.c.id)
    conn.execute(delete(graph).where(among(graph.c.id, graphs), empty))


def _close(conn: Connection, outcome: str, rows: Sequence[Any]) -> None:
    """Write the outcome of steps."""
    which = dialect_of(conn.dialect).among(step.c.id, [row.id for row in rows])
    conn.execute(update(step).where(which).values(outcome=outcome))
    _count(conn, Counter(row.graph for row in rows), -1)


def _count(conn: Connection, graphs: Mapping[int, int], sign: int) -> None:
    for id, number in graphs.items():
        left = graph.c.unfinished + sign * number
        conn.execute(update(graph).where(graph.c.id == id).values(unfinished=left))


def _unblocked(conn: Connection, steps: Sequence[int]) -> list[int]:
    """Return those of these steps that were not blocked.

    The blocked ones count as ended later: the steps after a skipped step must not run before the
    steps before it.
    """
    if not steps:
        return []
    open_gate = or_(step.c.gate.is_(None), gate.c.unfinished == 0)
    turn = select(step.c.id).outerjoin(gate, gate.c.id == step.c.gate).where(open_gate)
    return list(conn.scalars(turn.where(dialect_of(conn.dialect).among(step.c.id, steps))))


def _open_gates(conn: Connection, dialect: Dialect, passed: Sequence[int]) -> list[int]:
    """Count ended steps at the gates behind them, and release the steps at gates that open.

    Returns the steps there that were skipped while they were blocked: they count as ended now.
    """
    among = dialect_of(conn.dialect).among
    reached = conn.execute(
        select(edge.c.gate, func.count().label("number"))
        .where(among(edge.c.step, passed))
        .group_by(edge.c.gate)
    ).all()
    if not reached:
        return []
    counted = update(gate).where(gate.c.id == bindparam("its_id"))
    conn.execute(
        counted.values(unfinished=gate.c.unfinished - bindparam("number")),
        [{"its_id": row.gate, "number": row.number} for row in reached],
    )
    behind = conn.execute(
        select(step)
        .join(gate, gate.c.id == step.c.gate)
        .where(among(step.c.gate, [row.gate for row in reached]), gate.c.unfinished == 0)
    ).all()
    if waiting := [row.job for row in behind if row.outcome is None]:
        own = select(job.c.run_at).where(job.c.id == live.c.id).scalar_subquery()
        released = (
            dialect_of(conn.dialect)
            .update_live()
            .where(among(live.c.id, waiting), live.c.run_at == PARKED)
        )
        conn.execute(released.values(run_at=own))
        through(conn, dialect.rules.wake())
    return [row.id for row in behind if row.outcome and row.on_dead == OnDead.CONTINUE]


def _give_up(
    conn: Connection, dialect: Dialect, graphs: Sequence[int], now: datetime | None
) -> None:
    """Cancel the waiting steps of graphs that are to be compensated."""
    among = dialect_of(conn.dialect).among
    conn.execute(update(graph).where(among(graph.c.id, graphs)).values(undoing=true()))
    open_ = select(step).where(among(step.c.graph, graphs), step.c.outcome.is_(None))
    waiting = _held_waiting(conn, dialect, {row.job: row for row in conn.execute(open_)})
    if waiting:
        jobs = [row.job for row in waiting]
        cancel_waiting(conn, dialect, jobs, now)
        limits.cancelled(conn, dialect, jobs, now)
        through(conn, dialect.rules.notify_ended(jobs))
        _close(conn, CANCELLED, waiting)


def _held_waiting(conn: Connection, dialect: Dialect, steps: Mapping[int, Any]) -> list[Any]:
    """Lock the live rows of steps, by job; return the steps that wait.

    By the ids of their jobs: where a query joined both tables, MariaDB and MySQL read the live
    table whole, and waited for rows that callers had, while these waited for a step.
    """
    if not steps:
        return []
    held = dialect.hold_live(live.c.id, ids=sorted(steps)).where(live.c.worker.is_(None))
    return [steps[job] for job in conn.scalars(held.with_for_update())]


def _undo(conn: Connection, enqueue: Enqueue, graphs: Sequence[int]) -> None:
    """Enqueue the compensating jobs of the compensated graphs that have no unfinished step."""
    idle = select(graph.c.id).where(
        dialect_of(conn.dialect).among(graph.c.id, graphs),
        graph.c.undoing,
        graph.c.unfinished == 0,
    )
    for id in conn.scalars(idle).all():
        rows = conn.execute(
            select(step)
            .where(step.c.graph == id, step.c.outcome == SUCCEEDED, step.c.compensate.is_not(None))
            .order_by(step.c.depth.desc(), step.c.id.desc())
        ).all()
        if rows:
            undone = dialect_of(conn.dialect).among(step.c.id, [row.id for row in rows])
            conn.execute(update(step).where(undone).values(compensate=None))
            if readable := {row: read for row in rows if (read := _read_undo(row)) is not None}:
                _enqueue_compensation(conn, enqueue, [*readable], [*readable.values()])


def _read_undo(row: Any) -> tuple[NewJob, Needs] | None:
    """Return how a step is compensated; None, after logging it, if that cannot be read."""
    try:
        return from_text(row.compensate)
    except UnreadableRow as unfit:
        log.error("step %s of graph %s is not compensated: %s", row.id, row.graph, unfit)
        return None


def _enqueue_compensation(
    conn: Connection, enqueue: Enqueue, rows: Sequence[Any], undoing: Sequence[tuple[NewJob, Needs]]
) -> None:
    """Enqueue the compensating jobs of these steps, as steps that run one after the other."""
    ids = enqueue([new for new, _ in undoing], conn)
    whole = select(func.max(step.c.depth)).where(step.c.graph == rows[0].graph)
    deepest = conn.scalars(whole).one()
    conn.execute(
        insert(step),
        [
            {
                "id": id,
                "job": id,
                "graph": row.graph,
                "depth": deepest + n,
                "stage": f"undo {row.stage}",
                "on_dead": str(OnDead.STOP),
                "gate": id if n > 1 else None,
                "needs": msgspec.json.encode(needs).decode() if needs else None,
            }
            for n, (id, row, (_, needs)) in enumerate(zip(ids, rows, undoing, strict=True), 1)
        ],
    )
    if later := ids[1:]:
        conn.execute(insert(gate), [{"id": id, "unfinished": 1} for id in later])
        pairs = zip(ids[:-1], later, strict=True)
        conn.execute(insert(edge), [{"step": before, "gate": id} for before, id in pairs])
        parked = dialect_of(conn.dialect).among(live.c.id, later)
        conn.execute(dialect_of(conn.dialect).update_live().where(parked).values(run_at=PARKED))
    _count(conn, {rows[0].graph: len(ids)}, +1)


def _needed(
    conn: Connection, jobs: Sequence[int]
) -> tuple[dict[int, dict[str, Any] | UnreadableRow], dict[int, msgspec.Raw]]:
    """Return which results these jobs take as arguments, by job; and the results, by step.

    Where it cannot be read which they take, the reason.
    """
    among = dialect_of(conn.dialect).among
    wanted = select(step.c.job, step.c.needs).where(among(step.c.job, jobs))
    needs = {row.job: _read_needs(row.needs or "{}") for row in conn.execute(wanted)}
    readable = [each for each in needs.values() if isinstance(each, dict)]
    others = sorted({id for each in readable for id in steps_in([*each.values()])})
    kept = (
        select(step.c.id, result.c.value)
        .join(result, result.c.job == step.c.job)
        .where(among(step.c.id, others))
    )
    return needs, {row.id: msgspec.Raw(row.value.encode()) for row in conn.execute(kept)}


def _read_needs(text: str) -> dict[str, Any] | UnreadableRow:
    try:
        found = read_object(text, "which results it takes")
        if all(type(id) is int and 0 <= id < _MOST for id in steps_in([*found.values()])):
            return found
    except (UnreadableRow, RecursionError) as error:
        return UnreadableRow(str(error))
    return UnreadableRow("which results it takes is not given by the numbers of steps")


def _filled(
    args: str, needs: dict[str, Any] | UnreadableRow, results: Mapping[int, msgspec.Raw]
) -> str:
    if isinstance(needs, UnreadableRow):
        raise needs
    given = read_raw(args, "its arguments")
    return msgspec.json.encode(filled(given, needs, results)).decode()
