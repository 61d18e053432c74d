"""Limits on SQLite: who writes has the only write lock, so counting first is no race.

Decided by `mutirao.limit`; here is what that rests on, and what comes of it. Times are in
microseconds.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from mutirao.job import Wake
from mutirao.limit import KEPT, CounterName, Rule, admit, candidate, filled, next_look
from mutirao.sql.instant import SECOND, from_micros, to_micros
from mutirao.unique import PARKED

NEVER = to_micros(PARKED)

_RULES = "SELECT name, queue, task, by, key, most, per, burst FROM mutirao_limit ORDER BY name"
_ASKED = """
SELECT l.id, j.queue, j.task, j.args, l.priority, l.run_at
FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
WHERE l.id IN (SELECT value FROM json_each(?))
"""
_COUNTER = """
SELECT id, name, key, running, tokens, touched_at, probe_at FROM mutirao_counter WHERE
"""
_NEW_COUNTER = "INSERT INTO mutirao_counter (name, key, tokens, touched_at) VALUES (?, ?, ?, ?)"
_COUNT = "UPDATE mutirao_counter SET running = ?, tokens = ?, touched_at = ? WHERE id = ?"
_PARK = """
INSERT INTO mutirao_parked (job, counter, priority, run_at) VALUES (?, ?, ?, ?)
ON CONFLICT (job) DO UPDATE SET counter = excluded.counter
"""
_MOVE = "UPDATE mutirao_live SET run_at = ? WHERE id = ? AND worker IS NULL"
_NEXT = """
SELECT p.job, p.run_at, l.queue, l.priority, l.id
FROM mutirao_parked p LEFT JOIN mutirao_live l ON l.id = p.job AND l.worker IS NULL
WHERE p.counter = ? ORDER BY p.priority, p.run_at, p.job LIMIT ?
"""
_IDLE = """
SELECT s.job FROM mutirao_slot s LEFT JOIN mutirao_live l ON l.id = s.job
WHERE l.worker IS NULL
"""
_FREE = """
SELECT s.job, s.counter FROM mutirao_slot s LEFT JOIN mutirao_live l ON l.id = s.job
WHERE s.job IN (SELECT value FROM json_each(?)) AND l.worker IS NULL
"""
_AMONG = "id IN (SELECT value FROM json_each(?))"
# Whoever was sent ahead may have been cancelled, and have been the last.
_AWAITED = (
    "probe_at IS NOT NULL"
    " OR EXISTS (SELECT 1 FROM mutirao_parked p WHERE p.counter = mutirao_counter.id)"
)
_QUIET = """
DELETE FROM mutirao_counter
WHERE running = 0 AND touched_at < ? AND id NOT IN (SELECT counter FROM mutirao_parked)
  AND id NOT IN (SELECT counter FROM mutirao_slot)
"""


@dataclass(slots=True)
class Counter:
    """A row of `mutirao_counter`."""

    id: int
    name: str
    key: str
    running: int
    tokens: float
    touched_at: int
    probe_at: int | None

    def room(self, rule: Rule, moment: int) -> int:
        """Return how many more may start at a moment."""
        if rule.per is None:
            return max(0, rule.most - self.running)
        return int(self.filled(rule, moment))

    def filled(self, rule: Rule, moment: int) -> float:
        """Return the tokens of a rate at a moment."""
        return filled(rule, self.tokens, from_micros(self.touched_at), from_micros(moment))


def rules(conn: Connection) -> list[Rule]:
    """Return the limits there are."""
    return [Rule(**row._mapping) for row in conn.exec_driver_sql(_RULES)]


def let_in(
    conn: Connection, rules: Sequence[Rule], ids: Sequence[int], most: int, moment: int
) -> tuple[list[int], int, bool]:
    """Return up to `most` of these due jobs that may run, counted, and how many were parked.

    The last says whether others came back to their lanes, because a job that one limit had room
    for is parked behind another.
    """
    rows = {row.id: row for row in conn.exec_driver_sql(_ASKED, (json.dumps(ids),))}
    asked = (rows[id] for id in ids)
    candidates = [candidate(row.id, row.queue, row.task, row.args, rules) for row in asked]
    by_name = {rule.name: rule for rule in rules}
    names = {name for job in candidates for name in job.counters}
    counters = {name: _counter(conn, name, by_name[name.limit], moment) for name in names}
    room = {name: each.room(by_name[name.limit], moment) for name, each in counters.items()}
    admission = admit(candidates, room, most)
    for job in admission.taken:
        for name in job.counters:
            _take(conn, counters[name], by_name[name.limit], job.id, moment)
    for each in counters.values():
        conn.exec_driver_sql(_COUNT, (each.running, each.tokens, each.touched_at, each.id))
    taken = [job.id for job in admission.taken]
    conn.exec_driver_sql(
        "DELETE FROM mutirao_parked WHERE job IN (SELECT value FROM json_each(?))",
        (json.dumps(taken),),
    )
    for id, name in admission.parked.items():
        conn.exec_driver_sql(_PARK, (id, counters[name].id, rows[id].priority, rows[id].run_at))
        conn.exec_driver_sql(_MOVE, (NEVER, id))
    for name in set(admission.parked.values()):
        if by_name[name.limit].per is not None and counters[name].probe_at is None:
            _send_ahead(conn, counters[name], by_name[name.limit], moment)
    spare = [
        counters[name]
        for job in candidates
        if job.id in admission.parked
        for name in job.counters
        if by_name[name.limit].per is None and counters[name].room(by_name[name.limit], moment)
    ]
    called = call(conn, {each.id: each for each in spare}.values(), moment) if spare else ()
    return taken, len(admission.parked), bool(called)


def let_go(conn: Connection, jobs: Iterable[int], moment: int) -> tuple[Wake, ...]:
    """Give back what those of these jobs hold that do not run any more; call others."""
    free = conn.exec_driver_sql(_FREE, (json.dumps(list(jobs)),)).all()
    for job, counter in free:
        conn.exec_driver_sql(
            "DELETE FROM mutirao_slot WHERE job = ? AND counter = ?", (job, counter)
        )
        conn.exec_driver_sql(
            "UPDATE mutirao_counter SET running = running - 1 WHERE id = ?", (counter,)
        )
    given = sorted({counter for _, counter in free})
    return call(conn, _read(conn, _AMONG, json.dumps(given)), moment) if given else ()


def pace(conn: Connection, moment: int) -> tuple[Wake, ...]:
    """Call the jobs that rates have tokens for now, where some were waited for."""
    due = _read(conn, "probe_at <= ?", moment)
    return call(conn, due, moment) if due else ()


def call(conn: Connection, counters: Iterable[Counter], moment: int) -> tuple[Wake, ...]:
    """Bring parked jobs back to their lanes, as many as there is room."""
    by_name = {rule.name: rule for rule in rules(conn)}
    woken: dict[tuple[str, int], int] = {}
    for counter in counters:
        rule = by_name[counter.name]
        for queue, priority, run_at in _call(conn, counter, counter.room(rule, moment)):
            woken[queue, priority] = min(run_at, woken.get((queue, priority), run_at))
        if rule.per is not None:
            _send_ahead(conn, counter, rule, moment)
    return tuple(Wake(*lane, from_micros(run_at)) for lane, run_at in woken.items())


def count_running(conn: Connection, rule: Rule, moment: int) -> None:
    """Count what a new limit covers and runs already."""
    if rule.per is not None or rule.most == 0:
        return
    ids = list(
        conn.exec_driver_sql("SELECT id FROM mutirao_live WHERE worker IS NOT NULL").scalars()
    )
    for row in conn.exec_driver_sql(_ASKED, (json.dumps(ids),)).all():
        for name in candidate(row.id, row.queue, row.task, row.args, [rule]).counters:
            counter = _counter(conn, name, rule, moment)
            _take(conn, counter, rule, row.id, moment)
            values = (counter.running, counter.tokens, counter.touched_at, counter.id)
            conn.exec_driver_sql(_COUNT, values)


def forget(conn: Connection, name: str) -> None:
    """Forget what a limit counted; what waited for it goes back to its lanes."""
    for counter in _read(conn, "name = ?", name):
        _call(conn, counter, -1)
        conn.exec_driver_sql("DELETE FROM mutirao_slot WHERE counter = ?", (counter.id,))
        conn.exec_driver_sql("DELETE FROM mutirao_counter WHERE id = ?", (counter.id,))


def mend(conn: Connection, moment: int) -> tuple[Wake, ...]:
    """Call whoever there is room for, wherever; forget counters of which nothing was heard."""
    woken = let_go(conn, conn.exec_driver_sql(_IDLE).scalars().all(), moment)
    woken += call(conn, _read(conn, _AWAITED), moment)
    # A rate that is slower than that would begin anew: those are kept.
    slow = "SELECT name FROM mutirao_limit WHERE burst * per / most > ?"
    quiet = f"{_QUIET} AND name NOT IN ({slow})"
    conn.exec_driver_sql(quiet, (moment - int(KEPT * SECOND), KEPT))
    return woken


def exist(conn: Connection) -> bool:
    """Tell whether there are limits."""
    return bool(conn.exec_driver_sql("SELECT EXISTS (SELECT 1 FROM mutirao_limit)").scalar())


def in_use(conn: Connection) -> bool:
    """Tell whether anything is counted."""
    return bool(conn.exec_driver_sql("SELECT EXISTS (SELECT 1 FROM mutirao_counter)").scalar())


def _read(conn: Connection, where: str, *values: Any) -> list[Counter]:
    return [Counter(*row) for row in conn.exec_driver_sql(_COUNTER + where, values).all()]


def _counter(conn: Connection, name: CounterName, rule: Rule, moment: int) -> Counter:
    found = _read(conn, "name = ? AND key = ?", *name)
    if not found:
        conn.exec_driver_sql(_NEW_COUNTER, (*name, rule.burst or 0, moment))
        found = _read(conn, "name = ? AND key = ?", *name)
    return found[0]


def _take(conn: Connection, counter: Counter, rule: Rule, job: int, moment: int) -> None:
    if rule.per is None:
        counter.running += 1
        conn.exec_driver_sql("INSERT INTO mutirao_slot VALUES (?, ?)", (job, counter.id))
    else:
        counter.tokens = counter.filled(rule, moment) - 1
    counter.touched_at = max(counter.touched_at, moment)


def _call(conn: Connection, counter: Counter, most: int) -> list[tuple[str, int, int]]:
    """Bring back up to `most` jobs (-1: all); return their places. Forget those that are gone."""
    back: list[tuple[str, int, int]] = []
    while most < 0 or len(back) < most:
        wanted = most if most < 0 else most - len(back)
        rows = conn.exec_driver_sql(_NEXT, (counter.id, wanted)).all()
        if not rows:
            break
        conn.exec_driver_sql("DELETE FROM mutirao_parked WHERE job = ?", [(r[0],) for r in rows])
        waiting = [row for row in rows if row.id is not None]
        if waiting:
            conn.exec_driver_sql(_MOVE, [(row.run_at, row.job) for row in waiting])
        back += [(row.queue, row.priority, row.run_at) for row in waiting]
    return back


def _send_ahead(conn: Connection, counter: Counter, rule: Rule, moment: int) -> None:
    """Have the first parked job come back when there will be a token."""
    first = conn.exec_driver_sql(_NEXT, (counter.id, 1)).first()
    at = None
    if first is not None and rule.most > 0:
        at = moment + int(next_look(rule, counter.filled(rule, moment)) * SECOND) + 1
        conn.exec_driver_sql(_MOVE, (at, first.job))
    conn.exec_driver_sql("UPDATE mutirao_counter SET probe_at = ? WHERE id = ?", (at, counter.id))
