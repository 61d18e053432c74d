"""Limits: decided as on SQLite, over dictionaries."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mutirao.fair import queue_of
from mutirao.job import Lane, Wake
from mutirao.limit import (
    VOUCHED,
    Candidate,
    CounterName,
    LimitRecord,
    Origin,
    Rule,
    admit,
    candidate,
    filled,
    next_look,
)
from mutirao.unique import PARKED

if TYPE_CHECKING:
    from mutirao.testing.memory.tables import Live, Tables


@dataclass(frozen=True, slots=True)
class Written:
    """A limit, and who wrote it down."""

    rule: Rule
    origin: Origin
    created_at: datetime
    changed_at: datetime
    declared: str | None = None
    declared_at: datetime | None = None
    declared_by: str | None = None


@dataclass(slots=True)
class Counter:
    """How full a limit is for one value."""

    tokens: float
    touched_at: datetime
    running: set[int] = field(default_factory=set)
    parked: dict[int, tuple[int, datetime, int]] = field(default_factory=dict)  # their places
    probe_at: datetime | None = None

    def room(self, rule: Rule, now: datetime) -> int:
        """Return how many more may start now."""
        if rule.per is None:
            return max(0, rule.most - len(self.running))
        return int(filled(rule, self.tokens, self.touched_at, now))


@dataclass(slots=True)
class Limits:
    """All limits, and what they count."""

    written: dict[str, Written] = field(default_factory=dict)
    counters: dict[CounterName, Counter] = field(default_factory=dict)

    def rules(self) -> list[Rule]:
        """Return the limits by name."""
        return [written.rule for _, written in sorted(self.written.items())]

    def parked_at(self, job: int) -> datetime | None:
        """Return when a parked job was due; None for one that is not parked."""
        places = (each.parked[job][1] for each in self.counters.values() if job in each.parked)
        return next(places, None)

    def stops(self, queue: str) -> bool:
        """Whether a queue is paused."""
        return any(rule.stops_a_queue and rule.queue == queue for rule in self.rules())


def put(tables: "Tables", rule: Rule, origin: Origin, worker: str | None, now: datetime) -> None:
    """Make a limit, or give the one of that name other terms."""
    limits = tables.limits
    before = limits.written.get(rule.name)
    written = before or Written(rule, origin, now, now)
    if origin is Origin.CODE:
        news = written.declared != rule.fingerprint
        written = replace(
            written, origin=origin, declared=rule.fingerprint, declared_at=now, declared_by=worker
        )
        if not news:
            limits.written[rule.name] = written
            return
    limits.written[rule.name] = replace(written, rule=rule, changed_at=now)
    if before is None or before.rule.covers != rule.covers:
        _forget(tables, rule.name)
        _count_running(tables, rule, now)
    mend(tables, now)


def remove(tables: "Tables", name: str) -> bool:
    """Remove a limit; tell whether there was one."""
    if tables.limits.written.pop(name, None) is None:
        return False
    _forget(tables, name)
    return True


def vouch(
    tables: "Tables", names: Collection[str], worker: str, every: float, now: datetime
) -> None:
    """Note that limits are in a worker's code."""
    old = now - timedelta(seconds=every)
    for name, written in tables.limits.written.items():
        if name in names and written.declared_at is not None and written.declared_at < old:
            vouched = replace(written, declared_at=now, declared_by=worker)
            tables.limits.written[name] = vouched


def listed(tables: "Tables", now: datetime) -> list[LimitRecord]:
    """List the limits by name and key."""
    return [
        record
        for _, written in sorted(tables.limits.written.items())
        for record in _records(tables, written, now)
    ]


def let_in(
    tables: "Tables", jobs: Sequence["Live"], most: int, now: datetime
) -> tuple[list["Live"], bool]:
    """Return up to `most` of these due jobs that may run, counted; and whether others came back.

    They do where a job had room in one limit and is parked behind another.
    """
    limits, rules = tables.limits, {rule.name: rule for rule in tables.limits.rules()}
    asked = [_candidate(tables, job.id, rules.values()) for job in jobs]
    for name in {name for job in asked for name in job.counters}:
        limits.counters.setdefault(name, Counter(rules[name.limit].burst or 0, now))
    room = {name: each.room(rules[name.limit], now) for name, each in limits.counters.items()}
    admission = admit(asked, room, most)
    for job in admission.taken:
        _unpark(tables, job.id)
        for name in job.counters:
            _take(limits.counters[name], rules[name.limit], job.id, now)
    for id, name in admission.parked.items():
        _park(tables, id, limits.counters[name])
    for name in set(admission.parked.values()):
        counter = limits.counters[name]
        if rules[name.limit].per is not None and counter.probe_at is None:
            _send_ahead(tables, counter, rules[name.limit], now)
    spare = [
        name
        for job in asked
        if job.id in admission.parked
        for name in job.counters
        if rules[name.limit].per is None and limits.counters[name].room(rules[name.limit], now)
    ]
    called = _call(tables, dict.fromkeys(spare), now)
    return [tables.live[job.id] for job in admission.taken], bool(called)


def pace(tables: "Tables", now: datetime) -> tuple[Wake, ...]:
    """Call the jobs that rates have tokens for now, where some were waited for."""
    due = [
        name
        for name, counter in tables.limits.counters.items()
        if counter.probe_at is not None and counter.probe_at <= now
    ]
    return _call(tables, due, now)


def mend(tables: "Tables", now: datetime) -> tuple[Wake, ...]:
    """Give back what is held by jobs that do not run, and call whoever there is room for."""
    if not tables.limits.counters:
        return ()
    waiting = {id for id, job in tables.live.items() if job.worker is None}
    for counter in tables.limits.counters.values():
        counter.running = {id for id in counter.running if id in tables.live and id not in waiting}
        counter.parked = {id: at for id, at in counter.parked.items() if id in waiting}
    awaited = [
        name
        for name, counter in tables.limits.counters.items()
        if counter.parked or counter.probe_at is not None  # who was sent ahead may be gone
    ]
    return _call(tables, awaited, now)


def unblocked(tables: "Tables", lanes: Sequence[Lane]) -> list[Lane]:
    """Return the lanes of queues that are not paused."""
    return [lane for lane in lanes if not tables.limits.stops(queue_of(lane.queue))]


def _records(tables: "Tables", written: Written, now: datetime) -> list[LimitRecord]:
    rule = written.rule
    found: dict[str | None, Counter] = {
        name.key: counter
        for name, counter in sorted(tables.limits.counters.items())
        if name.limit == rule.name
    }
    nobody = Counter(rule.burst or 0, now)
    alone = rule.key if rule.by is not None else ""
    declared_at = written.declared_at
    return [
        LimitRecord(
            name=rule.name,
            queue=rule.queue,
            task=rule.task,
            by=rule.by,
            key=rule.key if rule.key is not None else key,
            most=rule.most,
            per=rule.per,
            burst=rule.burst,
            paused=rule.most == 0,
            running=len(counter.running),
            tokens=None
            if rule.per is None
            else filled(rule, counter.tokens, counter.touched_at, now),
            parked=len(counter.parked),
            origin=written.origin,
            in_code=declared_at > now - VOUCHED
            if written.origin is Origin.CODE and declared_at is not None
            else None,
            declared_at=declared_at,
            declared_by=written.declared_by,
            created_at=written.created_at,
            changed_at=written.changed_at,
        )
        for key, counter in (found or {alone: nobody}).items()
    ]


def _candidate(tables: "Tables", id: int, rules: Iterable[Rule]) -> Candidate:
    new = tables.asked[id].new
    return candidate(id, new.queue, new.task, new.args, rules)


def _take(counter: Counter, rule: Rule, job: int, now: datetime) -> None:
    if rule.per is None:
        counter.running.add(job)
    else:
        counter.tokens = filled(rule, counter.tokens, counter.touched_at, now) - 1
    counter.touched_at = max(counter.touched_at, now)


def _park(tables: "Tables", id: int, counter: Counter) -> None:
    job = tables.live[id]
    run_at = tables.limits.parked_at(id) or job.run_at  # of one sent ahead its own time is known
    _unpark(tables, id)
    counter.parked[id] = (job.priority, run_at, id)
    job.run_at = PARKED


def _unpark(tables: "Tables", id: int) -> None:
    for counter in tables.limits.counters.values():
        counter.parked.pop(id, None)


def _call(tables: "Tables", names: Iterable[CounterName], now: datetime) -> tuple[Wake, ...]:
    woken: list[Wake] = []
    for name in names:
        counter, rule = tables.limits.counters[name], tables.limits.written[name.limit].rule
        ready = min(counter.room(rule, now), len(counter.parked))
        woken += [_back(tables, counter) for _ in range(ready)]
        if rule.per is not None:
            _send_ahead(tables, counter, rule, now)
    return tuple(woken)


def _back(tables: "Tables", counter: Counter) -> Wake:
    """Bring the first parked job back to its lane."""
    _, run_at, id = min(counter.parked.values())
    del counter.parked[id]
    job = tables.live[id]
    job.run_at = run_at
    return Wake(job.queue, job.priority, run_at)


def _send_ahead(tables: "Tables", counter: Counter, rule: Rule, now: datetime) -> None:
    """Have the first parked job come back when there will be a token."""
    counter.probe_at = None
    if counter.parked:
        tokens = filled(rule, counter.tokens, counter.touched_at, now)
        counter.probe_at = now + timedelta(seconds=next_look(rule, tokens), microseconds=1)
        _, _, first = min(counter.parked.values())
        tables.live[first].run_at = counter.probe_at


def _forget(tables: "Tables", name: str) -> None:
    """Forget what a limit counted; what waited for it goes back to its lanes."""
    for counter_name in [each for each in tables.limits.counters if each.limit == name]:
        counter = tables.limits.counters.pop(counter_name)
        while counter.parked:
            _back(tables, counter)


def _count_running(tables: "Tables", rule: Rule, now: datetime) -> None:
    if rule.per is not None or rule.most == 0:
        return
    for job in tables.live.values():
        if job.worker is not None:
            for name in _candidate(tables, job.id, [rule]).counters:
                tables.limits.counters.setdefault(name, Counter(0, now)).running.add(job.id)
