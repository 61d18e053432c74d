"""What handlers noted, held against the tables: each execution has its attempt, and its turn."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from time import monotonic, time

from sqlalchemy import Connection, select

from mutirao.model.jobs.job import UNCOUNTED_OUTCOMES, OutcomeKind
from mutirao.sql.schema.tables import attempt, live
from tests.faults.kit.promises import Wrong
from tests.faults.kit.reading import some
from tests.faults.ordeal.app import MOST
from tests.faults.ordeal.journal import Execution


def without_attempt(connection: Connection, executions: Iterable[Execution]) -> Wrong:
    """Each execution that is not the job's present one has its attempt in history.

    The executions were noted before the snapshot was taken. Those whose attempt is found are told
    its outcome.
    """
    ahead = time() - monotonic()
    for group in some(each for each in executions if each.outcome is None):
        ids = {each.job for each in group}
        _add_outcomes(connection, group, ids, ahead)
        held = _held(connection, ids)
        for each in group:
            if each.outcome is None and held.get(each.job) != each.run:
                yield (
                    ("unrecorded", each.job, each.run),
                    f"run {each.run} of job {each.job} ({each.task}) was executed by worker"
                    f" {each.place} and has no attempt, though the job's run is not that any more",
                )


def _add_outcomes(
    connection: Connection, group: Iterable[Execution], ids: Iterable[int], ahead: float
) -> None:
    columns = attempt.c["job", "run", "outcome", "finished_at"]
    rows = connection.execute(select(*columns).where(attempt.c.job.in_(ids)))
    found = {(job, run): (outcome, at) for job, run, outcome, at in rows}
    for each in group:
        if (seen := found.get((each.job, each.run))) is not None:
            each.outcome, each.settled = OutcomeKind(seen[0]), seen[1].timestamp() - ahead


def _held(connection: Connection, ids: Iterable[int]) -> Mapping[int, int]:
    rows = select(live.c.id, live.c.run).where(live.c.id.in_(ids), live.c.worker.is_not(None))
    return {row.id: row.run for row in connection.execute(rows)}


def too_many_at_once(executions: Iterable[Execution], *, trusted: bool) -> Wrong:
    """At no moment do more limited jobs run than may, of those runs that the store knows."""
    limited = [each for each in executions if each.task == "limited"]
    for running in _crowds(limited, MOST, trusted=trusted):
        ids = tuple(sorted((each.job, each.run) for each in running))
        yield ("at once", ids), f"{len(ids)} jobs of a limit of {MOST} ran at once (id, run): {ids}"


def keys_out_of_turn(executions: Iterable[Execution], *, trusted: bool) -> Wrong:
    """Jobs of one key run one after another, the older one first."""
    by_key: defaultdict[str, list[Execution]] = defaultdict(list)
    for each in executions:
        if each.key != "-":
            by_key[each.key].append(each)
    for key, found in by_key.items():
        for running in _crowds(found, 1, trusted=trusted):
            ids = tuple(sorted((each.job, each.run) for each in running))
            yield ("together", ids), f"jobs of the key {key!r} ran at once (id, run): {ids}"
        kept = (each for each in found if each.outcome is not OutcomeKind.LOST)
        for first, then in pairwise(sorted(kept, key=lambda each: each.began)):
            if then.job < first.job:
                text = f"job {then.job} of the key {key!r} began after job {first.job}"
                yield ("turn", then.job, first.job), text


def run_again(executions: Iterable[Execution]) -> Wrong:
    """A job that is never to be retried is executed once, interruptions by a shutdown aside."""
    counted = Counter(
        each.job
        for each in executions
        if each.task == "once" and each.outcome not in UNCOUNTED_OUTCOMES
    )
    for id, times in counted.items():
        if times > 1:
            yield ("once", id), f"job {id} is never to be retried and was executed {times} times"


def _crowds(
    executions: Iterable[Execution], most: int, *, trusted: bool
) -> Iterable[list[Execution]]:
    """Yield executions that were the store's present ones at the same moment, if too many."""
    end = _end if trusted else _sure_end
    running: list[Execution] = []
    for each in sorted(executions, key=lambda each: each.began):
        running = [other for other in running if end(other) > each.began]
        if end(each) > each.began:
            running.append(each)
        if len(running) > most:
            yield running


def _end(each: Execution) -> float:
    """Return when an execution stopped being the present one: lost runs do when they are."""
    ended = math.inf if each.ended is None else each.ended
    return min(ended, each.settled) if _taken(each) and each.settled is not None else ended


def _sure_end(each: Execution) -> float:
    """As `_end`, where workers' clocks were wrong and when a run was lost is not known."""
    return each.began if _taken(each) else _end(each)


def _taken(each: Execution) -> bool:
    return each.outcome is OutcomeKind.LOST
