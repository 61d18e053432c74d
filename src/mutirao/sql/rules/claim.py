"""Claims: read the lanes, and take due jobs for one worker."""

from collections.abc import Collection, Sequence
from datetime import datetime

from mutirao.errors import WorkerGone
from mutirao.model.fairness import is_fair, once, queue_of
from mutirao.model.job import Claim, FairClaim, Lane, LaneHead, Wake
from mutirao.model.limits import Claimed, CounterName
from mutirao.model.moments import BEFORE_ALL_JOBS
from mutirao.sql.drivers.steps import Asking, Execute, Row
from mutirao.sql.rules import fairness, limits
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.instant import MICROS_PER_SECOND, from_micros, to_micros_or_before

LOOK_AHEAD_JOBS = 500  # jobs that are looked at together, once some were found that cannot run
MAX_PARKED_PER_CLAIM = 10_000  # in one transaction, which keeps other writers waiting

# In two steps, because `(queue, priority) > (?, ?)` begins at the first equal row, on SQLite, and
# would walk the whole lane.
_NEXT_LANE = """
SELECT * FROM (
    SELECT queue, priority, run_at, id FROM mutirao_live {0}
    WHERE worker IS NULL AND queue = ? AND priority > ?
    ORDER BY priority, run_at, id LIMIT 1
) AS same_queue
UNION ALL
SELECT * FROM (
    SELECT queue, priority, run_at, id FROM mutirao_live {0}
    WHERE worker IS NULL AND queue > ?
    ORDER BY queue, priority, run_at, id LIMIT 1
) AS next_queue
ORDER BY queue, priority LIMIT 1
"""
# Whether there are limits is told with the jobs they may concern, not asked.
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
_TAKE = """
UPDATE mutirao_live {} SET worker = ?, run = run % 2147483647 + 1, claimed_at = ?,
    attempt = CASE WHEN attempt < 2147483646 THEN attempt + 1 ELSE 2147483647 END
WHERE """
_OF_LIVE = ("id", "run", "attempt", "queue", "run_at", "cancel", "lost", "cut_off")
_CLAIM = ", ".join(f"{'l' if name in _OF_LIVE else 'j'}.`{name}`" for name in Claim._fields)
_TAKEN = f"""
SELECT {_CLAIM} FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
WHERE """
_QUEUE = Claim._fields.index("queue")


def lanes(
    words: Words, queues: Collection[str] | None, now: datetime | None
) -> Asking[list[LaneHead]]:
    """Read the heads of all lanes, hopping from one to the next."""
    heads, at = list[LaneHead](), ("", -1 << 63, "")
    moment = yield from words.moment(now)
    sql = _NEXT_LANE.format(words.by_lane)
    while rows := (yield Execute(sql, at)):
        [(queue, priority, run_at, id)] = rows
        at = (queue, priority, queue)
        fit = isinstance(queue, str) and type(priority) is type(run_at) is int
        if fit and (queues is None or queue_of(queue) in queues):
            lane = Lane(queue, priority, from_micros(run_at), id)
            heads.append(LaneHead(lane, (run_at - moment) / MICROS_PER_SECOND))
    return sorted(heads, key=lambda head: (head.lane.priority, head.lane.queue))


def claim(
    words: Words,
    worker: int,
    lanes: Sequence[Lane],
    limit: int,
    without: Collection[str],
    now: datetime | None,
) -> Asking[list[Claim]]:
    """Take due jobs."""
    moment = yield from words.moment(now)
    yield from words.keep_limits()
    yield from require(worker)
    if words.locks and (yield from limits.exist()):
        return (yield from _claim_within(words, worker, lanes, limit, without, moment))
    ids = list[int]()
    for lane in once(lanes):
        if len(ids) >= limit:
            break
        due, limited = yield from _due(words, lane, limit - len(ids), without, moment)
        if limited:
            return (yield from _claim_within(words, worker, lanes, limit, without, moment))
        ids += due
        yield from fairness.note(words, lane.queue, due)
    if not ids:
        return []
    yield from take(words, worker, ids, moment)
    return fairness.in_order((yield from taken(words, ids)), lanes, ids)


def _claim_within(
    words: Words,
    worker: int,
    lanes: Sequence[Lane],
    limit: int,
    without: Collection[str],
    moment: int,
) -> Asking[Claimed]:
    """Take due jobs that the limits have room for; park the others that are met.

    Where rows are locked, a transaction locks counters once, in order: jobs that others count are
    left for the next.
    """
    rules = yield from limits.rules()
    stopped = {rule.queue for rule in rules if rule.stops_a_queue}
    served = [
        lane._replace(run_at=BEFORE_ALL_JOBS, id=0)
        for lane in once(lanes)
        if queue_of(lane.queue) not in stopped
    ]
    if (yield from limits.pace(words, moment)) and words.locks:
        return once_more(Claimed())
    held: set[CounterName] | None = set() if words.locks else None
    ids, parked, called, again = list[int](), 0, True, False
    while called and not again:
        called, look = False, 0
        for lane in served:
            while len(ids) < limit and parked < MAX_PARKED_PER_CLAIM and not again:
                wanted = limit - len(ids)
                due = yield from some(words, lane, max(look, wanted), without, moment)
                if not due:
                    break
                room = yield from limits.let_in(words, rules, due, wanted, moment, held)
                if room is None:
                    again = True
                    break
                fit, unfit, more = room
                yield from take(words, worker, fit, moment)
                yield from fairness.note(words, lane.queue, fit)
                ids, parked, called = ids + fit, parked + unfit, called or more
                look = LOOK_AHEAD_JOBS if unfit else 0
        called = called and len(ids) < limit and parked < MAX_PARKED_PER_CLAIM
    claims = fairness.in_order(Claimed((yield from taken(words, ids))), lanes, ids)
    if len(ids) >= limit or parked >= MAX_PARKED_PER_CLAIM:
        claims.woken = tuple(Wake(lane.queue, lane.priority, BEFORE_ALL_JOBS) for lane in served)
    return once_more(claims) if again else claims


def once_more(claims: Claimed) -> Claimed:
    """Say that another transaction is to claim what is left."""
    claims.again = True
    return claims


def some(
    words: Words, lane: Lane, limit: int, without: Collection[str], moment: int
) -> Asking[list[int]]:
    """Return the first due jobs of a lane, locked."""
    if words.locks:
        return (yield from _due_by_id(words, lane, limit, without, moment))
    due, _ = yield from _due(words, lane, limit, without, moment)
    return due


def _due(
    words: Words, lane: Lane, limit: int, without: Collection[str], moment: int
) -> Asking[tuple[list[int], bool]]:
    """Return the first due jobs of a lane, and whether there are limits that may concern them."""
    if is_fair(lane.queue):
        ids = yield from fairness.due(words, lane.queue, limit, without, moment)
        return ids, (yield from limits.exist())
    since, place = words.since(to_micros_or_before(lane.run_at), lane.id)
    unwanted, values = fairness.but(words, without)
    sql = _DUE.format(words.by_lane, since, unwanted, words.hold_free)
    rows = yield Execute(sql, (lane.queue, lane.priority, *place, moment, *values, limit))
    return [row[0] for row in rows], bool(rows) and bool(rows[0][1])


def _due_by_id(
    words: Words, lane: Lane, limit: int, without: Collection[str], moment: int
) -> Asking[list[int]]:
    """Return the first due jobs of a lane that nobody else has, locked by their ids.

    By the lane's index its entries would be locked, too, also of jobs that are passed over: whoever
    has such a job, and changes it, would wait for a claim that waits for counters.
    """
    if is_fair(lane.queue):
        return (yield from fairness.due(words, lane.queue, limit, without, moment))
    unwanted, values = fairness.but(words, without)
    ids, at = list[int](), (to_micros_or_before(lane.run_at), lane.id)
    while len(ids) < limit:
        since, place = words.since(*at)
        sql = _LOOK.format(words.by_lane, since, unwanted)
        rows = yield Execute(sql, (lane.queue, lane.priority, *place, moment, *values, limit))
        if not rows:
            break
        found = [row[0] for row in rows]
        free = yield from words.hold_jobs(found, free=True, due=(lane.queue, moment))
        ids += [id for id in found if id in free]
        at = (rows[-1][1], rows[-1][0] + 1)
    return ids[:limit]


def require(worker: int) -> Asking[None]:
    """Raise WorkerGone if the worker was considered gone: nobody would rescue its jobs."""
    if not (yield Execute("SELECT 1 FROM mutirao_worker WHERE id = ?", (worker,))):
        raise WorkerGone(f"worker {worker} is not registered (any more)")


def take(words: Words, worker: int, ids: Sequence[int], moment: int) -> Asking[None]:
    which, values = words.among("id", ids)
    yield Execute(_TAKE.format(words.by_key) + which, (worker, moment, *values), answers=False)


def taken(words: Words, ids: Sequence[int]) -> Asking[list[Claim]]:
    which, values = words.among("l.id", ids)
    rows = yield Execute(_TAKEN + which, values)
    return [_to_claim(row) for row in rows]


def _to_claim(row: Row) -> Claim:
    claim = (FairClaim if is_fair(row[_QUEUE]) else Claim)._make(row)
    return claim._replace(
        queue=queue_of(claim.queue),
        run_at=from_micros(claim.run_at),
        enqueued_at=from_micros(claim.enqueued_at),
        cancel=bool(claim.cancel),
    )
