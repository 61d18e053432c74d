"""Unique keys: as in the tables of a database, judged when somebody wants one."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mutirao.job import NewJob, OutcomeKind
from mutirao.testing.memory import series
from mutirao.testing.memory.tables import Key, Live, Tables, attempt_of
from mutirao.unique import (
    PARKED,
    REPLACED,
    Holder,
    KeyName,
    OnConflict,
    Placed,
    Unique,
    Verdict,
    duplicate,
    judge,
)

HOLDING = (OutcomeKind.SUCCEEDED, OutcomeKind.DEAD)


def refuse(tables: Tables, born: Sequence[tuple[int, NewJob]], now: datetime) -> None:
    """Raise DuplicateJob if one of these jobs must not be written after those before it."""
    taken: dict[KeyName, int] = {}
    for id, new in born:
        if new.unique is None or new.unique.supersede is not None:
            continue
        name = _name(new, new.unique)
        if new.unique.on_conflict is OnConflict.ERROR:
            holder = _holder(tables, name)
            if name not in taken and holder and _verdict(new, holder, now).how is None:
                taken[name] = holder.job
            if name in taken:
                raise duplicate(new.task, new.key, taken[name])
        taken.setdefault(name, foretell(tables, new, now, id))


def foretell(tables: Tables, new: NewJob, now: datetime, id: int) -> int:
    """Return what `place` would, writing nothing."""
    if new.unique is None:
        return id
    if new.unique.supersede is not None:
        return Placed(id, series.decision(tables, new, new.unique).how)
    holder = _holder(tables, _name(new, new.unique))
    how = _verdict(new, holder, now).how or "found"
    return Placed(holder.job if holder and how == "found" else id, how)


def place(tables: Tables, new: NewJob, now: datetime, id: int) -> int:
    """Write a job under an id, or find the one that has its key; return the id that stands."""
    if new.unique is None:
        return tables.write(new, now, id)
    if new.unique.supersede is not None:
        return series.join(tables, new, new.unique, now, id)
    name = _name(new, new.unique)
    holder = _holder(tables, name)
    verdict = _verdict(new, holder, now)
    if verdict.how in (None, "found") and holder is not None:
        return Placed(holder.job, "found")
    tables.write(replace(new, run_at=verdict.due, delay=None), now, id)
    after = _follow(tables, name, id, now) if holder is not None and holder.live else None
    tables.keys[name] = Key(id, after, verdict.since, new.unique.unique_for)
    return Placed(id, verdict.how or "inserted")


def forget(tables: Tables, pruned: Sequence[int]) -> None:
    """Remove the keys that these jobs had last."""
    for name, key in list(tables.keys.items()):
        if key.job in pruned and key.after not in tables.live:
            del tables.keys[name]
    series.forget(tables, pruned)


def _name(new: NewJob, unique: Unique) -> KeyName:
    return unique.name(new.task, new.queue, new.key or "")


def _verdict(new: NewJob, holder: Holder | None, now: datetime) -> Verdict:
    due = new.run_at or now + timedelta(seconds=new.delay or 0)
    return judge(new.unique or Unique(), due, holder, now)


def _holder(tables: Tables, name: KeyName) -> Holder | None:
    key = tables.keys.get(name)
    if key is None:
        return None
    live = tables.live.get(key.job)
    before = None if key.after is None else tables.live.get(key.after)
    if live is None and before is not None:  # somebody cancelled what waited for that
        live, before = before, None
    return Holder(
        job=key.job if live is None else live.id,
        since=key.since,
        live=live is not None,
        runs=live is not None and live.worker is not None,
        behind=before is not None and before.worker is not None,
        due=None if live is None else _due(tables, live),
        until=_until(tables, key),
    )


def _due(tables: Tables, live: Live) -> datetime:
    return tables.asked[live.id].run_at if live.run_at == PARKED else live.run_at


def _until(tables: Tables, key: Key) -> datetime | None:
    ending = tables.ending(key.job)
    if ending is None or key.unique_for is None or ending.outcome not in HOLDING:
        return None
    return ending.finished_at + timedelta(seconds=key.unique_for)


def _follow(tables: Tables, name: KeyName, id: int, now: datetime) -> int | None:
    """Cancel what waits before a job; park it behind what runs, and return that."""
    key, running = tables.keys[name], None
    for ahead in sorted({key.job, key.after or key.job}):
        live = tables.live.get(ahead)
        if live is not None and live.worker is not None:
            running = ahead
        elif live is not None:
            live.run += 1
            told = attempt_of(
                live,
                OutcomeKind.CANCELLED,
                now,
                error_type=REPLACED,
                error=f"replaced by job {id}",
            )
            tables.finish(live, told)
    if running is not None:
        tables.live[id].run_at = PARKED
    return running
