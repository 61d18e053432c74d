"""Limits: count running jobs, park those for which there is no room, and release them later.

`mutirao.model.limits` decides; this module reads what it needs and writes what it decides. Times
are in microseconds. Live rows are locked before counters, or without waiting.
"""

from collections import Counter as Tally
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import NamedTuple

from mutirao.model.fairness import is_late, shared
from mutirao.model.job import Wake
from mutirao.model.limits import (
    COUNTER_KEPT_FOR,
    Candidate,
    CounterName,
    Rule,
    Whose,
    admit,
    candidate,
    next_look,
)
from mutirao.model.uniqueness import PARKED
from mutirao.sql.drivers.steps import Asking, Execute, Row, each
from mutirao.sql.rules.counters import (
    COUNTER,
    Counter,
    find_counters,
    lock_counters,
    make_counters,
    read_counters,
)
from mutirao.sql.rules.words import NO_LIMIT, Condition, Words
from mutirao.sql.schema.instant import MICROS_PER_SECOND, from_micros, to_micros

PARKED_MICROS = to_micros(PARKED)

_TERMS = ("name", "queue", "task", "by", "key", "most", "per", "burst", "start")
_RULES = f"SELECT {', '.join(f'm.{term}' for term in _TERMS)} FROM mutirao_limit m ORDER BY m.name"
_ASKED = """
SELECT l.id, l.queue, l.fairness, j.queue, j.task, j.args, l.priority, l.run_at, j.tenant, j.`group`
FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
WHERE """
_COUNT = "UPDATE mutirao_counter SET running = ?, tokens = ?, touched_at = ? WHERE id = ?"
_LATE_NEXT = "UPDATE mutirao_counter SET late_next = ? WHERE id = ?"
_FIRST = """
SELECT * FROM (
    SELECT job, run_at, priority, late FROM mutirao_parked WHERE counter = ? AND late = ?
    ORDER BY priority, run_at, job LIMIT ?
) AS {}
"""
_NEXT = f"""
SELECT p.job, p.run_at, l.queue, p.priority, l.id, p.late FROM (
    {_FIRST.format("others")} UNION ALL {_FIRST.format("late")}
) AS p LEFT JOIN mutirao_live l ON l.id = p.job AND l.worker IS NULL
ORDER BY p.priority, p.run_at, p.job
"""
_PRIORITY = 3  # column of _NEXT
_PARKED = """
SELECT p.job FROM mutirao_parked p JOIN mutirao_counter c ON c.id = p.counter WHERE c.name = ?
"""
_IDLE = """
SELECT s.job FROM mutirao_slot s LEFT JOIN mutirao_live l ON l.id = s.job
WHERE l.worker IS NULL
"""
_FREE = """
SELECT s.job, s.counter FROM mutirao_slot s LEFT JOIN mutirao_live l ON l.id = s.job
WHERE l.worker IS NULL AND """
# Whoever was sent ahead may have been cancelled, and have been the last.
_AWAITED = (
    "(c.probe_at IS NOT NULL OR EXISTS (SELECT 1 FROM mutirao_parked p WHERE p.counter = c.id))"
)
# A rate that is slower than that would begin anew: those are kept.
_QUIET = """
SELECT id FROM mutirao_counter
WHERE running = 0 AND touched_at < ? AND id NOT IN (SELECT counter FROM mutirao_parked)
  AND id NOT IN (SELECT counter FROM mutirao_slot)
  AND name NOT IN (SELECT name FROM mutirao_limit WHERE burst * per / most > ?)
"""


class _Due(NamedTuple):
    """A due job that needs room under its limits."""

    id: int
    lane: str
    fairness: str
    queue: str
    task: str
    args: str
    priority: int
    run_at: int
    tenant: str | None
    group: str | None

    @property
    def late(self) -> bool:
        return is_late(self.lane, self.fairness)

    def candidate(self, rules: Sequence[Rule]) -> Candidate:
        """Return the job with the counters that count it."""
        whose = Whose(self.tenant, self.group)
        return candidate(self.id, self.queue, self.task, self.args, rules, whose)


def rules() -> Asking[list[Rule]]:
    """Return the limits there are."""
    rows = yield Execute(_RULES)
    return [Rule(**dict(zip(_TERMS, row, strict=True))) for row in rows]


def let_in(
    words: Words,
    rules: Sequence[Rule],
    ids: Sequence[int],
    most: int,
    moment: int,
    held: set[CounterName] | None = None,
) -> Asking[tuple[list[int], int, bool] | None]:
    """Return up to `most` of these due jobs that may run, counted, and how many were parked.

    The last says whether others came back to their lanes, because a job that one limit had room
    for is parked behind another. `held`: the counters that this transaction has locked, to which
    those of these jobs are added. None is returned where it has others, and where rows are locked
    and some had to be made: that is for another transaction, as a new row is locked out of order.
    """
    rows = yield from _due(words, ids)
    asked = (rows[id] for id in ids)
    candidates = [row.candidate(rules) for row in asked]
    by_name = {rule.name: rule for rule in rules}
    names = {name for job in candidates for name in job.counters}
    if held and not names <= held:
        return None
    found = yield from find_counters(words, names)
    if missing := names - found.keys():
        yield from make_counters(words, missing, by_name, moment)
        if held is not None:
            return None
        found |= yield from find_counters(words, missing)
    if held is not None:
        held |= names
    counters = yield from lock_counters(words, found)
    if counters.keys() != names:  # housekeeping has deleted one that nobody used
        return None
    room = {name: one.room(by_name[name.limit], moment) for name, one in counters.items()}
    admission = admit(candidates, room, most)
    taken = [job.id for job in admission.taken]
    yield from _count_in(words, admission.taken, counters, by_name, moment)
    if admission.parked:
        parked = [(rows[id], counters[name]) for id, name in admission.parked.items()]
        yield from _park(words, parked)
    for name in sorted(set(admission.parked.values())):
        if by_name[name.limit].per is not None and counters[name].probe_at is None:
            yield from _send_ahead(words, counters[name], by_name[name.limit], moment)
    spare = {
        counters[name].id: counters[name]
        for job in candidates
        if job.id in admission.parked
        for name in job.counters
        if by_name[name.limit].per is None and counters[name].room(by_name[name.limit], moment)
    }
    called = (yield from call(words, spare.values(), moment)) if spare else ()
    return taken, len(admission.parked), bool(called)


def let_go(words: Words, jobs: Collection[int], moment: int) -> Asking[tuple[Wake, ...]]:
    """Free the slots of those of these jobs that no longer run, and release blocked jobs."""
    which, values = words.among("s.job", jobs)
    free = yield Execute(_FREE + which, values)
    if not free:
        return ()
    ended = Tally(counter for _, counter in free)
    counters = yield from read_counters(words, words.among("c.id", sorted(ended)), hold=True)
    yield words.free([(job, counter) for job, counter in free])
    less = [(ended[counter.id], counter.id) for counter in counters]
    yield each("UPDATE mutirao_counter SET running = running - ? WHERE id = ?", less)
    for counter in counters:
        counter.running -= ended[counter.id]
    return (yield from call(words, counters, moment))


def give_back(
    words: Words, jobs: Collection[int], now: datetime | None
) -> Asking[tuple[Wake, ...]]:
    """Let jobs go as `let_go` does, if anything is counted at all."""
    if not jobs or not (yield from in_use()):
        return ()
    moment = yield from words.moment(now)
    return (yield from let_go(words, jobs, moment))


def pace(words: Words, moment: int) -> Asking[tuple[Wake, ...]]:
    """Call the jobs that rates have tokens for now, where some were waited for."""
    due = yield from read_counters(words, Condition("c.probe_at <= ?", (moment,)), hold=True)
    return (yield from call(words, due, moment)) if due else ()


def call(words: Words, counters: Iterable[Counter], moment: int) -> Asking[tuple[Wake, ...]]:
    """Bring parked jobs back to their lanes, as many as there is room. Counters are locked."""
    by_name = {rule.name: rule for rule in (yield from rules())}
    woken: dict[tuple[str, int], int] = {}
    for counter in counters:
        rule = by_name[counter.name]
        back = yield from _call(words, counter, counter.room(rule, moment))
        for queue, priority, run_at in back:
            woken[queue, priority] = min(run_at, woken.get((queue, priority), run_at))
        if rule.per is not None:
            yield from _send_ahead(words, counter, rule, moment)
    return tuple(Wake(*lane, from_micros(run_at)) for lane, run_at in woken.items())


def count_running(words: Words, rule: Rule, moment: int) -> Asking[None]:
    """Count what a new limit covers and runs already."""
    if rule.per is not None or rule.most == 0:
        return
    running = yield Execute("SELECT id FROM mutirao_live WHERE worker IS NOT NULL")
    ids = yield from words.hold_jobs([row[0] for row in running])
    rows = yield from _due(words, ids)
    found = [row.candidate([rule]) for row in rows.values()]
    names = {name for job in found for name in job.counters}
    by_name = {rule.name: rule}
    missing = names - (yield from find_counters(words, names)).keys()
    yield from make_counters(words, missing, by_name, moment)
    counters = yield from lock_counters(words, (yield from find_counters(words, names)))
    yield from _count_in(words, found, counters, by_name, moment)


def forget(words: Words, name: str) -> Asking[None]:
    """Forget what a limit counted; what waited for it goes back to its lanes."""
    parked = yield Execute(_PARKED, (name,))
    yield from words.hold_jobs([row[0] for row in parked])
    counters = yield from read_counters(words, Condition("c.name = ?", (name,)), hold=True)
    for counter in counters:
        yield from _call(words, counter, NO_LIMIT)
        for table, column in (("mutirao_slot", "counter"), ("mutirao_counter", "id")):
            sql = f"DELETE FROM {table} WHERE {column} = ?"
            yield Execute(sql, (counter.id,), answers=False)


def mend(words: Words, moment: int) -> Asking[tuple[Wake, ...]]:
    """Release blocked jobs for which any counter has room, and delete unused counters."""
    idle = yield Execute(_IDLE)
    if words.locks:  # all at once, in order: some come to be awaited meanwhile
        yield Execute(f"SELECT id FROM mutirao_counter ORDER BY id{words.hold}")
    woken = yield from let_go(words, [row[0] for row in idle], moment)
    awaited = yield from read_counters(words, Condition(_AWAITED, ()), hold=True)
    woken += yield from call(words, awaited, moment)
    yield from _forget_quiet(words, moment)
    return woken


def exist() -> Asking[bool]:
    """Return whether there are limits."""
    [(found,)] = yield Execute("SELECT EXISTS (SELECT 1 FROM mutirao_limit)")
    return bool(found)


def in_use() -> Asking[bool]:
    """Return whether anything is counted."""
    [(found,)] = yield Execute("SELECT EXISTS (SELECT 1 FROM mutirao_counter)")
    return bool(found)


def _forget_quiet(words: Words, moment: int) -> Asking[None]:
    """Delete unused counters, but those that somebody else has: other counters are locked by now.

    In statements of their own: a DELETE locks what its subqueries read, on MariaDB.
    """
    quiet = (moment - int(COUNTER_KEPT_FOR * MICROS_PER_SECOND), COUNTER_KEPT_FOR)
    found = {id for (id,) in (yield Execute(_QUIET, quiet))}
    if found and words.locks:
        which, values = words.among("c.id", found)
        held = yield Execute(f"{COUNTER}{which} ORDER BY c.id{words.hold_free}", values)
        found = {row[0] for row in held} & {id for (id,) in (yield Execute(_QUIET, quiet))}
    if found:
        gone = [(id,) for id in sorted(found)]
        yield each("DELETE FROM mutirao_counter WHERE id = ?", gone)


def _due(words: Words, ids: Collection[int]) -> Asking[dict[int, _Due]]:
    which, values = words.among("l.id", ids)
    rows = yield Execute(_ASKED + which, values)
    return {row[0]: _Due._make(row) for row in rows}


def _count_in(
    words: Words,
    jobs: Sequence[Candidate],
    counters: dict[CounterName, Counter],
    by_name: dict[str, Rule],
    moment: int,
) -> Asking[None]:
    """Count jobs that run, and write what was counted."""
    slots = [
        (job.id, counters[name].id)
        for job in jobs
        for name in job.counters
        if _count(counters[name], by_name[name.limit], moment)
    ]
    if slots:
        yield each(words.insert("mutirao_slot", ("job", "counter")), slots)
    if rows := [(one.running, one.tokens, one.touched_at, one.id) for one in counters.values()]:
        yield each(_COUNT, rows)


def _count(counter: Counter, rule: Rule, moment: int) -> bool:
    """Count a job; return whether it holds a slot."""
    if rule.per is None:
        counter.running += 1
    else:
        counter.tokens = counter.filled(rule, moment) - 1
    counter.touched_at = max(counter.touched_at, moment)
    return rule.per is None


def _park(words: Words, jobs: Sequence[tuple[_Due, Counter]]) -> Asking[None]:
    """Put jobs out of their lanes, each behind a counter."""
    columns = ("job", "counter", "priority", "run_at", "late")
    sql = words.upsert("mutirao_parked", columns, ("job",), ("counter",))
    yield each(sql, [(job.id, of.id, job.priority, job.run_at, job.late) for job, of in jobs])
    yield words.move([(PARKED_MICROS, job.id) for job, _ in jobs])


def _call(words: Words, counter: Counter, most: int) -> Asking[list[tuple[str, int, int]]]:
    """Bring back up to `most` jobs; return their places. Forget those that are gone."""
    back: list[tuple[str, int, int]] = []
    while len(back) < most:
        rows, mixed = yield from _next(counter, most - len(back))
        there = yield from words.hold_jobs([row[0] for row in rows if row[4]], free=True)
        rows = [row for row in rows if row[4] is None or row[0] in there]
        if not rows:
            break
        yield from words.drop("mutirao_parked", [row[0] for row in rows])
        if mixed:
            counter.late_next = (counter.late_next + len(rows)) % 2
            yield Execute(_LATE_NEXT, (counter.late_next, counter.id), answers=False)
        waiting = [row for row in rows if row[4] is not None]
        if waiting:
            yield words.move([(run_at, job) for job, run_at, *_ in waiting])
        back += [(queue, priority, run_at) for _, run_at, queue, priority, *_ in waiting]
    return back


def _next(counter: Counter, most: int) -> Asking[tuple[list[Row], bool]]:
    """Return the parked jobs that a counter calls next, and whether late ones and others wait.

    If they do, every other one is late.
    """
    rows = yield Execute(_NEXT, (counter.id, False, most, counter.id, True, most))
    late, others = [row for row in rows if row[-1]], [row for row in rows if not row[-1]]
    if not late or not others:
        return [*rows], False
    merged = shared(others, late, counter.late_next)
    return sorted(merged, key=itemgetter(_PRIORITY))[:most], True


def _send_ahead(words: Words, counter: Counter, rule: Rule, moment: int) -> Asking[None]:
    """Have the first parked job come back when there will be a token."""
    first, _ = yield from _next(counter, 1)
    at = None
    if first and rule.most > 0:
        at = moment + int(next_look(rule, counter.filled(rule, moment)) * MICROS_PER_SECOND) + 1
        yield words.move([(at, first[0][0])])
    sql = "UPDATE mutirao_counter SET probe_at = ? WHERE id = ?"
    yield Execute(sql, (at, counter.id), answers=False)
