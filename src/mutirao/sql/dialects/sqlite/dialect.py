"""SQLite as a `Dialect`.

There is no `FOR UPDATE SKIP LOCKED` and no need of it: the transaction took the write lock when
it began, so what it reads nobody else changes. The database is in this process, so several small
statements cost less than one clever one.
"""

import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Insert, Table, and_, exists, literal, true
from sqlalchemy.dialects.sqlite import insert

from mutirao.errors import WorkerGone
from mutirao.fair import is_fair, once, queue_of
from mutirao.job import Claim, FairClaim, Lane, LaneHead, Wake
from mutirao.limit import BEGINNING, Claimed, Settled
from mutirao.outcome import Settlement
from mutirao.sql.dialects.base import Dialect, given_back
from mutirao.sql.dialects.sqlite import fair, history, limits
from mutirao.sql.instant import SECOND, Instant, from_micros, to_micros, to_micros_or_before
from mutirao.sql.tables import live

LAST_RUN = 2_147_483_647  # that fits other databases' columns; the next one is 1
LOOK = 500  # jobs that are looked at together, once some were found that cannot run
MOST_PARKED = 10_000  # in one transaction, which keeps other writers waiting

# In two steps, because SQLite begins `(queue, priority) > (?, ?)` at the first equal row and would
# walk the whole lane.
_NEXT_LANE = """
SELECT * FROM (
    SELECT queue, priority, run_at, id FROM mutirao_live
    WHERE worker IS NULL AND queue = ? AND priority > ?
    ORDER BY priority, run_at, id LIMIT 1
)
UNION ALL
SELECT * FROM (
    SELECT queue, priority, run_at, id FROM mutirao_live
    WHERE worker IS NULL AND queue > ?
    ORDER BY queue, priority, run_at, id LIMIT 1
)
ORDER BY queue, priority LIMIT 1
"""
# Whether there are limits is told with the jobs they may concern, not asked.
_DUE = """
SELECT id, EXISTS (SELECT 1 FROM mutirao_limit) FROM mutirao_live
WHERE worker IS NULL AND queue = ? AND priority = ? AND (run_at, id) >= (?, ?) AND run_at <= ?{}
ORDER BY run_at, id LIMIT ?
"""
_WITHOUT = """
AND NOT EXISTS (
    SELECT 1 FROM mutirao_job j WHERE j.id = mutirao_live.id
    AND j.task IN (SELECT value FROM json_each(?))
)"""
_TAKE = """
UPDATE mutirao_live SET worker = ?, run = run % 2147483647 + 1,
    attempt = min(attempt, 2147483646) + 1, claimed_at = ?
WHERE id IN (SELECT value FROM json_each(?))
"""
_TAKEN = """
SELECT l.id, l.run, l.attempt, j.task, j.args, l.queue, j.priority, l.run_at, j.enqueued_at,
       j.max_attempts, j.timeout, j.key, j.tags, j.metadata, j.traceparent, j.redrive_of,
       j.on_dead_of, l.cancel, l.lost, l.cut_off
FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
WHERE l.id IN (SELECT value FROM json_each(?))
"""
_WAIT = """
UPDATE mutirao_live SET worker = NULL, claimed_at = NULL, attempt = attempt - (:back > 0),
    run_at = :at,
    lost = CASE WHEN :back < 2 THEN 0 ELSE lost + (:back = 4) END,
    cut_off = CASE WHEN :back < 2 THEN 0 ELSE cut_off + (:back = 3) END
WHERE id = :id
"""
_GIVE_BACK = """
UPDATE mutirao_live SET worker = NULL, claimed_at = NULL, attempt = attempt - 1
WHERE id = ? AND run = ? AND claimed_at IS NOT NULL
"""
# A worker that was suspended may claim once more before it hears that it is gone: hence LEFT.
_EXPIRED = """
SELECT l.id, l.run, l.attempt, l.worker, l.claimed_at
FROM mutirao_live l INDEXED BY mutirao_live_running
LEFT JOIN mutirao_worker w ON w.id = l.worker
WHERE l.worker IS NOT NULL AND (w.id IS NULL OR w.expires_at < ?) ORDER BY l.id
"""
_GONE = """
SELECT EXISTS (SELECT 1 FROM mutirao_worker WHERE expires_at < ?) OR EXISTS (
    SELECT 1 FROM mutirao_live l INDEXED BY mutirao_live_running
    WHERE l.worker IS NOT NULL AND l.worker NOT IN (SELECT id FROM mutirao_worker)
) OR EXISTS (SELECT 1 FROM mutirao_counter)
"""


class SQLite(Dialect):
    """SQLite 3.35 and later, in a file."""

    name = "sqlite"
    standing = None
    tells_ends = False

    def moment(self, now: datetime | None, plus: float = 0.0) -> ColumnElement[datetime]:
        """Return `now` (None: this machine's clock) plus some seconds, as a value."""
        return literal((now or datetime.now(UTC)) + timedelta(seconds=plus), Instant)

    def held_by(self, worker: int) -> ColumnElement[bool]:
        """Return the condition that a worker holds the job: an index tells."""
        return live.c.worker == worker

    def to_cancel_by(self, worker: int) -> ColumnElement[bool]:
        """Return the condition that a worker is to cancel the job: it is among those it holds."""
        return and_(self.held_by(worker), live.c.cancel == true())

    def has_to_cancel(self, worker: int) -> ColumnElement[bool]:
        """Return whether there is such a job, as an expression."""
        return exists().where(self.to_cancel_by(worker))

    def insert_unless_exists(self, table: Table) -> Insert:
        """Return an INSERT that does nothing, and counts no row, where the key is taken."""
        return insert(table).on_conflict_do_nothing()

    def lanes(
        self, conn: Connection, queues: Collection[str] | None, now: datetime | None
    ) -> list[LaneHead]:
        """Read the heads of all lanes, hopping from one to the next."""
        heads, at, moment = [], ("", -1 << 63, ""), _micros(now)
        while (row := conn.exec_driver_sql(_NEXT_LANE, at).first()) is not None:
            queue, priority, run_at, id = row
            at = (queue, priority, queue)
            fit = isinstance(queue, str) and type(priority) is type(run_at) is int
            if fit and (queues is None or queue_of(queue) in queues):
                lane = Lane(queue, priority, from_micros(run_at), id)
                heads.append(LaneHead(lane, (run_at - moment) / SECOND))
        return sorted(heads, key=lambda head: (head.lane.priority, head.lane.queue))

    def claim(
        self,
        conn: Connection,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        without: Collection[str],
        now: datetime | None,
    ) -> list[Claim]:
        """Take due jobs."""
        _require(conn, worker)
        moment, ids = _micros(now), list[int]()
        for lane in once(lanes):
            if len(ids) >= limit:
                break
            due, limited = _due(conn, lane, limit - len(ids), without, moment)
            if limited:
                return self._claim_within(conn, worker, lanes, limit, without, moment)
            ids += due
            fair.note(conn, lane.queue, due)
        if not ids:
            return []
        _take(conn, worker, ids, moment)
        return fair.in_order(_taken(conn, ids), lanes, ids)

    def _claim_within(
        self,
        conn: Connection,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        without: Collection[str],
        moment: int,
    ) -> Claimed:
        """Take due jobs that the limits have room for; park the others that are met."""
        rules = limits.rules(conn)
        limits.pace(conn, moment)
        stopped = {rule.queue for rule in rules if rule.stops_a_queue}
        served = [
            lane._replace(run_at=BEGINNING, id=0)
            for lane in once(lanes)
            if queue_of(lane.queue) not in stopped
        ]
        ids, parked, called = list[int](), 0, True
        while called:
            called, look = False, 0
            for lane in served:
                while len(ids) < limit and parked < MOST_PARKED:
                    wanted = limit - len(ids)
                    due, _ = _due(conn, lane, max(look, wanted), without, moment)
                    if not due:
                        break
                    fit, unfit, more = limits.let_in(conn, rules, due, wanted, moment)
                    _take(conn, worker, fit, moment)
                    fair.note(conn, lane.queue, fit)
                    ids, parked, called = ids + fit, parked + unfit, called or more
                    look = LOOK if unfit else 0
            called = called and len(ids) < limit and parked < MOST_PARKED
        claims = fair.in_order(Claimed(_taken(conn, ids)), lanes, ids)
        if len(ids) >= limit or parked >= MOST_PARKED:
            claims.woken = tuple(Wake(lane.queue, lane.priority, BEGINNING) for lane in served)
        return claims

    def finish(
        self,
        conn: Connection,
        settlements: Sequence[Settlement],
        now: datetime | None,
        held: Sequence[int] = (),
        *,
        patient: bool = False,
    ) -> set[int]:
        """Write final outcomes."""
        ended = history.tell(conn, settlements, _micros(now))
        ids = [(s.id,) for s in settlements if s.id in ended]
        if ids:
            conn.exec_driver_sql("DELETE FROM mutirao_live WHERE id = ?", ids)
        return _counted_down(conn, ended, now)

    def hold(self, conn: Connection, jobs: Sequence[int]) -> None:
        """Do nothing: the transaction has the whole file."""

    def resume(
        self,
        conn: Connection,
        worker: int,
        settlements: Sequence[Settlement],
        now: datetime | None,
    ) -> set[int]:
        """Write outcomes after which the jobs wait again."""
        held, moment = history.tell(conn, settlements, _micros(now)), _micros(now)
        rows = [
            {
                "back": given_back(s.outcome),
                "at": moment if held[s.id].cancel else _run_at(s, moment),
                "id": s.id,
            }
            for s in settlements
            if s.id in held
        ]
        if rows:
            conn.exec_driver_sql(_WAIT, rows)
        return _counted_down(conn, held, now)

    def release(self, conn: Connection, jobs: Sequence[tuple[int, int]]) -> set[int]:
        """Give back jobs that were never started."""
        given = {
            job[0] for job in sorted(jobs) if conn.exec_driver_sql(_GIVE_BACK, job).rowcount == 1
        }
        self.let_go(conn, list(given), None)
        return given

    def someone_is_gone(self, conn: Connection, now: datetime | None) -> bool:
        """Tell whether `rescue` has anything to do; a reader keeps no writer waiting."""
        return bool(conn.exec_driver_sql(_GONE, (_micros(now),)).scalar())

    def lose(
        self, conn: Connection, jobs: Sequence[tuple[int, int]], now: datetime | None
    ) -> set[int]:
        """Write down that runs were lost, and let those jobs wait again."""
        held = json.dumps([id for id, _ in jobs])
        rows = [
            row for row in conn.exec_driver_sql(history.HELD, (held,)) if (row.id, row.run) in jobs
        ]
        if rows:
            history.lose(conn, rows, _micros(now))
            self.let_go(conn, [row.id for row in rows], now)
        return {row.id for row in rows}

    def rescue(
        self, conn: Connection, orphans: bool, now: datetime | None
    ) -> list[tuple[int, int]]:
        """Give back the jobs of expired workers and remove those workers; orphans cost nothing."""
        moment = _micros(now)
        lost = conn.exec_driver_sql(_EXPIRED, (moment,)).all()
        if lost:
            history.lose(conn, lost, moment)
        conn.exec_driver_sql("DELETE FROM mutirao_worker WHERE expires_at < ?", (moment,))
        self.mend_limits(conn, now)
        return [(row.id, row.run % LAST_RUN + 1) for row in lost]

    def wake(self, conn: Connection) -> None:
        """Nothing to say: whoever waits sees that the database file has changed."""

    def tell_ended(self, conn: Connection, jobs: Sequence[int]) -> None:
        """Nothing to say: whoever waits sees that the database file has changed."""

    def let_go(self, conn: Connection, jobs: Sequence[int], now: datetime | None) -> None:
        """Give back what jobs hold that do not run any more."""
        if jobs and limits.in_use(conn):
            limits.let_go(conn, jobs, _micros(now))

    def open_limit(self, conn: Connection, name: str, now: datetime | None) -> None:
        """Count what a new limit covers and runs already."""
        rule = next(rule for rule in limits.rules(conn) if rule.name == name)
        limits.count_running(conn, rule, _micros(now))

    def close_limit(self, conn: Connection, name: str, now: datetime | None) -> None:
        """Forget what a limit counted, and let go what waited for it."""
        limits.forget(conn, name)

    def mend_limits(self, conn: Connection, now: datetime | None) -> None:
        """Call whoever there is room for."""
        if limits.in_use(conn):
            limits.mend(conn, _micros(now))

    def refresh_statistics(self, conn: Connection) -> None:
        """Let SQLite decide which tables need to be analysed again."""
        conn.exec_driver_sql("PRAGMA optimize")


def _micros(now: datetime | None) -> int:
    return to_micros(now or datetime.now(UTC))


def _due(
    conn: Connection, lane: Lane, limit: int, without: Collection[str], moment: int
) -> tuple[list[int], bool]:
    """Return the first due jobs of a lane, and whether there are limits that may concern them."""
    if is_fair(lane.queue):
        return fair.due(conn, lane.queue, limit, without, moment), limits.exist(conn)
    values = [lane.queue, lane.priority, to_micros_or_before(lane.run_at), lane.id, moment]
    if without:
        values.append(json.dumps(list(without)))
    statement = _DUE.format(_WITHOUT if without else "")
    rows = conn.exec_driver_sql(statement, (*values, limit)).all()
    return [row[0] for row in rows], bool(rows) and bool(rows[0][1])


def _require(conn: Connection, worker: int) -> None:
    """Raise WorkerGone for one that was taken for gone: nobody would rescue what it takes."""
    if not conn.exec_driver_sql("SELECT 1 FROM mutirao_worker WHERE id = ?", (worker,)).first():
        raise WorkerGone(f"worker {worker} is not registered (any more)")


def _take(conn: Connection, worker: int, ids: Sequence[int], moment: int) -> None:
    conn.exec_driver_sql(_TAKE, (worker, moment, json.dumps(ids)))


def _taken(conn: Connection, ids: Sequence[int]) -> list[Claim]:
    return [_to_claim(row) for row in conn.exec_driver_sql(_TAKEN, (json.dumps(ids),))]


def _to_claim(row: Any) -> Claim:
    claim = (FairClaim if is_fair(row.queue) else Claim)._make(row)
    return claim._replace(
        queue=queue_of(row.queue),
        run_at=from_micros(row.run_at),
        enqueued_at=from_micros(row.enqueued_at),
        cancel=bool(claim.cancel),
    )


def _counted_down(conn: Connection, ended: dict[int, Any], now: datetime | None) -> set[int]:
    """Give back what these held whose runs ended; tell where others came back in their place."""
    if not any(row.counted for row in ended.values()):
        return set(ended)
    settled = Settled(ended)
    settled.woken = limits.let_go(conn, ended, _micros(now))
    return settled


def _run_at(s: Settlement, moment: int) -> int:
    if s.outcome.at is not None:
        return to_micros(s.outcome.at)
    return moment + round((s.outcome.after or 0) * SECOND)
