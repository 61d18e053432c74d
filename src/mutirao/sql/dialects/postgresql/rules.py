"""The rules on PostgreSQL, which are functions in the database: bind values, read rows.

In steps, which go past SQLAlchemy where connections are ours: it takes 0.4 ms for a claim of a
worker that was idle, a third of the time from the commit of a job to its handler.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from mutirao.model.brokers.doorbell import Doorbell
from mutirao.model.jobs.job import Claim, FairClaim, Lane, LaneHead
from mutirao.model.jobs.outcome import SUCCEEDED, Settlement
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import KeyName
from mutirao.model.limits.fairness import is_fair, lanes_of, queue_of
from mutirao.model.limits.limits import PROVEN_ENOUGH
from mutirao.model.webhooks.webhook_names import USUAL_LIMIT_NAME
from mutirao.sql.dialects.postgresql import limits, statements, supersede
from mutirao.sql.dialects.postgresql.limits import ClaimRequest, asks_again
from mutirao.sql.drivers.failures import is_stale
from mutirao.sql.drivers.steps import Execute, Query, Row
from mutirao.sql.rules import webhooks
from mutirao.sql.rules.base import Rules, by_id, given_back, in_lane_order

if TYPE_CHECKING:
    from mutirao.model.webhooks.webhook_attempts import WebhookAttempt

_QUEUE = Claim._fields.index("queue")


class PostgresqlRules(Rules):
    """One statement each, but for claims where limits have parked some jobs."""

    in_transaction = False

    def lanes(self, queues: Collection[str] | None, now: datetime | None) -> Query[list[LaneHead]]:
        """Read the heads of all lanes."""
        wanted = None if queues is None else lanes_of(queues)
        rows = yield Execute(statements.LANES, (wanted, now))
        return [LaneHead(Lane(*row[:4]), row[4]) for row in rows]

    def claim(
        self,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        without: Collection[str],
        now: datetime | None,
    ) -> Query[list[Claim]]:
        """Take due jobs."""
        if not lanes or limit < 1:
            return []
        fair = any(is_fair(lane.queue) for lane in lanes)
        sql = statements.CLAIM_BY_FAIRNESS if fair else statements.CLAIM
        request = ClaimRequest(sql, worker, lanes, limit, list(without) or None, now)
        rows = yield request.statement()
        if not fair and not asks_again(rows):
            return in_lane_order([Claim._make(row) for row in rows], lanes)
        claimed = yield from limits.claim_on(request, rows)
        if fair:
            claimed[:] = map(_to_fair, claimed)
            return claimed
        return in_lane_order(claimed, lanes)

    def ring(
        self, lanes: Sequence[Lane], limit: int, now: datetime | None
    ) -> Query[list[Doorbell]]:
        """Ring the doorbells of due jobs."""
        if not lanes or limit < 1:
            return []
        columns = map(list, zip(*lanes, strict=True))
        rows = yield Execute(statements.RING, (*columns, limit, now))
        return [Doorbell._make(row) for row in rows]

    def answer(
        self, worker: int, rung: Sequence[tuple[int, int]], now: datetime | None
    ) -> Query[list[Claim]]:
        """Take the jobs of doorbells."""
        ids, runs = array(id for id, _ in rung), array(run for _, run in rung)
        rows = yield Execute(statements.ANSWER, (worker, ids, runs, now))
        return [Claim._make(row) for row in rows]

    def finish(
        self,
        settlements: Sequence[Settlement],
        now: datetime | None,
        held: Sequence[int] = (),
        *,
        patient: bool = False,
    ) -> Query[set[int]]:
        """Write final outcomes."""
        values = (*_ended(by_id(settlements)), now)
        sql = statements.FINISH[bool(held), patient]
        [row] = yield Execute(sql, (array(held), *values) if held else values)
        found, lanes = row[-2:]
        settled = {s.id for s in settlements} if found is None else set(found)
        return limits.called(settled, lanes)

    def delivered(
        self,
        attempts: Sequence["WebhookAttempt"],
        done: Sequence[Settlement],
        now: datetime | None,
    ) -> Query[set[int] | None]:
        """Write attempts at webhooks that all went well, and complete jobs."""
        rows = [webhooks.values_of(each) for each in attempts]
        counted = (USUAL_LIMIT_NAME, PROVEN_ENOUGH, now)
        values = (msgspec.json.encode(rows).decode(), *_ended(by_id(done)), *counted)
        [(written, found, lanes)] = yield Execute(statements.DELIVERED, values)
        if not written:
            return None
        return limits.called({s.id for s in done} if found is None else set(found), lanes)

    def complete(self, settlement: Settlement) -> Query[set[int]]:
        """Write that a job succeeded, in the statement that the COMMIT travels with."""
        values = (settlement.id, settlement.run, int(settlement.started_ago * 1e6))
        try:
            [(lanes,)] = yield Execute(statements.COMPLETE, values, commits=True)
        except Exception as error:
            if is_stale(error):
                return set()
            raise
        return limits.called({settlement.id}, lanes)

    def resume(
        self, worker: int, settlements: Sequence[Settlement], now: datetime | None
    ) -> Query[set[int]]:
        """Write outcomes after which the jobs wait again."""
        ordered = by_id(settlements)
        back = [given_back(s.outcome) for s in ordered]
        ats, afters = [s.outcome.at for s in ordered], [s.outcome.after for s in ordered]
        values = (worker, *_ended(ordered), back, ats, afters, now)
        rows = yield Execute(statements.RESUME, values)
        return limits.called({row[0] for row in rows}, rows[0][1] if rows else None)

    def release(self, jobs: Sequence[tuple[int, int]]) -> Query[set[int]]:
        """Give back jobs that were never started."""
        ordered = sorted(jobs)
        ids, runs = array(id for id, _ in ordered), array(run for _, run in ordered)
        rows = yield Execute(statements.RELEASE, (ids, runs))
        return {id for _, id in rows}

    def lose(self, jobs: Sequence[tuple[int, int]], now: datetime | None) -> Query[set[int]]:
        """Write down that runs were lost, and let those jobs wait again."""
        ids, runs = array(id for id, _ in jobs), array(run for _, run in jobs)
        rows = yield Execute(statements.LOSE, (ids, runs, now))
        return {id for _, id in rows}

    def rescue(self, orphans: bool, now: datetime | None) -> Query[list[tuple[int, int]]]:
        """Give back the jobs of expired workers and remove those workers."""
        rows = yield Execute(statements.RESCUE, (orphans, now))
        return [(row[0], row[1]) for row in rows]

    def wake(self) -> Query[None]:
        """Wake idle workers that listen, when this transaction commits."""
        yield Execute(statements.WAKE)

    def wake_all(self) -> Query[None]:
        """Wake all workers, also those that do not listen: people change jobs seldom."""
        yield Execute(statements.WAKE_ALL)

    def notify_ended(self, jobs: Sequence[int]) -> Query[None]:
        """Notify callers that wait for one of them, if there are any."""
        yield Execute(statements.NOTIFY_ENDED, (array(jobs),))

    def hold(self, jobs: Sequence[int]) -> Query[None]:
        """Lock what the end of these jobs will touch, but for counters of limits."""
        yield Execute(statements.HOLD, (array(jobs),))

    def let_go(self, jobs: Sequence[int], now: datetime | None) -> Query[None]:
        """Give back what jobs hold that do not run any more."""
        yield Execute(statements.LET_GO, (array(jobs), now))

    def judge(self, name: KeyName, task: str, rule: Supersede, now: datetime | None) -> Query[None]:
        """Apply a supersede rule to the jobs of a task and a key that SQL enqueued."""
        return supersede.judge(name, task, rule)

    def roll_up(self, keep: float | None, now: datetime | None) -> Query[bool]:
        """Call the function: a single statement, so that no paused machine holds it up."""
        [(more,)] = yield Execute(statements.ROLL_UP, (keep, now))
        return bool(more)

    def count_backlog(self, most: int, now: datetime | None) -> Query[None]:
        """Call the function."""
        yield Execute(statements.COUNT_BACKLOG, (most, now))

    def open_limit(self, name: str, now: datetime | None) -> Query[bool]:
        """Count the running jobs that a new limit covers; a worker that has one is waited for."""
        yield Execute(statements.OPEN_LIMIT, (name, now))
        return False

    def close_limit(self, name: str, now: datetime | None) -> Query[bool]:
        """Delete what a limit counted, and release the jobs it blocked; all are waited for."""
        yield Execute(statements.CLOSE_LIMIT, (name, now))
        return False

    def mend_limits(self, now: datetime | None) -> Query[None]:
        """Release blocked jobs for which there is room."""
        yield Execute(statements.MEND, (now,))


RULES = PostgresqlRules()


def array(numbers: Iterable[int]) -> str:
    """Return numbers as the text of an SQL array."""
    return f"{{{','.join(map(str, numbers))}}}"


def _to_fair(claim: Claim) -> Claim:
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
