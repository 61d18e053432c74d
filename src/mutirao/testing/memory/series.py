"""Jobs of a key in series: as in the tables of a database with one writer."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mutirao.job import NewJob, OutcomeKind
from mutirao.supersede import (
    SUPERSEDED,
    Decision,
    Older,
    Supersede,
    cancelled_because,
    decide,
    dropped_because,
)
from mutirao.testing.memory.tables import Live, Tables, attempt_of
from mutirao.unique import PARKED, Placed, Unique


def decision(tables: Tables, new: NewJob, unique: Unique) -> Decision:
    """Return what becomes of a job with a supersede rule, writing nothing."""
    live = _last(tables, new, unique)
    older = None
    if live is not None:
        untouched = live.worker is None and live.attempt == 0
        older = Older(live.id, live.task, tables.asked[live.id].new.args, untouched)
    rule = unique.supersede or Supersede("", {})
    return decide(rule, new.task, new.args, older)


def join(tables: Tables, new: NewJob, unique: Unique, now: datetime, id: int) -> int:
    """Write a job as the last of its key, as the rule says; return its id."""
    older, (how, args) = _last(tables, new, unique), decision(tables, new, unique)
    if older is not None and args is not None:
        due = min(tables.asked[older.id].run_at, older.run_at)
        new = replace(new, args=args, run_at=due, delay=None, fingerprint=None)
    tables.write(new, now, id)
    tables.series[unique.name(new.task, new.queue, new.key or "")] = id
    if older is None:
        return Placed(id, how)
    ahead: int | None = older.id
    if how != "follows":
        ahead = tables.turns.pop(older.id, None)
        _cancel(tables, older, cancelled_because(how, id), now)
    if how == "superseded":
        _cancel(tables, tables.live[id], dropped_because(older.id), now)
    elif ahead is not None:
        tables.live[id].run_at = PARKED
    if ahead is not None:
        tables.turns[id] = ahead
    return Placed(id, how)


def forget(tables: Tables, pruned: Sequence[int]) -> None:
    """Remove the keys whose last job is pruned, unless one before it is live."""
    for name, last in list(tables.series.items()):
        if last in pruned and last not in tables.turns:
            del tables.series[name]


def _last(tables: Tables, new: NewJob, unique: Unique) -> Live | None:
    """Return the last live job of a key: the last one of all, or the one that it waited for."""
    last = tables.series.get(unique.name(new.task, new.queue, new.key or ""))
    if last is None:
        return None
    return tables.live.get(last) or tables.live.get(tables.turns.get(last, 0))


def _cancel(tables: Tables, live: Live, error: str, now: datetime) -> None:
    live.run += 1  # as for every job that is cancelled while it waits
    told = attempt_of(live, OutcomeKind.CANCELLED, now, error_type=SUPERSEDED, error=error)
    tables.finish(live, told)
