"""Doorbells: jobs that a broker carries; see `mutirao.model.brokers.doorbell`."""

from collections.abc import Sequence
from datetime import datetime

from mutirao.model.brokers.doorbell import Doorbell, rung_lane, unrung_lane
from mutirao.model.jobs.job import Claim, Lane
from mutirao.model.limits.fairness import once, queue_of
from mutirao.model.limits.limits import CounterName
from mutirao.sql.drivers.steps import Execute, Query
from mutirao.sql.rules import claim, fairness, limits
from mutirao.sql.rules.words import Words

_RING = "UPDATE mutirao_live {} SET queue = ?, run_at = ? WHERE "
_RUNG = """
SELECT l.id, l.run, j.queue, j.priority, j.task, j.`group`
FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
WHERE """
_WAITING = """
SELECT id, run, queue FROM mutirao_live {} WHERE worker IS NULL AND run_at <= ? AND """
_BACK = "UPDATE mutirao_live {} SET queue = ? WHERE "


def ring(
    words: Words, lanes: Sequence[Lane], limit: int, now: datetime | None
) -> Query[list[Doorbell]]:
    """Ring the doorbells of due jobs."""
    moment = yield from words.moment(now)
    turns = yield from fairness.turns(words, lanes)
    stopped, ids = limits.stopped_queues((yield from limits.rules())), list[int]()
    for lane in once(lanes):
        if queue_of(lane.queue) in stopped or len(ids) >= limit:
            continue
        some = yield from claim.some(words, turns, lane, limit - len(ids), moment)
        due = [*some]
        yield from turns.note(lane.queue, [*some.values()])
        if due:
            which, values = words.among("id", due)
            sql = _RING.format(words.by_key) + which
            yield Execute(sql, (rung_lane(lane.queue), moment, *values), answers=False)
        ids += due
    if not ids:
        return []
    which, values = words.among("l.id", ids)
    rows = yield Execute(_RUNG + which, values)
    found = {row[0]: Doorbell._make(row) for row in rows}
    return [found[id] for id in ids if id in found]


def answer(
    words: Words, worker: int, rung: Sequence[tuple[int, int]], now: datetime | None
) -> Query[list[Claim]]:
    """Take the jobs of doorbells that still wait with that run."""
    moment = yield from words.moment(now)
    yield from words.keep_limits()
    yield from claim.require(worker)
    rules = yield from limits.rules()
    if rules:
        paced = yield from limits.pace(words, rules, moment)
        if paced.locked:  # and live rows come first
            return claim.once_more(paced.woken)
    ids = yield from _waiting(words, rung, moment)
    if rules and ids:
        stopped = limits.stopped_queues(rules)
        allowed = [id for id, lane in ids.items() if queue_of(lane) not in stopped]
        held: set[CounterName] | None = set() if words.locks else None
        asking = yield from limits.asking(words, allowed)
        room = yield from limits.let_in(words, rules, asking, len(allowed), moment, held)
        if room is None:
            return claim.once_more()
        fit = room.taken
    else:
        fit = list(ids)
    if not fit:
        return []
    yield from claim.take(words, worker, fit, moment)
    return (yield from claim.taken(words, fit))


def _waiting(words: Words, rung: Sequence[tuple[int, int]], moment: int) -> Query[dict[int, str]]:
    """Return the lanes of the jobs that wait, locked; they are in these lanes again."""
    jobs = {id for id, _ in rung}
    free = yield from words.hold_jobs(jobs, free=True)
    if not free:
        return {}
    which, values = words.among("id", free)
    rows = yield Execute(_WAITING.format(words.by_key) + which, (moment, *values))
    named = set(rung)
    found = {id: (lane, unrung_lane(lane)) for id, run, lane in rows if (id, run) in named}
    for lane in sorted({lane for lane in found.values() if lane[0] != lane[1]}):
        back = [id for id, each in found.items() if each == lane]
        which, values = words.among("id", back)
        yield Execute(_BACK.format(words.by_key) + which, (lane[1], *values), answers=False)
    return {id: lane for id, (_, lane) in found.items()}
