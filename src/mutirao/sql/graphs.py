"""Graphs in the tables: what settling, cancelling, redriving and pruning owe them.

Synchronous functions of a SQLAlchemy `Connection` in a transaction, the same everywhere. A graph's
row is the lock: `hold` it before any live row is touched, and nobody else changes how its steps
stand. So steps that end at the same moment, in two transactions, are counted one after the other.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    Connection,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from mutirao.graph import OnDead
from mutirao.job import Claim, NewJob, OutcomeKind
from mutirao.marks import TAKES, marks
from mutirao.planning import filled, steps_in
from mutirao.sql import limits
from mutirao.sql.dialects.admin import admin_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.ending import cancel_waiting
from mutirao.sql.planting import from_text
from mutirao.sql.tables import edge, gate, graph, job, live, result, step
from mutirao.unique import PARKED

Enqueue = Callable[[Iterable[NewJob], Connection], list[int]]
SUCCEEDED, CANCELLED = str(OutcomeKind.SUCCEEDED), str(OutcomeKind.CANCELLED)


def hold(conn: Connection, jobs: Sequence[int]) -> bool:
    """Lock the graphs that these jobs are steps of, until the transaction ends; tell if any are."""
    theirs = select(step.c.graph).where(admin_of(conn.dialect).among(step.c.job, jobs))
    locked = select(graph.c.id).where(graph.c.id.in_(theirs)).order_by(graph.c.id)
    return bool(conn.execute(locked.with_for_update()).all())


def hold_undone(
    conn: Connection, dialect: Dialect, failed: Sequence[int], settled: Sequence[int]
) -> None:
    """Lock what the graphs of steps that have failed give up, and whatever that needs.

    Before anything is settled, because live rows are locked before counters of limits, and these
    in order: a claim may hold the one and want the other. `settled` are all jobs of the batch.
    """
    among = admin_of(conn.dialect).among
    asks = step.c.on_dead == str(OnDead.COMPENSATE)
    undone = select(step.c.graph).where(among(step.c.job, failed), asks)
    waiting = [row.job for row in conn.execute(_waiting(step.c.graph.in_(undone)))]
    if waiting:
        dialect.hold(conn, settled)
        limits.hold(conn)


def ended(
    conn: Connection,
    dialect: Dialect,
    enqueue: Enqueue,
    jobs: Mapping[int, OutcomeKind],
    now: datetime | None,
) -> None:
    """Write how jobs have ended where they are steps, and let go what waited for that.

    Their graphs are held. `enqueue` writes the jobs that undo others.
    """
    among = admin_of(conn.dialect).among
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
    passed = [row.id for row in good] + _in_turn(conn, skipped)
    while passed:
        passed = _open_gates(conn, dialect, passed)
    _undo(conn, enqueue, sorted({row.graph for row in rows}))


def redriven(conn: Connection, again: Mapping[int, int]) -> None:
    """Give the place of dead steps to the jobs that repeat them. Their graphs are held.

    Where the graph went on without the dead one, or undid the others, that is over.
    """
    rows = conn.execute(
        select(step).where(
            admin_of(conn.dialect).among(step.c.job, list(again)),
            step.c.outcome == str(OutcomeKind.DEAD),
            step.c.on_dead == str(OnDead.STOP),
        )
    ).all()
    for row in rows:
        conn.execute(
            update(step).where(step.c.id == row.id).values(job=again[row.job], outcome=None)
        )
    _count(conn, Counter(row.graph for row in rows), +1)


def with_results(conn: Connection, claims: Sequence[Claim]) -> list[Claim]:
    """Fill in the arguments that are other steps' results; null where there is none."""
    takers = [claim.id for claim in claims if TAKES in marks(claim.metadata)]
    among = admin_of(conn.dialect).among
    wanted = select(step.c.job, step.c.needs).where(among(step.c.job, takers))
    needs = {row.job: msgspec.json.decode(row.needs or "{}") for row in conn.execute(wanted)}
    others = sorted({id for each in needs.values() for id in steps_in([*each.values()])})
    kept = (
        select(step.c.id, result.c.value)
        .join(result, result.c.job == step.c.job)
        .where(among(step.c.id, others))
    )
    results = {row.id: msgspec.Raw(row.value.encode()) for row in conn.execute(kept)}
    return [_with_results(claim, needs.get(claim.id, {}), results) for claim in claims]


def unprunable(conn: Connection, jobs: Sequence[int]) -> set[int]:
    """Hold the graphs of these jobs; return those whose graphs are not over, or held by others."""
    theirs = select(step.c.job, step.c.graph).where(admin_of(conn.dialect).among(step.c.job, jobs))
    of = {row.job: row.graph for row in conn.execute(theirs)}
    if not of:
        return set()
    over = (
        select(graph.c.id)
        .where(admin_of(conn.dialect).among(graph.c.id, sorted(set(of.values()))))
        .where(graph.c.unfinished == 0)
        .with_for_update(skip_locked=True)
    )
    held = set(conn.scalars(over))
    return {job for job, its in of.items() if its not in held}


def is_unfinished(of: Any) -> Any:
    """Return whether a job is a step of a graph that is not over, as a condition."""
    return exists().where(step.c.job == of, graph.c.id == step.c.graph, graph.c.unfinished > 0)


def forget(conn: Connection, pruned: Sequence[int]) -> None:
    """Remove the steps whose jobs were pruned, and graphs that have none left."""
    among = admin_of(conn.dialect).among
    rows = conn.execute(select(step.c.id, step.c.graph).where(among(step.c.job, pruned))).all()
    if not rows:
        return
    ids, graphs = [row.id for row in rows], sorted({row.graph for row in rows})
    conn.execute(delete(edge).where(among(edge.c.step, ids)))
    conn.execute(delete(gate).where(among(gate.c.id, ids)))
    conn.execute(delete(step).where(among(step.c.id, ids)))
    empty = ~exists().where(step.c.graph == graph.c.id)
    conn.execute(delete(graph).where(among(graph.c.id, graphs), empty))


def _close(conn: Connection, outcome: str, rows: Sequence[Any]) -> None:
    """Write how steps ended."""
    which = admin_of(conn.dialect).among(step.c.id, [row.id for row in rows])
    conn.execute(update(step).where(which).values(outcome=outcome))
    _count(conn, Counter(row.graph for row in rows), -1)


def _count(conn: Connection, graphs: Mapping[int, int], sign: int) -> None:
    for id, number in graphs.items():
        left = graph.c.unfinished + sign * number
        conn.execute(update(graph).where(graph.c.id == id).values(unfinished=left))


def _in_turn(conn: Connection, steps: Sequence[int]) -> list[int]:
    """Return those of these steps that were not blocked: the others have to wait for their turn.

    What comes after a step that was skipped is not to run before what came before it.
    """
    if not steps:
        return []
    open_gate = or_(step.c.gate.is_(None), gate.c.unfinished == 0)
    turn = select(step.c.id).outerjoin(gate, gate.c.id == step.c.gate).where(open_gate)
    return list(conn.scalars(turn.where(admin_of(conn.dialect).among(step.c.id, steps))))


def _open_gates(conn: Connection, dialect: Dialect, passed: Sequence[int]) -> list[int]:
    """Count steps at the gates that they lead to, and let go what waits at those that open.

    Returns the steps there that were skipped while they were blocked: their turn has come.
    """
    among = admin_of(conn.dialect).among
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
        released = update(live).where(among(live.c.id, waiting), live.c.run_at == PARKED)
        conn.execute(released.values(run_at=own))
        dialect.wake(conn)
    return [row.id for row in behind if row.outcome and row.on_dead == OnDead.CONTINUE]


def _give_up(
    conn: Connection, dialect: Dialect, graphs: Sequence[int], now: datetime | None
) -> None:
    """Cancel what has not begun of graphs that are to be undone."""
    among = admin_of(conn.dialect).among
    conn.execute(update(graph).where(among(graph.c.id, graphs)).values(undoing=true()))
    waiting = conn.execute(_waiting(among(step.c.graph, graphs))).all()
    if waiting:
        jobs = [row.job for row in waiting]
        cancel_waiting(conn, dialect, jobs, now)
        limits.cancelled(conn, dialect, jobs, now)
        dialect.tell_ended(conn, jobs)
        _close(conn, CANCELLED, waiting)


def _waiting(which: Any) -> Any:
    """Return the steps that wait, with their live rows locked."""
    return (
        select(step)
        .join(live, live.c.id == step.c.job)
        .where(which, live.c.worker.is_(None))
        .order_by(live.c.id)
        .with_for_update(of=live)
    )


def _undo(conn: Connection, enqueue: Enqueue, graphs: Sequence[int]) -> None:
    """Once nothing of a graph is left that was given up: enqueue what undoes its steps."""
    idle = select(graph.c.id).where(
        admin_of(conn.dialect).among(graph.c.id, graphs),
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
            undone = admin_of(conn.dialect).among(step.c.id, [row.id for row in rows])
            conn.execute(update(step).where(undone).values(compensate=None))
            _plant_undoing(conn, enqueue, rows)


def _plant_undoing(conn: Connection, enqueue: Enqueue, rows: Sequence[Any]) -> None:
    """Enqueue the jobs that undo these steps, as steps of the graph, one after the other."""
    undoing = [from_text(row.compensate) for row in rows]
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
        parked = admin_of(conn.dialect).among(live.c.id, later)
        conn.execute(update(live).where(parked).values(run_at=PARKED))
    _count(conn, {rows[0].graph: len(ids)}, +1)


def _with_results(claim: Claim, needs: dict[str, Any], results: Mapping[int, msgspec.Raw]) -> Claim:
    if not needs:
        return claim
    args = msgspec.json.decode(claim.args, type=dict[str, msgspec.Raw])
    return claim._replace(args=msgspec.json.encode(filled(args, needs, results)).decode())
