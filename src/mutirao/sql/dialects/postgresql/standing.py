"""What workers do all day on PostgreSQL: binds the hot statements' values, reads their rows."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from mutirao.fair import is_fair, queue_of
from mutirao.job import Claim, FairClaim, Lane
from mutirao.outcome import SUCCEEDED, Settlement
from mutirao.sql.callers.steps import Asking, Execute, Row
from mutirao.sql.dialects.base import Standing, by_id, given_back, in_lane_order
from mutirao.sql.dialects.postgresql import limits, statements

_QUEUE = Claim._fields.index("queue")


class PostgresqlStanding(Standing):
    """One statement each, but for claims where limits have parked some jobs."""

    def claim(
        self,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        without: Collection[str],
        now: datetime | None,
    ) -> Asking[list[Claim]]:
        """Take due jobs."""
        if not lanes or limit < 1:
            return []
        fair = any(is_fair(lane.queue) for lane in lanes)
        sql = statements.CLAIM_IN_TURN if fair else statements.CLAIM
        ask = limits.Ask(sql, worker, lanes, limit, list(without) or None, now)
        rows = yield ask.request()
        if not fair and not limits.asks_again(rows):
            return in_lane_order([Claim._make(row) for row in rows], lanes)
        claimed = yield from limits.claim_on(ask, rows)
        if fair:
            claimed[:] = map(_in_turn, claimed)
            return claimed
        return in_lane_order(claimed, lanes)

    def finish(
        self,
        settlements: Sequence[Settlement],
        now: datetime | None,
        held: Sequence[int] = (),
        *,
        patient: bool = False,
    ) -> Asking[set[int]]:
        """Write final outcomes."""
        values = (*_ended(by_id(settlements)), now)
        sql = statements.FINISH[bool(held), patient]
        [row] = yield Execute(sql, (array(held), *values) if held else values)
        found, lanes = row[-2:]
        settled = {s.id for s in settlements} if found is None else set(found)
        return limits.called(settled, lanes)

    def resume(
        self, worker: int, settlements: Sequence[Settlement], now: datetime | None
    ) -> Asking[set[int]]:
        """Write outcomes after which the jobs wait again."""
        ordered = by_id(settlements)
        back = [given_back(s.outcome) for s in ordered]
        ats, afters = [s.outcome.at for s in ordered], [s.outcome.after for s in ordered]
        values = (worker, *_ended(ordered), back, ats, afters, now)
        rows = yield Execute(statements.RESUME, values)
        return limits.called({row[0] for row in rows}, rows[0][1] if rows else None)

    def release(self, jobs: Sequence[tuple[int, int]]) -> Asking[set[int]]:
        """Give back jobs that were never started."""
        ordered = sorted(jobs)
        ids, runs = array(id for id, _ in ordered), array(run for _, run in ordered)
        rows = yield Execute(statements.RELEASE, (ids, runs))
        return {row[0] for row in rows}


STANDING = PostgresqlStanding()


def array(numbers: Iterable[int]) -> str:
    """Return numbers as the text of an SQL array."""
    return f"{{{','.join(map(str, numbers))}}}"


def _in_turn(claim: Claim) -> Claim:
    if not is_fair(claim.queue):
        return claim
    return FairClaim._make((*claim[:_QUEUE], queue_of(claim.queue), *claim[_QUEUE + 1 :]))


def _ended(settlements: Sequence[Settlement]) -> Row:
    """Return the columns of `statements._ENDED`."""
    outcomes = [s.outcome for s in settlements]
    plain = all(outcome is SUCCEEDED for outcome in outcomes)
    return (
        array(s.id for s in settlements),
        array(s.run for s in settlements),
        None if plain else [str(o.kind) for o in outcomes],
        array(int(s.started_ago * 1e6) for s in settlements),
        array(int(s.finished_ago * 1e6) for s in settlements),
        None if plain else [o.error_type for o in outcomes],
        None if plain else [o.error for o in outcomes],
    )
