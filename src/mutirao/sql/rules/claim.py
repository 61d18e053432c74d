"""Claims: read the lanes, and take due jobs for one worker."""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile

from mutirao.errors import WorkerGone
from mutirao.model.jobs.job import Claim, FairClaim, Lane, LaneHead, Wake
from mutirao.model.limits.claims_and_wakes import Claimed
from mutirao.model.limits.fairness import is_fair, once, queue_of
from mutirao.model.limits.limits import CounterName, Rule
from mutirao.model.moments import BEFORE_ALL_JOBS
from mutirao.sql.drivers.steps import Execute, Query, Row, all_of
from mutirao.sql.rules import fairness, limits
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.types import (
    MICROS_PER_SECOND,
    from_micros,
    to_micros,
    to_micros_or_before,
)

LOOK_AHEAD_JOBS = 500  # jobs that are read at once, after some were found that cannot run
MAX_PARKED_PER_CLAIM = 10_000  # in one transaction, which keeps other writers waiting
MAX_PARKED_BESIDE = 1_000  # where some jobs may run: these start first

MAX_ROWS_PER_LOOK = 500  # of one query for heads of lanes
FEW = 4  # jobs of a lane; while others have fewer due, several lanes are read at once
MAX_LANES_PER_LOOK = 64  # lanes

# In two steps, because `(queue, priority) > (?, ?)` begins at the first equal row, on SQLite, and
# would walk the whole lane.
_NEXT_LANES = """
SELECT * FROM (
    SELECT queue, priority, run_at, id FROM mutirao_live {0}
    WHERE worker IS NULL AND queue = ? AND priority > ?
    ORDER BY priority, run_at, id LIMIT ?
) AS same_queue
UNION ALL
SELECT * FROM (
    SELECT queue, priority, run_at, id FROM mutirao_live {0}
    WHERE worker IS NULL AND queue > ?
    ORDER BY queue, priority, run_at, id LIMIT ?
) AS next_queue
ORDER BY queue, priority, run_at, id LIMIT ?
"""
# A due job carries whether there are limits that may concern it: no query of its own.
_DUE = """
SELECT id, EXISTS (SELECT 1 FROM mutirao_limit) FROM mutirao_live {}
WHERE worker IS NULL AND queue = ? AND priority = ? AND {} AND run_at <= ?{}
ORDER BY run_at, id LIMIT ?{}
"""
_LOOK = """
SELECT id, run_at FROM mutirao_live {}
WHERE worker IS NULL AND queue = ? AND priority = ? AND {} AND run_at <= ?{}
ORDER BY run_at, id LIMIT ?
"""
_FOUND = """
SELECT id, queue, priority FROM mutirao_live {}
WHERE worker IS NULL AND run_at <= ? AND {}{}
"""
_TAKE = """
UPDATE mutirao_live {} SET worker = ?, run = run % 2147483647 + 1, claimed_at = ?,
    attempt = CASE WHEN attempt < 2147483646 THEN attempt + 1 ELSE 2147483647 END
WHERE """
# The first query of a claim, where rows are locked: the time, the worker's row, the limits.
_OPENING = f"""
SELECT {{}}, EXISTS (SELECT 1 FROM mutirao_worker WHERE id = ?), {limits.TERMS}
FROM (SELECT 1) AS one LEFT JOIN mutirao_limit m ON true
"""
_OF_LIVE = ("id", "run", "attempt", "queue", "run_at", "cancel", "lost", "cut_off")
_CLAIM = ", ".join(f"{'l' if name in _OF_LIVE else 'j'}.`{name}`" for name in Claim._fields)
_TAKEN = f"""
SELECT {_CLAIM} FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
WHERE """
_QUEUE = Claim._fields.index("queue")


def lanes(
    words: Words, queues: Collection[str] | None, now: datetime | None
) -> Query[list[LaneHead]]:
    """Read the heads of all lanes, hopping from one to the next, or over many that are short."""
    heads, at, last = list[LaneHead](), ("", -1 << 63), None
    moment = yield from words.moment(now)
    # Two, so that one lane with one job takes one query: there are no more than it returns.
    sql, most = _NEXT_LANES.format(words.by_lane), 2
    while rows := (yield Execute(sql, (*at, most, at[0], most, most))):
        found = 0
        for queue, priority, run_at, id in rows:
            if (queue, priority) == last:
                continue
            last, found = (queue, priority), found + 1
            # SQLite keeps a fraction, as of a time that SQL computed, where an integer is declared.
            fit = isinstance(queue, str) and _is_number(priority) and _is_number(run_at)
            if fit and (queues is None or queue_of(queue) in queues):
                lane = Lane(queue, priority, from_micros(run_at), id)
                heads.append(LaneHead(lane, (run_at - moment) / MICROS_PER_SECOND))
        if found == 0 and most == 1:
            break  # it is read otherwise than it stands there, and would be found for ever
        if len(rows) < most:
            break
        at = rows[-1][:2]
        # Many rows at once while most of them begin a lane; else a lane's other jobs are passed.
        most = min(2 * most, MAX_ROWS_PER_LOOK) if 2 * found > len(rows) else 1
    return sorted(heads, key=lambda head: (head.lane.priority, head.lane.queue))


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def claim(
    words: Words,
    worker: int,
    lanes: Sequence[Lane],
    limit: int,
    without: Collection[str],
    now: datetime | None,
) -> Query[list[Claim]]:
    """Take due jobs."""
    turns = yield from fairness.turns(words, lanes, limit, without)
    moment, rules = yield from _opening(words, worker, now)
    asked = _Asked(words, turns, without, moment)
    if rules:
        return (yield from _claim_within(asked, rules, worker, lanes, limit))
    ids, ahead, batch = list[int](), deque(once(lanes)), 1
    while ahead and len(ids) < limit:
        if words.locks and batch > FEW:
            ids += yield from _thin(asked, ahead, batch, limit - len(ids))
        if not ahead or len(ids) >= limit:
            break
        lane = ahead.popleft()
        due, limited = yield from _due(asked, lane, limit - len(ids))
        if limited and rules is None:
            found = yield from limits.rules()
            return (yield from _claim_within(asked, found, worker, lanes, limit))
        ids += due
        batch = min(2 * batch, MAX_LANES_PER_LOOK) if len(due) < FEW else 1
        yield from turns.note(lane.queue, [*due.values()])
    if not ids:
        return []
    yield from take(words, worker, ids, moment)
    return fairness.in_order((yield from taken(words, ids)), lanes, ids)


def _thin(asked: "_Asked", ahead: deque[Lane], batch: int, wanted: int) -> Query[list[int]]:
    """Return the due jobs, locked, of the next lanes as long as each has few; these are removed.

    They are read in one round trip, and locked in another.
    """
    found = yield from _in_few(asked, ahead, batch, wanted)
    return (yield from _hold(asked, dict(islice(found.items(), wanted))))


def _in_few(
    asked: "_Asked", ahead: deque[Lane], batch: int, wanted: int
) -> Query[dict[int, tuple[str, int]]]:
    """Return the due jobs of the next lanes as long as each has few, and the lane of each.

    These lanes are removed. There may be a few more than are wanted.
    """
    words, moment = asked.words, asked.moment
    unwanted, values = fairness.but(words, asked.without)
    looks, lanes = list[Execute](), list[Lane]()
    for lane in islice(takewhile(lambda lane: not is_fair(lane.queue), ahead), batch):
        since, place = words.since(to_micros_or_before(lane.run_at), lane.id)
        sql = _LOOK.format(words.by_lane, since, unwanted)
        looks.append(Execute(sql, (lane.queue, lane.priority, *place, moment, *values, FEW)))
        lanes.append(lane)
    found = dict[int, tuple[str, int]]()
    for lane, rows in zip(lanes, (yield from all_of(looks)), strict=True):
        if len(rows) == FEW or len(found) >= wanted:
            break  # it may have more
        found |= {id: (lane.queue, lane.priority) for id, _ in rows}
        ahead.popleft()
    return found


def _hold(asked: "_Asked", found: dict[int, tuple[str, int]]) -> Query[list[int]]:
    """Lock those of these jobs that nobody else has, and that are due in the same lanes still."""
    if not found:
        return []
    words = asked.words
    which, ids = words.among("id", [*found])
    held = yield Execute(_FOUND.format(words.by_key, which, words.hold_free), (asked.moment, *ids))
    free = {id for id, *its in held if (*its,) == found[id]}
    return [id for id in found if id in free]


def _opening(
    words: Words, worker: int, now: datetime | None
) -> Query[tuple[int, list[Rule] | None]]:
    """Return what time it is, and the limits; None: due jobs show whether there are any.

    Raises:
        WorkerGone: the worker was considered gone: nobody would rescue its jobs.
    """
    yield from words.keep_limits()
    if words.clock is None:
        moment = yield from words.moment(now)
        yield from require(worker)
        return moment, None
    rows = yield Execute(_OPENING.format(words.clock), (worker,))
    moment, is_there, *_ = rows[0]
    _refuse_gone(worker, is_there)
    found = limits.rules_of(sorted(row[2:] for row in rows if row[2] is not None))
    return to_micros(now) if now else moment, found


@dataclass(frozen=True, slots=True)
class _Asked:
    """The parameters of a claim: jobs of other tasks than `without`, due at a moment."""

    words: Words
    turns: fairness.Turns
    without: Collection[str]
    moment: int

    def fair(self, lane: str, limit: int) -> Query[dict[int, str]]:
        """Return jobs of a lane of fair ones, and their values; see `fairness.due`."""
        return fairness.due(self.turns, lane, limit, self.without, self.moment)


def _claim_within(
    asked: _Asked, rules: Sequence[Rule], worker: int, lanes: Sequence[Lane], limit: int
) -> Query[Claimed]:
    """Take due jobs that the limits have room for; park the others that are met.

    Where rows are locked, a transaction locks counters once, in order: jobs that others count are
    left for the next.
    """
    words, moment = asked.words, asked.moment
    stopped = limits.stopped_queues(rules)
    served = [
        lane._replace(run_at=BEFORE_ALL_JOBS, id=0)
        for lane in once(lanes)
        if queue_of(lane.queue) not in stopped
    ]
    paced = yield from limits.pace(words, rules, moment)
    if paced.locked:
        return once_more(paced.woken)
    held: set[CounterName] | None = set() if words.locks else None
    ids, parked, called, again, woken = list[int](), 0, True, False, paced.woken
    while called and not again:
        called, look, ahead, thin = False, 0, deque(served), len(served) > MAX_LANES_PER_LOOK
        while ahead and _goes_on(ids, limit, parked):
            wanted = limit - len(ids)
            due, queue, thin = yield from _next(asked, ahead, thin, max(look, wanted))
            if not due:
                continue
            room = yield from limits.let_in(words, rules, due, wanted, moment, held)
            if room is None:
                again = True
                break
            yield from take(words, worker, room.taken, moment)
            yield from asked.turns.note(queue, [due[id].fairness for id in room.taken])
            ids, parked, called = ids + room.taken, parked + room.parked, called or room.called
            woken += room.woken
            look = LOOK_AHEAD_JOBS if room.parked else 0
        called = called and _goes_on(ids, limit, parked)
    found = (yield from taken(words, ids)) if ids else []
    claims = fairness.in_order(Claimed(found), lanes, ids)
    if not _goes_on(ids, limit, parked):
        woken += tuple(Wake(lane.queue, lane.priority, BEFORE_ALL_JOBS) for lane in served)
    claims.woken, claims.again = woken, again
    return claims


def _next(
    asked: _Asked, ahead: deque[Lane], thin: bool, wanted: int
) -> Query[tuple[dict[int, limits.Asked], str, bool]]:
    """Return due jobs, locked, of the next lane, or of the next ones where lanes are `thin`.

    With the lane if it is one, and whether those after it may be thin. Lanes that may have no more
    are removed.
    """
    if asked.words.locks and thin:
        found = yield from _in_few(asked, ahead, MAX_LANES_PER_LOOK, wanted)
        if found or not ahead:
            free = yield from _hold(asked, found)
            return (yield from limits.asking(asked.words, free)), "", True
    lane = ahead[0]
    due, there = yield from _some(asked, lane, wanted)
    if not there:
        ahead.popleft()
    return due, lane.queue, len(due) < FEW


def _goes_on(ids: Sequence[int], limit: int, parked: int) -> bool:
    """Return whether a claim that has these jobs, and has parked so many, looks for more."""
    most = MAX_PARKED_BESIDE if ids else MAX_PARKED_PER_CLAIM
    return len(ids) < limit and parked < most


def once_more(woken: tuple[Wake, ...] = ()) -> Claimed:
    """Return no claims, and that another transaction is to claim."""
    claims = Claimed()
    claims.again, claims.woken = True, woken
    return claims


def some(
    words: Words, turns: fairness.Turns, lane: Lane, limit: int, moment: int
) -> Query[dict[int, str]]:
    """Return the first due jobs of a lane, locked, each with the value whose turn it takes."""
    due, _ = yield from _some(_Asked(words, turns, (), moment), lane, limit)
    return {id: job.fairness for id, job in due.items()}


def _some(asked: _Asked, lane: Lane, limit: int) -> Query[tuple[dict[int, limits.Asked], bool]]:
    """Return the first due jobs of a lane, locked, and whether there may be more."""
    words = asked.words
    if is_fair(lane.queue):
        found = yield from asked.fair(lane.queue, limit)
        due = (lane.queue, asked.moment)
        return (yield from limits.asking(words, found, due)), len(found) >= limit
    if words.locks:
        jobs = yield from _due_by_id(asked, lane, limit)
    else:
        found, _ = yield from _due(asked, lane, limit)
        jobs = yield from limits.asking(words, found)
    return jobs, len(jobs) >= limit


def _due(asked: _Asked, lane: Lane, limit: int) -> Query[tuple[dict[int, str], bool]]:
    """Return the first due jobs of a lane, and whether there are limits that may concern them.

    Each with the value whose turn it takes.
    """
    words, moment = asked.words, asked.moment
    if is_fair(lane.queue):
        found = yield from asked.fair(lane.queue, limit)
        free = yield from words.hold_jobs([*found], free=True, due=(lane.queue, moment))
        limited = words.clock is None and (yield from limits.exist())
        return {id: value for id, value in found.items() if id in free}, limited
    since, place = words.since(to_micros_or_before(lane.run_at), lane.id)
    unwanted, values = fairness.but(words, asked.without)
    sql = _DUE.format(words.by_lane, since, unwanted, words.hold_free)
    rows = yield Execute(sql, (lane.queue, lane.priority, *place, moment, *values, limit))
    return {row[0]: "" for row in rows}, bool(rows) and bool(rows[0][1])


def _due_by_id(asked: _Asked, lane: Lane, limit: int) -> Query[dict[int, limits.Asked]]:
    """Return the first due jobs of a lane that nobody else has, locked by their ids.

    By the lane's index its entries would be locked, too, also of jobs that are passed over: a
    transaction that has such a job, and changes it, would wait for a claim that waits for counters.
    """
    words = asked.words
    unwanted, values = fairness.but(words, asked.without)
    jobs = dict[int, limits.Asked]()
    run_at, last = to_micros_or_before(lane.run_at), lane.id
    while (wanted := limit - len(jobs)) > 0:
        since, place = words.since(run_at, last)
        sql = _LOOK.format(words.by_lane, since, unwanted)
        which = (lane.queue, lane.priority, *place, asked.moment)
        rows = yield Execute(sql, (*which, *values, wanted))
        found = [row[0] for row in rows]
        jobs |= yield from limits.asking(words, found, (lane.queue, asked.moment))
        if len(rows) < wanted:
            break
        run_at, last = rows[-1][1], rows[-1][0] + 1
    return jobs


def require(worker: int) -> Query[None]:
    """Raise WorkerGone if the worker was considered gone: nobody would rescue its jobs."""
    _refuse_gone(worker, (yield Execute("SELECT 1 FROM mutirao_worker WHERE id = ?", (worker,))))


def _refuse_gone(worker: int, is_there: object) -> None:
    if not is_there:
        raise WorkerGone(f"worker {worker} is not registered (any more)")


def take(words: Words, worker: int, ids: Sequence[int], moment: int) -> Query[None]:
    which, values = words.among("id", ids)
    yield Execute(_TAKE.format(words.by_key) + which, (worker, moment, *values), answers=False)


def taken(words: Words, ids: Sequence[int]) -> Query[list[Claim]]:
    """Return jobs that were taken; no code for them follows."""
    which, values = words.among("l.id", ids)
    rows = yield Execute(_TAKEN + which, values, commits=True)
    return [_to_claim(row) for row in rows]


def _to_claim(row: Row) -> Claim:
    claim = (FairClaim if is_fair(row[_QUEUE]) else Claim)._make(row)
    return claim._replace(
        queue=queue_of(claim.queue),
        run_at=from_micros(claim.run_at),
        enqueued_at=from_micros(claim.enqueued_at),
        cancel=bool(claim.cancel),
    )
