"""What workers and enqueueing programs do to the database, and by which indexes it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from mutirao.model.jobs.job import Claim, NewJob, NewWorker, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome, Settlement
from mutirao.model.limits.fairness import is_fair
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.kinds import through
from mutirao.sql.enqueue.intake import SqlIntake
from mutirao.sql.statements import job_admin, workers
from tests.integration.plans.filling import DUE

BATCH = 100
MANY = 400  # that are enqueued at once
DAY = timedelta(days=1).total_seconds()
BEGINNING = datetime(2001, 1, 1, tzinfo=UTC)

JOB, LIVE, ATTEMPT = "mutirao_job_pkey", "mutirao_live_pkey", "mutirao_attempt_pkey"
LANES, FAIR_LANE_PREFIX = "mutirao_live_lanes", "mutirao_live_fairness"
CANCELLED, RUNNING = "mutirao_live_cancelled", "mutirao_live_running"
OUTCOME = "mutirao_attempt_outcome"
HOLDS = {LANES, LIVE}  # who holds what is found by looking through what is due

Act = Callable[[], object]


class Case(NamedTuple):
    """Something to do, and the indexes by which it reads: exactly these, and nothing else.

    `prepare` makes what must be there before and returns the act that is looked at. `most`: how
    many rows it may read through one index. `pinned`: on PostgreSQL it is a function, whose plan
    is the same whatever the statistics say. `on_sqlite`: what it reads there, where that differs.
    """

    reads: set[str]
    prepare: Callable[[Dialect, Connection], Act]
    most: int = 3 * BATCH
    pinned: bool = False
    on_sqlite: set[str] | None = None


def claim(
    dialect: Dialect, conn: Connection, most: int = BATCH, without: Sequence[str] = ()
) -> tuple[int, list[Claim]]:
    """Claim as a worker that has just joined and looked at the lanes."""
    worker = join(dialect, conn)
    heads = through(conn, dialect.rules.lanes(None, None))
    lanes = [head.lane for head in heads if head.due_in <= 0]
    return worker, through(conn, dialect.rules.claim(worker, lanes, most, without, None))


def join(dialect: Dialect, conn: Connection) -> int:
    """Register a worker; return its id."""
    new = NewWorker(name="w", host="h", pid=1, queues=None, concurrency=20, version="0")
    return workers.register(conn, dialect, new, 60.0, None)


def _claim(without: Sequence[str] = ()) -> Callable[[Dialect, Connection], Act]:
    def prepare(dialect: Dialect, conn: Connection) -> Act:
        worker = join(dialect, conn)
        lanes = [head.lane for head in through(conn, dialect.rules.lanes(None, None))]
        return lambda: through(conn, dialect.rules.claim(worker, lanes, BATCH, without, None))

    return prepare


def _claim_in_turn(dialect: Dialect, conn: Connection) -> Act:
    some = [NewJob(task="fair", args=f'{{"by":{n % 150}}}', fair_by="by") for n in range(900)]
    SqlIntake(dialect.intake).enqueue(some, conn)
    worker = join(dialect, conn)
    heads = through(conn, dialect.rules.lanes(None, None))
    lanes = [head.lane for head in heads if is_fair(head.lane.queue)]

    def act() -> object:
        return through(conn, dialect.rules.claim(worker, lanes, BATCH, (), None))

    act()  # so that there is a last turn
    return act


def _lanes(queues: Sequence[str] | None) -> Callable[[Dialect, Connection], Act]:
    return lambda dialect, conn: lambda: through(conn, dialect.rules.lanes(queues, None))


def _finish(dialect: Dialect, conn: Connection) -> Act:
    _, claims = claim(dialect, conn)
    done = [Settlement(c.id, c.run, SUCCEEDED) for c in claims]
    return lambda: through(conn, dialect.rules.finish(done, None))


def _complete(dialect: Dialect, conn: Connection) -> Act:
    _, claims = claim(dialect, conn)
    done = Settlement(claims[0].id, claims[0].run, SUCCEEDED)
    return lambda: through(conn, dialect.rules.complete(done))


def _resume(dialect: Dialect, conn: Connection) -> Act:
    worker, claims = claim(dialect, conn)
    retried = Outcome(OutcomeKind.RETRIED, after=5.0, error_type="E", error="e")
    settlements = [Settlement(c.id, c.run, retried) for c in claims]
    return lambda: through(conn, dialect.rules.resume(worker, settlements, None))


def _release(dialect: Dialect, conn: Connection) -> Act:
    _, claims = claim(dialect, conn)
    return lambda: through(conn, dialect.rules.release([(c.id, c.run) for c in claims]))


def _lose(dialect: Dialect, conn: Connection) -> Act:
    _, claims = claim(dialect, conn)
    return lambda: through(conn, dialect.rules.lose([(c.id, c.run) for c in claims], None))


def _rescue(orphans: bool) -> Callable[[Dialect, Connection], Act]:
    def prepare(dialect: Dialect, conn: Connection) -> Act:
        claim(dialect, conn)
        later = datetime.now(UTC) + timedelta(seconds=90)
        return lambda: through(conn, dialect.rules.rescue(orphans, later))

    return prepare


def _held(dialect: Dialect, conn: Connection) -> Act:
    worker, _ = claim(dialect, conn)
    return lambda: workers.held(conn, dialect, worker)


def _beat(dialect: Dialect, conn: Connection) -> Act:
    worker, _ = claim(dialect, conn)
    return lambda: workers.beat(conn, dialect, worker, 60.0, 0, 0.0, "relay", None)


def _retire(dialect: Dialect, conn: Connection) -> Act:
    worker, _ = claim(dialect, conn)
    return lambda: workers.retire(conn, dialect, worker)


def _prune(outcome: OutcomeKind) -> Callable[[Dialect, Connection], Act]:
    def prepare(dialect: Dialect, conn: Connection) -> Act:
        return lambda: job_admin.prune(conn, outcome, dialect.moment(None, -DAY), BATCH)

    return prepare


def _enqueue(*jobs: NewJob) -> Callable[[Dialect, Connection], Act]:
    return lambda dialect, conn: lambda: SqlIntake(dialect.intake).enqueue(jobs, conn)


CASES = {
    "claim": Case({LANES, LIVE, JOB}, _claim(), pinned=True),
    "claim but some tasks": Case({LANES, LIVE, JOB}, _claim(["task 7", "task 8"]), pinned=True),
    # It meets those that it has claimed before.
    "claim in turn": Case({FAIR_LANE_PREFIX, LIVE, JOB}, _claim_in_turn, 4 * BATCH, pinned=True),
    "finish": Case({LIVE}, _finish, pinned=True),
    "complete": Case({LIVE}, _complete, 1, pinned=True),
    "resume": Case({LIVE}, _resume, pinned=True),
    "release": Case({LIVE}, _release, pinned=True),
    "lose": Case({LIVE}, _lose, pinned=True),
    "lanes": Case({LANES}, _lanes(None), pinned=True),
    "lanes of some queues": Case({LANES}, _lanes(["mail", "reports"]), pinned=True),
    "rescue": Case(HOLDS, _rescue(False), DUE, pinned=True, on_sqlite={RUNNING, LIVE}),
    "rescue orphans": Case(HOLDS, _rescue(True), DUE, pinned=True, on_sqlite={RUNNING, LIVE}),
    "held": Case(HOLDS, _held, DUE, on_sqlite={RUNNING}),
    "beat": Case({CANCELLED}, _beat, on_sqlite={RUNNING}),
    "retire": Case(HOLDS, _retire, DUE, on_sqlite={RUNNING, LIVE}),
    # Live jobs for the sake of keys: one that somebody waits to take is not forgotten.
    "prune the succeeded": Case({OUTCOME, ATTEMPT, JOB, LIVE}, _prune(OutcomeKind.SUCCEEDED)),
    "prune the dead": Case({OUTCOME, ATTEMPT, JOB, LIVE}, _prune(OutcomeKind.DEAD)),
    "enqueue one": Case(set(), _enqueue(NewJob(task="t"))),
    "enqueue a few": Case(set(), _enqueue(*[NewJob(task="t")] * 50)),
    "enqueue many": Case(set(), _enqueue(*[NewJob(task="t")] * MANY)),
}
