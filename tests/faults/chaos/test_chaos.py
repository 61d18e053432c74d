"""A short chaos run on each database, and the proof that its audit sees what can be wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import pytest
from sqlalchemy import (
    Connection,
    Executable,
    NullPool,
    create_engine,
    delete,
    insert,
    text,
    update,
)

from mutirao import Mutirao
from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql.schema.tables import attempt, job, live
from tests.faults.chaos import app, told
from tests.faults.chaos.audit import Row, audit, flaws, misfits
from tests.faults.chaos.blows import CRASH
from tests.faults.chaos.run import Plan, Report, run
from tests.faults.kit.histories import Attempt

SUCCEEDED, RETRIED, LOST = OutcomeKind.SUCCEEDED, OutcomeKind.RETRIED, OutcomeKind.LOST
RELEASED, DEAD = OutcomeKind.RELEASED, OutcomeKind.DEAD


def disturbed(plan: Plan) -> Report:
    """Carry out a plan; return its report when the promise held and there was chaos at all."""
    report = run(plan, print)
    assert report.problems == []
    assert report.outcomes[SUCCEEDED] == plan.jobs
    assert report.outcomes[RETRIED] > 0
    assert report.outcomes[LOST] > 0
    assert report.kills >= 2
    return report


@pytest.mark.repeats("mysql", decided="tests/conformance/test_mariadb.py")
@pytest.mark.parametrize("database", ["postgresql", "mysql"])
def test_on_a_server(database: Literal["postgresql", "mysql"]) -> None:
    """Workers are killed and suspended, and the server crashes once in the middle."""
    plan = Plan(
        database=database,
        jobs=300,
        workers=4,
        pause=0.2,
        kill_every=1.5,
        freeze_every=2.5,
        restarts=1,
        deadline=250,
    )
    report = disturbed(plan)
    assert report.dealt == {CRASH: 1}
    assert report.freezes > 0


@pytest.mark.repeats(decided="tests/integration/service")
def test_on_sqlite() -> None:
    """Workers are killed, also in the middle of a transaction that locks the whole file."""
    disturbed(
        Plan(
            database="sqlite",
            jobs=150,
            workers=4,
            pause=1.0,
            kill_every=1.5,
            freeze_every=0,
            restarts=0,
            deadline=250,
        )
    )


@pytest.mark.repeats(decided="tests/integration/topics/test_crashes.py")
def test_what_is_published() -> None:
    """Each subscription is told once of each publication, and half of them in order."""
    plan = Plan(
        jobs=0,
        publications=40,
        subscriptions=6,
        workers=3,
        pause=0.1,
        kill_every=1.0,
        freeze_every=0,
        restarts=0,
        deadline=250,
    )
    report = run(plan, print)
    assert report.problems == []
    assert report.outcomes[SUCCEEDED] == 40 + 240
    assert report.outcomes[LOST] > 0
    assert report.kills >= 2


class Told(NamedTuple):
    """A row that a delivery has written."""

    publication: int
    subscription: str
    key: int


TWO = [Told(publication, f"s{n}", 0) for publication in (1, 2) for n in (0, 1)]


@pytest.mark.parametrize(
    ("rows", "flaw"),
    [
        (TWO, None),
        ([TWO[2], TWO[0], TWO[1], TWO[3]], None),
        ([TWO[0], TWO[3], TWO[2], TWO[1]], "('s1', 0): 2 came before 1"),
        (TWO[1:], "3 have a row, of 4"),
        ([*TWO, TWO[0]], "(1, 's0') has 2 of a row"),
    ],
)
def test_what_was_told(rows: list[Told], flaw: str | None) -> None:
    """What is missing, doubled, or out of an order is found."""
    found = [*told.once("row", rows, 2, 2), *told.disorder(rows)]
    assert found == ([] if flaw is None else [flaw])


def history(*attempts: tuple[int, OutcomeKind]) -> list[Attempt]:
    """Return the history of job 7: the number and outcome of each attempt, in runs 1, 2, …"""
    return [
        Attempt(7, run, number, outcome, 1, None if outcome is SUCCEEDED else "Error")
        for run, (number, outcome) in enumerate(attempts, start=1)
    ]


@pytest.mark.parametrize(
    "attempts",
    [
        history((1, SUCCEEDED)),
        history((1, LOST), (2, RETRIED), (3, SUCCEEDED)),
        history((1, RELEASED), (1, RELEASED), (1, SUCCEEDED)),
        history((1, LOST), (2, LOST), (3, RELEASED), (2, SUCCEEDED)),
        history((1, LOST), (2, RELEASED), (2, LOST), (3, SUCCEEDED)),
        history((1, LOST), (2, RELEASED), (2, LOST), (2, SUCCEEDED)),
        history((1, LOST), (2, LOST), (3, LOST), (2, SUCCEEDED)),
        history((1, LOST), (2, LOST), (3, SUCCEEDED)),
    ],
)
def test_a_good_history(attempts: list[Attempt]) -> None:
    """Attempts are counted from 1 and end with one success; interrupted ones do not count."""
    assert list(flaws(attempts)) == []


@pytest.mark.parametrize(
    ("attempts", "flaw"),
    [
        (history(), "has 0 final outcomes"),
        (history((1, RETRIED)), "has 0 final outcomes"),
        (history((1, DEAD)), "has 1 final outcomes, not one success"),
        (history((1, SUCCEEDED), (2, SUCCEEDED)), "has 2 final outcomes"),
        (history((1, SUCCEEDED), (2, LOST)), "went on after it had succeeded"),
        (history((2, SUCCEEDED)), "has attempt 2 where 1 should be"),
        (history((1, LOST), (1, SUCCEEDED)), "has attempt 1 where 2 should be"),
        (history((1, RELEASED), (2, SUCCEEDED)), "has attempt 2 where 1 should be"),
        (history((1, LOST), (2, LOST), (1, SUCCEEDED)), "has attempt 1 where 2 should be"),
        ([Attempt(7, 1, 1, SUCCEEDED, None, None)], "has an attempt of nobody"),
        ([Attempt(7, 1, 1, LOST, 1, None), *history((2, SUCCEEDED))], "does not say why"),
    ],
)
def test_a_bad_history(attempts: list[Attempt], flaw: str) -> None:
    """Whatever is missing, doubled, miscounted or unexplained is found."""
    assert [found for found in flaws(attempts) if found.startswith(flaw)] != []


def test_rows_are_held_against_history() -> None:
    """A row tells which job wrote it, and in which run: the one that succeeded."""
    known = {7: history((1, LOST), (2, SUCCEEDED))}
    assert list(misfits(Row(3, job=7, run=2), known, {7: 3})) == []
    assert list(misfits(Row(3, job=7, run=1), known, {7: 3})) != []
    assert list(misfits(Row(3, job=7, run=2), known, {7: 4})) != []


@pytest.fixture
def finished(migrated_sqlite_url: str) -> Iterator[Connection]:
    """A database where jobs 1, 2 and 3 have written the rows of numbers 0, 1 and 2."""
    with closing(Mutirao(migrated_sqlite_url)) as application:
        ids = application.enqueue_many(app.first_jobs(3, pause=0))
    engine = create_engine(migrated_sqlite_url, poolclass=NullPool)
    app.metadata.create_all(engine)
    now = datetime.now(UTC)
    with engine.connect() as connection:
        connection.execute(delete(live))
        for number, id in enumerate(ids):
            ran = {"job": id, "run": 1}
            connection.execute(insert(app.rows).values(number=number, **ran))
            told = {"attempt": 1, "worker": 1, "outcome": "succeeded"}
            times = {"started_at": now, "finished_at": now}
            connection.execute(insert(attempt).values(**ran, **told, **times))
        yield connection


def test_nothing_is_found_where_nothing_is_wrong(finished: Connection) -> None:
    """The audit of a good database has no problems, and counts the outcomes."""
    findings = audit(finished, 3)
    assert findings.problems == []
    assert findings.outcomes == {SUCCEEDED: 3}


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (delete(app.rows).where(app.rows.c.number == 1), "1 numbers have no row: [1]"),
        (insert(app.rows).values(number=1, job=2, run=1), "1 numbers have several rows: [1]"),
        (update(app.rows).values(run=2), "job 1 wrote its row in run 2, and succeeded in [1]"),
        (delete(attempt).where(attempt.c.job == 1), "job 1 has 0 final outcomes"),
        (delete(job).where(job.c.id == 3), "1 numbers were never enqueued: [2]"),
        (
            update(job).where(job.c.id == 3).values(args={"number": 1}),
            "1 numbers were enqueued more than once: [1]",
        ),
        (
            text("INSERT INTO mutirao_job (task, args) VALUES ('insert_row', '{\"number\": 0}')"),
            "1 jobs are live or running",
        ),
    ],
)
def test_what_is_wrong_is_found(finished: Connection, spoil: Executable, problem: str) -> None:
    """Every way to lose a job, to do it twice or to leave it behind is told."""
    finished.execute(spoil)
    assert [found for found in audit(finished, 3).problems if found.startswith(problem)] != []
