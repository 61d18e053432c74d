"""PostgreSQL as a `Dialect`: binds the values of the hot statements and reads their rows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Insert, Interval, Table, func, literal
from sqlalchemy.dialects.postgresql import TIMESTAMP, insert

from mutirao.fair import is_fair, lanes_of, queue_of
from mutirao.job import SUCCEEDED, UNCOUNTED_OUTCOMES, Claim, FairClaim, Lane, LaneHead, Settlement
from mutirao.sql.dialects.base import Dialect, by_id, in_lane_order
from mutirao.sql.dialects.postgresql import limits, statements

_QUEUE = Claim._fields.index("queue")


class PostgreSQL(Dialect):
    """PostgreSQL 14 and later."""

    name = "postgresql"
    one_statement = True
    tells_ends = True

    def moment(self, now: datetime | None, plus: float = 0.0) -> ColumnElement[datetime]:
        """Return `now` (None: the server's clock) plus some seconds, as an expression."""
        timestamp = TIMESTAMP(timezone=True)
        start = func.statement_timestamp() if now is None else literal(now, timestamp)
        return (start + literal(timedelta(seconds=plus), Interval)).cast(timestamp)

    def insert_unless_exists(self, table: Table) -> Insert:
        """Return an INSERT that does nothing, and counts no row, where the key is taken."""
        return insert(table).on_conflict_do_nothing()

    def lanes(
        self, conn: Connection, queues: Collection[str] | None, now: datetime | None
    ) -> list[LaneHead]:
        """Read the heads of all lanes."""
        wanted = None if queues is None else lanes_of(queues)
        rows = conn.execute(statements.LANES, {"queues": wanted, "now": now})
        return [LaneHead(Lane(*row[:4]), row[4]) for row in rows]

    def claim(
        self,
        conn: Connection,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        without: Collection[str],
        now: datetime | None,
    ) -> list[Claim]:
        """Take due jobs. A single statement."""
        if not lanes or limit < 1:
            return []
        values = {"worker": worker, "limit": limit, "now": now, "without": list(without) or None}
        if any(is_fair(lane.queue) for lane in lanes):
            rows = conn.execute(statements.CLAIM_IN_TURN, values | limits.columns(lanes)).all()
            claimed = limits.claim_on(conn, values, lanes, rows, statements.CLAIM_IN_TURN)
            claimed[:] = map(_in_turn, claimed)
            return claimed
        rows = conn.execute(statements.CLAIM, values | limits.columns(lanes)).all()
        if limits.asks_again(rows):
            return in_lane_order(limits.claim_on(conn, values, lanes, rows), lanes)
        return in_lane_order([Claim._make(row) for row in rows], lanes)

    def finish(
        self,
        conn: Connection,
        settlements: Sequence[Settlement],
        now: datetime | None,
        beside: Sequence[Settlement] = (),
    ) -> set[int]:
        """Write final outcomes."""
        values = {**_columns(by_id(settlements)), "now": now}
        if beside:
            values["all_ids"] = _array(s.id for s in by_id([*settlements, *beside]))
        row = conn.execute(statements.FINISH_SOME if beside else statements.FINISH, values).one()
        found, lanes = row[-2:]
        settled = {s.id for s in settlements} if found is None else set(found)
        return limits.called(settled, lanes)

    def resume(
        self,
        conn: Connection,
        worker: int,
        settlements: Sequence[Settlement],
        now: datetime | None,
    ) -> set[int]:
        """Write outcomes after which the jobs wait again."""
        ordered = by_id(settlements)
        values = _columns(ordered) | {
            "now": now,
            "worker": worker,
            "back": [int(s.outcome.kind in UNCOUNTED_OUTCOMES) for s in ordered],
            "ats": [s.outcome.at for s in ordered],
            "afters": [s.outcome.after for s in ordered],
        }
        rows = conn.execute(statements.RESUME, values).all()
        return limits.called({row[0] for row in rows}, rows[0][1] if rows else None)

    def release(self, conn: Connection, jobs: Sequence[tuple[int, int]]) -> set[int]:
        """Give back jobs that were never started."""
        ordered = sorted(jobs)
        values = {
            "ids": _array(id for id, _ in ordered),
            "runs": _array(run for _, run in ordered),
        }
        return _ids(conn, statements.RELEASE, values)

    def rescue(
        self, conn: Connection, orphans: bool, now: datetime | None
    ) -> list[tuple[int, int]]:
        """Give back the jobs of expired workers and remove those workers."""
        rows = conn.execute(statements.RESCUE, {"orphans": orphans, "now": now})
        return [(row[0], row[1]) for row in rows]

    def wake(self, conn: Connection) -> None:
        """Wake idle workers that listen, when this transaction commits."""
        conn.execute(statements.WAKE)

    def tell_ended(self, conn: Connection, jobs: Sequence[int]) -> None:
        """Notify, if somebody asked for one of them."""
        conn.execute(statements.TELL_ENDED, {"jobs": _array(jobs)})

    def let_go(self, conn: Connection, jobs: Sequence[int], now: datetime | None) -> None:
        """Give back what jobs hold that do not run any more."""
        conn.execute(statements.LET_GO, {"ids": _array(jobs), "now": now})

    def open_limit(self, conn: Connection, name: str, now: datetime | None) -> None:
        """Count what a new limit covers and runs already."""
        conn.execute(statements.OPEN_LIMIT, {"name": name, "now": now})

    def close_limit(self, conn: Connection, name: str, now: datetime | None) -> None:
        """Forget what a limit counted, and let go what waited for it."""
        conn.execute(statements.CLOSE_LIMIT, {"name": name, "now": now})

    def mend_limits(self, conn: Connection, now: datetime | None) -> None:
        """Call whoever there is room for."""
        conn.execute(statements.MEND, {"now": now})

    def refresh_statistics(self, conn: Connection) -> None:
        """Analyse the tables whose size changes with the load."""
        for table in ("mutirao_job", "mutirao_live", "mutirao_attempt"):
            conn.exec_driver_sql(f"ANALYZE {table}")


def _in_turn(claim: Claim) -> Claim:
    if not is_fair(claim.queue):
        return claim
    return FairClaim._make((*claim[:_QUEUE], queue_of(claim.queue), *claim[_QUEUE + 1 :]))


def _columns(settlements: Sequence[Settlement]) -> dict[str, Any]:
    outcomes = [s.outcome for s in settlements]
    plain = all(outcome is SUCCEEDED for outcome in outcomes)
    return {
        "ids": _array(s.id for s in settlements),
        "runs": _array(s.run for s in settlements),
        "started": _array(int(s.started_ago * 1e6) for s in settlements),
        "finished": _array(int(s.finished_ago * 1e6) for s in settlements),
        "outcomes": None if plain else [str(o.kind) for o in outcomes],
        "error_types": None if plain else [o.error_type for o in outcomes],
        "errors": None if plain else [o.error for o in outcomes],
    }


def _array(numbers: Iterable[int]) -> str:
    """Return numbers as the text of an SQL array."""
    return f"{{{','.join(map(str, numbers))}}}"


def _ids(conn: Connection, statement: Any, values: Mapping[str, Any]) -> set[int]:
    return set(conn.execute(statement, values).scalars().all())
