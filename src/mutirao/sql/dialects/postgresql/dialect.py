"""PostgreSQL as a `Dialect`."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Insert,
    Interval,
    Table,
    and_,
    cast,
    false,
    func,
    literal,
    select,
)
from sqlalchemy.dialects.postgresql import TIMESTAMP, insert

from mutirao.fair import lanes_of
from mutirao.job import Claim, Lane, LaneHead
from mutirao.outcome import Settlement
from mutirao.sql.callers import kinds
from mutirao.sql.callers.steps import drive
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.dialects.postgresql import statements
from mutirao.sql.dialects.postgresql.standing import STANDING, array
from mutirao.sql.tables import live


class PostgreSQL(Dialect):
    """PostgreSQL 14 and later."""

    name = "postgresql"
    standing = STANDING
    tells_ends = True

    def moment(self, now: datetime | None, plus: float = 0.0) -> ColumnElement[datetime]:
        """Return `now` (None: the server's clock) plus some seconds, as an expression."""
        timestamp = TIMESTAMP(timezone=True)
        start = func.statement_timestamp() if now is None else literal(now, timestamp)
        return (start + literal(timedelta(seconds=plus), Interval)).cast(timestamp)

    def held_by(self, worker: int) -> ColumnElement[bool]:
        """Return the condition that a worker holds the job; no index tells."""
        moment = literal(None, TIMESTAMP(timezone=True))
        held = func.mutirao_held(literal([worker], ARRAY(BigInteger)), false(), moment)
        return and_(_among(held), live.c.worker == worker)

    def to_cancel_by(self, worker: int) -> ColumnElement[bool]:
        """Return the condition that a worker is to cancel the job: few are, in an index of them."""
        return _among(func.mutirao_cancelled(worker))

    def has_to_cancel(self, worker: int) -> ColumnElement[bool]:
        """Return whether there is such a job, as an expression."""
        return func.pg_catalog.cardinality(func.mutirao_cancelled(worker)) > 0

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
        """Take due jobs."""
        return drive(STANDING.claim(worker, lanes, limit, without, now), kinds.caller(conn))

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
        steps = STANDING.finish(settlements, now, held, patient=patient)
        return drive(steps, kinds.caller(conn))

    def resume(
        self,
        conn: Connection,
        worker: int,
        settlements: Sequence[Settlement],
        now: datetime | None,
    ) -> set[int]:
        """Write outcomes after which the jobs wait again."""
        return drive(STANDING.resume(worker, settlements, now), kinds.caller(conn))

    def release(self, conn: Connection, jobs: Sequence[tuple[int, int]]) -> set[int]:
        """Give back jobs that were never started."""
        return drive(STANDING.release(jobs), kinds.caller(conn))

    def lose(
        self, conn: Connection, jobs: Sequence[tuple[int, int]], now: datetime | None
    ) -> set[int]:
        """Write down that runs were lost, and let those jobs wait again."""
        ids, runs = array(id for id, _ in jobs), array(run for _, run in jobs)
        return set(conn.scalars(statements.LOSE, {"ids": ids, "runs": runs, "now": now}))

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
        conn.execute(statements.TELL_ENDED, {"jobs": array(jobs)})

    def hold(self, conn: Connection, jobs: Sequence[int]) -> None:
        """Lock what the end of these jobs will touch, but for counters of limits."""
        conn.execute(statements.HOLD, {"jobs": array(jobs)})

    def let_go(self, conn: Connection, jobs: Sequence[int], now: datetime | None) -> None:
        """Give back what jobs hold that do not run any more."""
        conn.execute(statements.LET_GO, {"ids": array(jobs), "now": now})

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


def _among(ids: ColumnElement[Any]) -> ColumnElement[bool]:
    # Selected, or the planner calls the function itself, to know how many there are.
    return live.c.id == func.any(cast(select(ids).scalar_subquery(), ARRAY(BigInteger)))
