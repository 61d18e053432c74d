"""A short hammer on each database and driver, and the proof that what it looks for is seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import Connection, Executable, NullPool, create_engine, insert, update

from mutirao import Mutirao
from mutirao.errors import StoreBusy
from mutirao.model.keys.uniqueness import PARKED
from mutirao.sql.schema.tables import counter, live, slot
from tests.faults.hammer import app
from tests.faults.hammer.audit import left_over, places_taken, whole
from tests.faults.hammer.deadlocks import PREFIX, deadlocks, described
from tests.faults.hammer.lanes import Outcome
from tests.faults.hammer.plan import Plan
from tests.faults.hammer.report import Report
from tests.faults.hammer.run import run
from tests.faults.hammer.stage import CALLER, COMMAND, MysqlStage
from tests.faults.hammer.tally import BUSY, DEADLOCK, OTHER, SERIALIZATION, Tally, state_of

BACKENDS = {
    "psycopg": Plan(driver="psycopg", seconds=5),
    "asyncpg": Plan(driver="asyncpg", seconds=5),
    "mysql": Plan(database="mysql", seconds=5),
    "sqlite": Plan(database="sqlite", seconds=5),
}


@pytest.fixture(scope="module", params=[*BACKENDS.values()], ids=[*BACKENDS])
def report(request: pytest.FixtureRequest) -> Report:
    """What came of a short run."""
    found = run(request.param, print)
    print(*found.lines(), sep="\n")
    return found


@pytest.mark.repeats("sqlite", "psycopg", "asyncpg", decided="tests/integration/transactions")
def test_nothing_is_lost(report: Report) -> None:
    """Whatever meets, all jobs come to an end, limits count right, and nothing else fails."""
    assert report.wrong == []
    states = {state for line in report.tally.lines.values() for state in line.failed}
    assert states <= {DEADLOCK, SERIALIZATION, BUSY}
    assert report.tally.made(CALLER) > 0
    assert report.tally.made(COMMAND) > 0


@pytest.mark.repeats("sqlite", "psycopg", "asyncpg", decided="tests/integration/transactions")
def test_nobody_meets_a_deadlock(report: Report) -> None:
    """Whoever locks rows does so in one order; on MariaDB nearly so (ADR 49)."""
    if report.rare == MysqlStage.rare:
        assert report.counted <= max(3, report.transactions / 100)
    else:
        assert report.problems() == []


LOG = """
<11 caller>LOG:  connection authorized: user=caller
<12 worker>LOG:  connection authorized: user=worker
<11 caller>ERROR:  deadlock detected
<11 caller>DETAIL:  Process 11 waits for ShareLock on transaction 5; blocked by process 12.
\tProcess 12 waits for ShareLock on transaction 6; blocked by process 11.
\tProcess 11: SELECT id, how FROM mutirao_enqueue_unique(_task => $1,
\t    _key => $2)
\tProcess 12: UPDATE mutirao_live SET run_at = $1 WHERE id = 7
<11 caller>HINT:  See server log for query details.
<11 caller>CONTEXT:  while inserting index tuple (1,17) in relation "mutirao_key"
\tPL/pgSQL function mutirao_enqueue_unique(text,json) line 31 at SQL statement
<11 caller>STATEMENT:  SELECT id, how FROM mutirao_enqueue_unique(
<12 worker>ERROR:  duplicate key value
"""


def with_prefix(log: str) -> str:
    """Return a log as a server with our prefix writes it."""
    for pid, user in (("11", "caller"), ("12", "worker")):
        log = log.replace(f"<{pid} {user}>", PREFIX.replace("%p", pid).replace("%u", user))
    return log


def test_the_log_tells_who_met_whom() -> None:
    """Of each deadlock: who gave up, both statements without their values, and where."""
    (found,) = deadlocks(with_prefix(LOG))
    assert found.victim == "caller"
    assert found.pair == (
        "caller: mutirao_enqueue_unique(…)",
        "worker: UPDATE mutirao_live SET run_at = ? WHERE id = ?",
    )
    assert found.where == ["mutirao_key", "mutirao_enqueue_unique"]
    assert next(described([found, found])).split() == [
        "2",
        "×",
        "caller:",
        "mutirao_enqueue_unique(…)",
    ]


def test_failures_are_counted_by_their_state() -> None:
    """The code of the database is found behind our own error, and what is no database's is told."""

    class Deadlock(Exception):
        sqlstate = DEADLOCK

    busy = StoreBusy("deadlock detected")
    busy.__cause__ = Deadlock()
    assert state_of(busy) == DEADLOCK
    tally = Tally()
    for error in (busy, ValueError("no")):
        with tally.counting("caller", "batch"):
            raise error
    assert tally.lines["caller", "batch"].failed == {DEADLOCK: 1, OTHER: 1}
    problems = Report(tally).problems()
    assert problems[0] == "1 deadlocks in transactions that only enqueue"
    assert problems[1].endswith("failed 1 times with other: ValueError: no")


@pytest.fixture
def quiet(migrated_url: str) -> Iterator[Connection]:
    """A database where job 1 waits and nothing is wrong."""
    with closing(Mutirao(migrated_url)) as application:
        application.submit(app.plain.using(delay=3_600).job())
    engine = create_engine(migrated_url, poolclass=NullPool)
    with engine.begin() as connection:
        assert list(whole(connection)) == []
        yield connection


COUNTED = {"id": 1, "name": "task plain", "key": "", "tokens": 0.0, "touched_at": PARKED}


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (update(live).values(run_at=PARKED), "job 1 (plain) waits for nothing, and for ever"),
        (live.delete(), "job 1 is lost: it is not live, and has no final attempt"),
        (
            insert(counter).values(running=1, **COUNTED),
            "limit task plain (key '') counts 1 that run, and has 0 places taken",
        ),
        (
            insert(slot).values(job=1, counter=1),
            "job 1 holds a place of a limit, and does not run",
        ),
    ],
)
def test_what_is_wrong_is_found(quiet: Connection, spoil: Executable, problem: str) -> None:
    """A job that is parked without a cause, lost, or miscounted is told."""
    quiet.execute(spoil)
    assert list(whole(quiet)) == [problem]


def test_what_is_left_is_told(quiet: Connection) -> None:
    """Which jobs have not ended, with what is known of them, and places that are still taken."""
    quiet.execute(insert(slot).values(job=1, counter=1))
    assert [each.split(" has ")[0] for each in left_over(quiet)] == ["job 1 (plain)"]
    assert list(places_taken(quiet)) == ["1 rows are left in mutirao_slot, and nothing runs"]


def test_unknown_operations_are_refused() -> None:
    """The message names those there are."""
    with pytest.raises(ValueError, match=r"no such operations: \{'flood'\}; there are: batch, can"):
        run(Plan(database="sqlite", leave_out=("flood",)), print)


def test_deadlocks_under_usual_load() -> None:
    """One in 10,000 transactions may be; whoever met one is told."""
    tally = Tally()
    outcome = Outcome(
        transactions=30_000, deadlocks=3, done=9, tally=tally, wrong=[], who=["worker: DELETE"]
    )
    assert outcome.problems() == []
    assert "worker: DELETE" in outcome.lines()
    assert replace(outcome, deadlocks=4).problems() == [
        "4 deadlocks are more than one in 10,000 transactions"
    ]
    with tally.counting("caller", "one job"):
        int("no number")
    assert outcome.problems() == ["calls that failed: 1"]
