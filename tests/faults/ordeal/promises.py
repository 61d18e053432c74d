"""What the tables of an ordeal must never show, at any moment: asked in one snapshot.

Each function yields what is wrong: what it is about, so that it is told once, and a sentence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, not_, select

from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql.schema.tables import attempt, counter, job, live, schedule, slot
from tests.faults.kit.promises import Wrong
from tests.faults.kit.reading import some
from tests.faults.ordeal.app import MOST, SCHEDULED, TRANSACTIONAL, effects

_SUCCEEDED = attempt.c.outcome == str(OutcomeKind.SUCCEEDED)


def missing(connection: Connection, acknowledged: Collection[int]) -> Wrong:
    """Jobs whose commit was confirmed, and that are not there."""
    for ids in some(sorted(set(acknowledged))):
        there = set(connection.scalars(select(job.c.id).where(job.c.id.in_(ids))))
        for id in set(ids) - there:
            yield ("missing", id), f"job {id} was enqueued and is not there"


def died(connection: Connection) -> Wrong:
    """Jobs that may be tried ten thousand times, and are dead or cancelled without being asked."""
    dead = _outcomes(OutcomeKind.DEAD).where(job.c.task != "once")
    cancelled = _outcomes(OutcomeKind.CANCELLED).where(job.c.key.is_(None))
    for found in (dead, cancelled):
        for id, task, outcome, why in connection.execute(found):
            yield ("died", id), f"job {id} ({task}) is {outcome}: {why}"


def effects_twice(connection: Connection) -> Wrong:
    """What was written in a `job.transaction()` is there once, with the success, or not at all."""
    several = select(effects.c.job).group_by(effects.c.job).having(func.count() > 1)
    for id in connection.scalars(several):
        yield ("twice", id), f"job {id} has committed its transaction twice"
    founded = exists().where(_of(effects.c.job), attempt.c.run == effects.c.run, _SUCCEEDED)
    for id, run in connection.execute(select(effects.c.job, effects.c.run).where(not_(founded))):
        yield ("unfounded", id), f"job {id} wrote in run {run}, which did not succeed"
    wrote = exists().where(effects.c.job == attempt.c.job, effects.c.run == attempt.c.run)
    without = (
        select(attempt.c.job, attempt.c.run)
        .join(job, job.c.id == attempt.c.job)
        .where(_SUCCEEDED, job.c.task.in_(TRANSACTIONAL), not_(wrote))
    )
    for id, run in connection.execute(without):
        yield ("unwritten", id), f"job {id} succeeded in run {run}, and what it wrote is not there"


def limits_exceeded(connection: Connection) -> Wrong:
    """A limit holds at every moment, and knows who has its places."""
    held = connection.execute(
        select(live.c.id)
        .join(job, job.c.id == live.c.id)
        .where(job.c.task == "limited", live.c.worker.is_not(None))
        .order_by(live.c.id)
    )
    ids = [row[0] for row in held]
    if len(ids) > MOST:
        yield ("limit", *ids), f"{len(ids)} jobs of a limit of {MOST} are claimed: {ids}"
    running = connection.scalar(select(counter.c.running).where(counter.c.name == "task limited"))
    slots = connection.scalar(select(func.count()).select_from(slot))
    if running is not None and not running == slots == len(ids):
        text = f"the limit counts {running} jobs and has {slots} places taken by {len(ids)}: {ids}"
        yield ("counter", running, slots, *ids), text


def keys_shared(connection: Connection) -> Wrong:
    """Of one key one job runs at most; one more waits behind it, or behind its retry."""
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    rows = select(job.c.task, job.c.key, live.c.worker).join(live, live.c.id == job.c.id)
    for task, key, worker in connection.execute(rows.where(job.c.key.is_not(None))):
        found[task, key]["waiting" if worker is None else "running"] += 1
    for (task, key), count in found.items():
        if count["running"] > 1:
            yield ("running", key), f"{count['running']} jobs of the key {key!r} are claimed"
        if count.total() > 2 and task == "replaced":
            yield ("waiting", key), f"{count.total()} jobs of the key {key!r} are live"


def ticks(connection: Connection) -> Wrong:
    """Each tick has one job, and none is left out where all are to be made up for."""
    made: defaultdict[str, list[datetime]] = defaultdict(list)
    rows = select(job.c.metadata).where(job.c.task.in_(SCHEDULED))
    for seen in connection.scalars(rows):
        made[seen["schedule"]].append(datetime.fromisoformat(seen["tick"]))
    for name, runs in connection.execute(select(schedule.c.name, schedule.c.runs)):
        found = sorted(made[name])
        if len(found) != runs:
            yield ("runs", name), f"schedule {name} counts {runs} jobs and has {len(found)}"
        yield from _repeated(name, found)
        if name == "every_tick":
            yield from _left_out(name, found)


def _repeated(name: str, found: Iterable[datetime]) -> Wrong:
    for tick, times in Counter(found).items():
        if times > 1:
            yield ("tick", name, tick), f"tick {tick} of schedule {name} made {times} jobs"


def _left_out(name: str, found: list[datetime]) -> Wrong:
    for before, after in pairwise(found):
        if after - before > timedelta(seconds=1):
            yield ("gap", name, before), f"schedule {name} made no job between {before} and {after}"


def _outcomes(kind: OutcomeKind) -> Select[Any]:
    columns = (job.c.id, job.c.task, attempt.c.outcome, attempt.c.error_type)
    return select(*columns).join(attempt, _of(job.c.id)).where(attempt.c.outcome == str(kind))


def _of(id: ColumnElement[int]) -> ColumnElement[bool]:
    return and_(attempt.c.job == id)
