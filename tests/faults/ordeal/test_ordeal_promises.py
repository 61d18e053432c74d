"""The ordeal's checks see everything that can be wrong, and nothing where all is well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, Executable, NullPool, create_engine, delete, insert, update

from mutirao import Mutirao
from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql.schema.tables import attempt, counter, job, live, schedule, slot
from tests.faults.kit import promises as kit
from tests.faults.kit.promises import Wrong
from tests.faults.ordeal import app, executions, promises
from tests.faults.ordeal.journal import Execution, Journal
from tests.faults.ordeal.plan import course

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SUCCEEDED, LOST, RELEASED = OutcomeKind.SUCCEEDED, OutcomeKind.LOST, OutcomeKind.RELEASED

# The jobs of the database below.
PLAIN, TRANSACT, ONE, TWO, THREE, FOUR, TICK, NEXT_TICK, KEY, KEY_AFTER = range(1, 11)


@pytest.fixture
def sound(migrated_sqlite_url: str) -> Iterator[Connection]:
    """A database in which all is well: two jobs have succeeded, four are limited, and so on."""
    tick = {"schedule": "every_tick"}
    with closing(Mutirao(migrated_sqlite_url)) as application:
        application.enqueue_many(
            [
                app.plain.job(),
                app.transact.job(),
                *(app.limited.job() for _ in range(4)),
                app.every_tick.using(metadata=tick | {"tick": NOW.isoformat()}).job(),
                app.every_tick.using(metadata=tick | {"tick": _after(1).isoformat()}).job(),
                app.replaced.using(key="k").job(),
                app.replaced.using(key="other").job(),
            ]
        )
    engine = create_engine(migrated_sqlite_url, poolclass=NullPool)
    app.metadata.create_all(engine)
    with engine.connect() as connection:
        connection.execute(update(job).where(job.c.id == KEY_AFTER).values(key="k"))
        connection.execute(update(live).where(live.c.id == KEY).values(worker=1, run=1))
        for id in (PLAIN, TRANSACT):
            connection.execute(delete(live).where(live.c.id == id))
            connection.execute(ended(id))
        connection.execute(insert(app.effects).values(job=TRANSACT, run=1))
        connection.execute(claimed(ONE, TWO, THREE))
        counted = {"id": 1, "name": "task limited", "key": "", "running": 3, "tokens": 0}
        connection.execute(insert(counter).values(touched_at=NOW, **counted))
        connection.execute(insert(slot), [{"job": id, "counter": 1} for id in (ONE, TWO, THREE)])
        connection.execute(_schedule())
        yield connection


def _after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def _schedule() -> Executable:
    said = {"task": "every_tick", "args": "{}", "queue": "clock", "priority": 0, "options": "{}"}
    terms = {"every": 1.0, "timezone": "UTC", "catch_up": "all", "catch_up_limit": 9, "jitter": 0.0}
    state = {"overlap": "allow", "origin": "code", "paused": False, "awaiting": False}
    counts = {"runs": 2, "skipped": 0, "created_at": NOW, "changed_at": NOW}
    return insert(schedule).values(name="every_tick", **said, **terms, **state, **counts)


def ended(id: int, run: int = 1, outcome: OutcomeKind = SUCCEEDED) -> Executable:
    """Append an attempt."""
    values = {"attempt": run, "worker": 1, "outcome": str(outcome)}
    return insert(attempt).values(job=id, run=run, started_at=NOW, finished_at=NOW, **values)


def claimed(*ids: int) -> Executable:
    """Have a worker hold jobs."""
    return update(live).where(live.c.id.in_(ids)).values(worker=1, run=1, claimed_at=NOW)


def missing(connection: Connection) -> Wrong:
    """As the check of that name, where all ten jobs were acknowledged."""
    return promises.missing(connection, range(1, 11))


CHECKS: list[Callable[[Connection], Wrong]] = [
    missing,
    kit.lost,
    kit.finished_twice,
    promises.died,
    promises.effects_twice,
    promises.limits_exceeded,
    promises.keys_shared,
    promises.ticks,
]


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_is_found_where_nothing_is_wrong(
    sound: Connection, check: Callable[[Connection], Wrong]
) -> None:
    """A database in which all is well passes every check."""
    assert list(check(sound)) == []


@pytest.mark.parametrize(
    ("check", "spoil", "found"),
    [
        (missing, delete(job).where(job.c.id == PLAIN), "job 1 was enqueued and is not there"),
        (kit.lost, delete(live).where(live.c.id == FOUR), "job 6 is lost"),
        (kit.lost, delete(attempt).where(attempt.c.job == PLAIN), "job 1 is lost"),
        (kit.finished_twice, ended(PLAIN, run=2), "job 1 has several final attempts"),
        (kit.finished_twice, ended(FOUR), "job 6 is live, and has a final attempt"),
        (promises.died, ended(FOUR, outcome=OutcomeKind.DEAD), "job 6 (limited) is dead"),
        (promises.died, ended(FOUR, outcome=OutcomeKind.CANCELLED), "job 6 (limited) is cancelled"),
        (
            promises.effects_twice,
            insert(app.effects).values(job=TRANSACT, run=1),
            "job 2 has committed its transaction twice",
        ),
        (
            promises.effects_twice,
            update(app.effects).values(run=2),
            "job 2 wrote in run 2, which did not succeed",
        ),
        (
            promises.effects_twice,
            delete(app.effects),
            "job 2 succeeded in run 1, and what it wrote is not there",
        ),
        (promises.limits_exceeded, claimed(FOUR), "4 jobs of a limit of 3 are claimed"),
        (
            promises.limits_exceeded,
            update(counter).values(running=2),
            "the limit counts 2 jobs and has 3 places taken by 3",
        ),
        (
            promises.limits_exceeded,
            delete(slot).where(slot.c.job == ONE),
            "the limit counts 3 jobs and has 2 places taken by 3",
        ),
        (promises.keys_shared, claimed(KEY_AFTER), "2 jobs of the key 'k' are claimed"),
        (
            promises.keys_shared,
            update(job).where(job.c.id == FOUR).values(key="k", task="replaced"),
            "3 jobs of the key 'k' are live",
        ),
        (
            promises.ticks,
            update(job)
            .where(job.c.id == NEXT_TICK)
            .values(metadata={"schedule": "every_tick", "tick": NOW.isoformat()}),
            f"tick {NOW} of schedule every_tick made 2 jobs",
        ),
        (
            promises.ticks,
            update(job)
            .where(job.c.id == NEXT_TICK)
            .values(metadata={"schedule": "every_tick", "tick": _after(2).isoformat()}),
            f"schedule every_tick made no job between {NOW} and {_after(2)}",
        ),
        (promises.ticks, update(schedule).values(runs=3), "schedule every_tick counts 3 jobs"),
    ],
)
def test_what_is_wrong_is_found(
    sound: Connection, check: Callable[[Connection], Wrong], spoil: Executable, found: str
) -> None:
    """Each way to break a promise is told by its check."""
    sound.execute(spoil)
    assert [text for _, text in check(sound) if text.startswith(found)] != []


def execution(id: int, *, began: float = 0.0, run: int = 1, task: str = "plain") -> Execution:
    """Return an execution at place 0."""
    key = "k" if task == "replaced" else "-"
    return Execution(id, run, task, key, place=0, pid=1, began=began)


def over(each: Execution, ended: float | None, outcome: OutcomeKind, settled: float) -> Execution:
    """Return an execution that is over."""
    each.ended, each.outcome, each.settled = ended, outcome, settled
    return each


def test_each_execution_has_its_attempt(sound: Connection) -> None:
    """One that history tells of is told its outcome; the job's present run needs none yet."""
    finished, present = execution(PLAIN), execution(ONE)
    assert list(executions.without_attempt(sound, [finished, present])) == []
    assert finished.outcome is SUCCEEDED
    assert present.outcome is None


@pytest.mark.parametrize(("id", "run"), [(PLAIN, 2), (ONE, 2), (FOUR, 1), (99, 1)])
def test_an_execution_without_attempt_is_found(sound: Connection, id: int, run: int) -> None:
    """Of a job that has ended, that another run holds, that waits, or that is not there."""
    ((_, text),) = executions.without_attempt(sound, [execution(id, run=run)])
    assert text.startswith(f"run {run} of job {id} (plain) was executed")


def limited(*, lost_at: float | None) -> list[Execution]:
    """Return four executions of the limit of three: the last begins at 4, the first is lost."""
    each = [execution(id, began=id, task="limited") for id in (1, 2, 3, 4)]
    if lost_at is not None:
        over(each[0], ended=None, outcome=LOST, settled=lost_at)
    return each


@pytest.mark.parametrize(("lost_at", "crowds"), [(None, 1), (4.5, 1), (3.5, 0)])
def test_a_crowd_counts_runs_that_the_store_knows(lost_at: float | None, crowds: int) -> None:
    """One that goes on after it was taken for gone does not count any more."""
    assert len(list(executions.too_many_at_once(limited(lost_at=lost_at), trusted=True))) == crowds


def test_where_clocks_are_wrong_lost_runs_do_not_count() -> None:
    """Nobody knows when they were lost."""
    assert list(executions.too_many_at_once(limited(lost_at=4.5), trusted=False)) == []


def keyed(*spans: tuple[float, float]) -> list[Execution]:
    """Return executions of jobs 1, 2, … of one key, by begin and end."""
    return [
        over(execution(id, began=began, task="replaced"), end, SUCCEEDED, end)
        for id, (began, end) in enumerate(spans, start=1)
    ]


@pytest.mark.parametrize(
    ("spans", "found"),
    [
        ([(1, 2), (2, 3)], []),
        ([(1, 3), (2, 4)], ["jobs of the key 'k' ran at once"]),
        ([(3, 4), (1, 2)], ["job 1 of the key 'k' began after job 2"]),
    ],
)
def test_keys_take_turns(spans: list[tuple[float, float]], found: list[str]) -> None:
    """Jobs of one key neither overlap nor overtake each other."""
    seen = [text for _, text in executions.keys_out_of_turn(keyed(*spans), trusted=True)]
    assert [text[: len(start)] for text, start in zip(seen, found, strict=True)] == found


@pytest.mark.parametrize(("outcome", "times"), [(LOST, 1), (RELEASED, 0)])
def test_what_is_never_retried_is_executed_once(outcome: OutcomeKind, times: int) -> None:
    """A shutdown gives a job back, which costs no attempt; anything else does."""
    first = over(execution(1, task="once"), ended=1, outcome=outcome, settled=1)
    second = over(execution(1, task="once", run=2), ended=2, outcome=SUCCEEDED, settled=2)
    assert len(list(executions.run_again([first, second]))) == times


def test_the_journal_reads_what_has_come(tmp_path: Path) -> None:
    """Lines are taken in once and whole, whoever wrote them, and a second begin is noticed."""
    journal = Journal(tmp_path)
    (tmp_path / "2-77-1").write_text("begin 5.0 7 1 plain - -\nbegin 6.0 8 1 plain - -\nend 6.")
    journal.read()
    assert {each.ended for each in journal.all()} == {None}
    with (tmp_path / "2-77-1").open("a") as file:
        file.write("5 8 1 plain - ok\nbegin 9.0 7 1 plain - -\n")
    journal.read()
    assert journal.executions[8, 1].ended == 6.5
    assert journal.repeated == {(7, 1)}
    assert journal.first_since(5.0) == 6.0
    assert journal.first_since(6.0, place=2) == 9.0
    assert journal.first_since(0.0, place=1) is None


def test_a_seed_stands_for_one_course() -> None:
    """The same seed means the same troubles with the same parameters; another one does not."""

    def drawn(seed: int) -> list[tuple[str, int, float]]:
        events = course(seed, ("a", "b", "c", "d"), rounds=3)
        return [(event.name, event.turn, event.chosen.random()) for event in events]

    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)
    assert [turn for _, turn, _ in drawn(7)] == [0] * 4 + [1] * 4 + [2] * 4
