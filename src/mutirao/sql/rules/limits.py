"""Limits: count running jobs, park those for which there is no room, and release them later.

`mutirao.model.limits.limits` decides; this module reads what it needs and writes what it decides.
Times are in microseconds. Live rows are locked before counters, or without waiting. Jobs that a
change of limits skipped, as others had locked them, are in `limit_catch_up`.
"""

from collections import Counter as Tally
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from mutirao.model.jobs.job import Wake
from mutirao.model.limits.fairness import is_late
from mutirao.model.limits.limit_values import Whose
from mutirao.model.limits.limits import (
    COUNTER_KEPT_FOR,
    Candidate,
    CounterName,
    Rule,
    admit,
    candidate,
)
from mutirao.sql.drivers.steps import Execute, Query, Row, all_of, execute_many, pipelined
from mutirao.sql.rules import parked
from mutirao.sql.rules.counters import (
    Counter,
    find_counters,
    hold_counters,
    lock_counters,
    make_counters,
    read_counters,
)
from mutirao.sql.rules.words import NO_LIMIT, Condition, Words
from mutirao.sql.schema.types import MICROS_PER_SECOND, from_micros

_TERMS = ("name", "queue", "task", "by", "key", "most", "per", "burst", "start")
TERMS = ", ".join(f"m.{term}" for term in _TERMS)
_RULES = Execute(f"SELECT {TERMS} FROM mutirao_limit m ORDER BY m.name")
_ASKED = """
SELECT l.id, l.queue, l.fairness, j.queue, j.task, j.args, l.priority, l.run_at, j.tenant, j.`group`
FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
WHERE """
_COUNT = "UPDATE mutirao_counter SET running = ?, tokens = ?, touched_at = ? WHERE id = ?"
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
_SLOTS = "SELECT job, counter FROM mutirao_slot WHERE "
RUNNING = Execute("SELECT id FROM mutirao_live WHERE worker IS NOT NULL")
# A counter whose limit is gone has a name of its own, as there may be another limit of that name.
CLOSED = "\x1f"
_WAITED_FOR = "SELECT DISTINCT counter FROM mutirao_parked WHERE "
_CLOSE = """
UPDATE mutirao_counter SET name = ?, running = 0, probe_at = NULL, touched_at = 0 WHERE id = ?
"""
# The job that was sent ahead may have been cancelled, and have been the last.
_AWAITED = (
    "(c.probe_at IS NOT NULL OR EXISTS (SELECT 1 FROM mutirao_parked p WHERE p.counter = c.id))"
)
# A rate that is slower than that would begin again: those are kept.
_QUIET = """
SELECT id FROM mutirao_counter
WHERE running = 0 AND touched_at < ? AND id NOT IN (SELECT counter FROM mutirao_parked)
  AND id NOT IN (SELECT counter FROM mutirao_slot)
  AND name NOT IN (SELECT name FROM mutirao_limit WHERE burst * per / most > ?)
"""


class Asked(NamedTuple):
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


def rules() -> Query[list[Rule]]:
    """Return the limits there are."""
    return rules_of((yield _RULES))


def rules_of(rows: Iterable[Row]) -> list[Rule]:
    """Return the limits of rows of `TERMS`."""
    return [Rule(**dict(zip(_TERMS, row, strict=True))) for row in rows]


def stopped_queues(rules: Iterable[Rule]) -> set[str | None]:
    """Return the queues that are paused."""
    return {rule.queue for rule in rules if rule.stops_a_queue}


def asking(
    words: Words, ids: Collection[int], due: tuple[str, int] | None = None
) -> Query[dict[int, Asked]]:
    """Return what is asked about jobs that ask for room, in this order.

    `due`: those that this transaction can lock, and that are in this lane and due at this moment.
    """
    if not ids:
        return {}
    which, values = words.among("l.id", ids)
    ask = Execute(_ASKED + which, values)
    if words.locks and due is not None:
        held, rows = yield from all_of([words.holding(ids, free=True, due=due), ask])
        free = {id for (id,) in held}
    else:
        rows, free = (yield ask), {*ids}
    found = {row[0]: Asked._make(row) for row in rows}
    return {id: found[id] for id in ids if id in found and id in free}


class Paced(NamedTuple):
    """What was done for rates before a claim.

    `locked`: this transaction has locked counters, and is to lock no others. `woken`: where the
    next jobs are due, once there are tokens for them.
    """

    locked: bool = False
    woken: tuple[Wake, ...] = ()


class Admitted(NamedTuple):
    """The jobs of a claim that may run, counted, and how many others were parked.

    `called`: others came back to their lanes, because a job that one limit had room for is parked
    behind another. `woken`: as in `Paced`.
    """

    taken: list[int]
    parked: int
    called: bool
    woken: tuple[Wake, ...]


def let_in(
    words: Words,
    rules: Sequence[Rule],
    jobs: Mapping[int, Asked],
    most: int,
    moment: int,
    held: set[CounterName] | None = None,
) -> Query[Admitted | None]:
    """Admit up to `most` of these due jobs.

    `held`: the counters that this transaction has locked, to which those of these jobs are added.
    None is returned where it has others, and where rows are locked and some had to be made: that is
    for another transaction, as a new row is locked out of order.
    """
    candidates = [job.candidate(rules) for job in jobs.values()]
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
        behind = [(jobs[id], counters[name]) for id, name in admission.parked.items()]
        rows = [(job.id, of.id, job.priority, job.run_at, job.late) for job, of in behind]
        yield from parked.park(words, rows)
    ahead = list[parked.Place]()
    for name in sorted(set(admission.parked.values())):
        if by_name[name.limit].per is not None and counters[name].probe_at is None:
            ahead += yield from parked.send_ahead(
                words, counters[name], by_name[name.limit], moment
            )
    spare = {
        counters[name].id: counters[name]
        for job in candidates
        if job.id in admission.parked
        for name in job.counters
        if by_name[name.limit].per is None and counters[name].room(by_name[name.limit], moment)
    }
    called = (yield from call(words, spare.values(), moment)) if spare else ()
    return Admitted(taken, len(admission.parked), bool(called), _wakes(ahead))


def let_go(words: Words, jobs: Collection[int], moment: int) -> Query[tuple[Wake, ...]]:
    """Free the slots of those of these jobs that no longer run, and release blocked jobs."""
    which, values = words.among("s.job", jobs)
    free = yield Execute(_FREE + which, values)
    return (yield from free_slots(words, [(job, counter) for job, counter in free], moment))


def slots(words: Words, jobs: Collection[int]) -> Execute:
    """Return the question what these jobs hold: pairs of a job and a counter."""
    which, values = words.among("job", jobs)
    return Execute(_SLOTS + which, values)


def free_slots(
    words: Words, held: Sequence[tuple[int, int]], moment: int
) -> Query[tuple[Wake, ...]]:
    """Free slots, pairs of a job and a counter, and release blocked jobs."""
    if not held:
        return ()
    ended = Tally(counter for _, counter in held)
    rules = yield from pipelined(_RULES)
    counters = yield from hold_counters(words, sorted(ended))
    yield words.free(held)
    # The limits of others have gone meanwhile, with what they counted.
    counting = [counter for counter in counters if not counter.name.startswith(CLOSED)]
    if less := [(ended[counter.id], counter.id) for counter in counting]:
        yield execute_many("UPDATE mutirao_counter SET running = running - ? WHERE id = ?", less)
    for counter in counting:
        counter.running -= ended[counter.id]
    return (yield from _call_for(words, rules_of(rules.rows), counters, moment))


def give_back(words: Words, jobs: Collection[int], now: datetime | None) -> Query[tuple[Wake, ...]]:
    """Release the slots of jobs as `let_go` does, if anything is counted at all."""
    if not jobs or not (yield from in_use()):
        return ()
    moment = yield from words.moment(now)
    return (yield from let_go(words, jobs, moment))


def pace(words: Words, rules: Iterable[Rule], moment: int) -> Query[Paced]:
    """Call the jobs that rates have tokens for now, where some were waited for."""
    paced = {rule.name for rule in rules if rule.per is not None}
    if not paced:
        return Paced()
    found = yield from read_counters(Condition("c.probe_at <= ?", (moment,)))
    due = [counter for counter in found if counter.name in paced]
    if not due:
        return Paced()
    if words.locks:
        held = yield from hold_counters(words, [counter.id for counter in due])
        due = [each for each in held if each.probe_at is not None and each.probe_at <= moment]
    _, ahead = yield from _move(words, rules, due, moment)
    return Paced(words.locks, _wakes(ahead))


def call(words: Words, counters: Iterable[Counter], moment: int) -> Query[tuple[Wake, ...]]:
    """Bring parked jobs back to their lanes, as many as there is room. Counters are locked."""
    return (yield from _call_for(words, (yield from rules()), counters, moment))


def _call_for(
    words: Words, rules: Iterable[Rule], counters: Iterable[Counter], moment: int
) -> Query[tuple[Wake, ...]]:
    back, ahead = yield from _move(words, rules, counters, moment)
    return _wakes(back) + _wakes(ahead)


def _move(
    words: Words, rules: Iterable[Rule], counters: Iterable[Counter], moment: int
) -> Query[tuple[list[parked.Place], list[parked.Place]]]:
    """Bring parked jobs back, and send others ahead; return the places of both."""
    by_name = {rule.name: rule for rule in rules}
    terms = [(counter, by_name.get(counter.name)) for counter in counters]  # None: it is gone
    back = yield from parked.bring_back(
        words, [(one, NO_LIMIT if rule is None else one.room(rule, moment)) for one, rule in terms]
    )
    ahead = list[parked.Place]()
    for counter, rule in terms:
        if rule is not None and rule.per is not None:
            ahead += yield from parked.send_ahead(words, counter, rule, moment)
    return back, ahead


def _wakes(places: Iterable[parked.Place]) -> tuple[Wake, ...]:
    woken: dict[tuple[str, int], int] = {}
    for queue, priority, run_at in places:
        woken[queue, priority] = min(run_at, woken.get((queue, priority), run_at))
    return tuple(Wake(*lane, from_micros(run_at)) for lane, run_at in woken.items())


def count_running(words: Words, rule: Rule, moment: int) -> Query[bool]:
    """Count what a new limit covers and runs already; return whether others have some of that."""
    if not counts_running(rule):
        return False
    running = {id for (id,) in (yield RUNNING)}
    ids = yield from words.hold_some(running)
    yield from count_those(words, ids, [rule], moment)
    return ids < running


def counts_running(rule: Rule) -> bool:
    """Return whether a limit counts what runs: not what begins, nor where nothing may."""
    return rule.per is None and rule.most != 0


def count_those(
    words: Words, ids: Collection[int], rules: Sequence[Rule], moment: int
) -> Query[None]:
    """Count jobs that run, and are locked, where these limits do not yet."""
    found = [job.candidate(rules) for job in (yield from asking(words, ids)).values()]
    names = {name for job in found for name in job.counters}
    if not names:
        return
    by_name = {rule.name: rule for rule in rules}
    missing = names - (yield from find_counters(words, names)).keys()
    yield from make_counters(words, missing, by_name, moment)
    counters = yield from lock_counters(words, (yield from find_counters(words, names)))
    counted = {(job, counter) for job, counter in (yield slots(words, ids))}
    yield from _count_in(words, found, counters, by_name, moment, counted)


def forget(words: Words, name: str) -> Query[bool]:
    """Forget what a limit counted; what waited for it goes back to its lanes.

    Returns whether others have some of that. It stays behind its counter, which no limit has any
    more: see `limit_catch_up`.
    """
    waiting = yield Execute(_PARKED, (name,))
    yield from words.hold_some([row[0] for row in waiting])
    named = yield from read_counters(Condition("c.name = ?", (name,)))
    counters = yield from hold_counters(words, [counter.id for counter in named])
    for counter in counters:
        yield from parked.bring_back(words, [(counter, NO_LIMIT)])
        yield Execute("DELETE FROM mutirao_slot WHERE counter = ?", (counter.id,), answers=False)
    left = yield from _still_waited_for(words, [counter.id for counter in counters])
    for id in (counter.id for counter in counters):
        if id in left:
            yield Execute(_CLOSE, (f"{CLOSED}{id}", id), answers=False)
        else:
            yield Execute("DELETE FROM mutirao_counter WHERE id = ?", (id,), answers=False)
    return bool(left)


def _still_waited_for(words: Words, counters: Sequence[int]) -> Query[set[int]]:
    """Return those of some counters behind which jobs wait whose rows others have."""
    if not words.locks or not counters:
        return set()
    which, values = words.among("counter", counters)
    return {id for (id,) in (yield Execute(_WAITED_FOR + which, values))}


def mend(words: Words, moment: int) -> Query[tuple[Wake, ...]]:
    """Release blocked jobs for which any counter has room, and delete unused counters."""
    idle = yield Execute(_IDLE)
    if words.locks:  # all at once, in order: some come to be awaited meanwhile
        yield Execute(f"SELECT id FROM mutirao_counter {words.by_key} ORDER BY id{words.hold}")
    woken = yield from let_go(words, [row[0] for row in idle], moment)
    awaited = yield from read_counters(Condition(_AWAITED, ()))
    held = yield from hold_counters(words, [counter.id for counter in awaited])
    woken += yield from call(words, held, moment)
    yield from _forget_quiet(words, moment)
    return woken


def exist() -> Query[bool]:
    """Return whether there are limits."""
    [(found,)] = yield Execute("SELECT EXISTS (SELECT 1 FROM mutirao_limit)")
    return bool(found)


def in_use() -> Query[bool]:
    """Return whether anything is counted."""
    [(found,)] = yield Execute("SELECT EXISTS (SELECT 1 FROM mutirao_counter)")
    return bool(found)


def _forget_quiet(words: Words, moment: int) -> Query[None]:
    """Delete unused counters, but those that are locked: other counters are locked by now.

    In statements of their own: a DELETE locks what its subqueries read, on MariaDB.
    """
    quiet = (moment - int(COUNTER_KEPT_FOR * MICROS_PER_SECOND), COUNTER_KEPT_FOR)
    found = {id for (id,) in (yield Execute(_QUIET, quiet))}
    if found and words.locks:
        held = yield from hold_counters(words, found, free=True)
        found = {counter.id for counter in held} & {id for (id,) in (yield Execute(_QUIET, quiet))}
    if found:
        gone = [(id,) for id in sorted(found)]
        yield execute_many("DELETE FROM mutirao_counter WHERE id = ?", gone)


def _count_in(
    words: Words,
    jobs: Sequence[Candidate],
    counters: dict[CounterName, Counter],
    by_name: dict[str, Rule],
    moment: int,
    counted: Collection[tuple[int, int]] = (),
) -> Query[None]:
    """Count jobs that run, but for those that have a slot already, and write what was counted."""
    slots = [
        (job.id, counters[name].id)
        for job in jobs
        for name in job.counters
        if (job.id, counters[name].id) not in counted
        and _count(counters[name], by_name[name.limit], moment)
    ]
    if slots:
        yield execute_many(words.insert("mutirao_slot", ("job", "counter")), slots)
    if rows := [(one.running, one.tokens, one.touched_at, one.id) for one in counters.values()]:
        yield execute_many(_COUNT, rows)


def _count(counter: Counter, rule: Rule, moment: int) -> bool:
    """Count a job; return whether it holds a slot."""
    if rule.per is None:
        counter.running += 1
    else:
        counter.tokens = counter.filled(rule, moment) - 1
    counter.touched_at = max(counter.touched_at, moment)
    return rule.per is None
