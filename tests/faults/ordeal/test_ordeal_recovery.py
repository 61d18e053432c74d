"""The ordeal measures recoveries as they were, and sees who is idle, unregistered or growing."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection, NullPool, create_engine, insert, update

from mutirao import Mutirao
from mutirao.sql.schema.tables import live, worker
from tests.faults.kit.reading import Reader
from tests.faults.ordeal import app
from tests.faults.ordeal.fleet import Fleet
from tests.faults.ordeal.journal import Journal
from tests.faults.ordeal.plan import Event, Lasts, Plan, course
from tests.faults.ordeal.recovery import Recovery, Watch, idle, unregistered
from tests.faults.ordeal.report import Passed, Report
from tests.faults.ordeal.vigil import ENOUGH, Vigil

ME = os.getpid()
ALIVE, DEAD = 77, 78  # process ids of workers
LATER = timedelta(hours=1)


@pytest.fixture
def url(migrated_sqlite_url: str) -> str:
    """A database with five jobs that are due: two plain ones, then three limited ones."""
    with closing(Mutirao(migrated_sqlite_url)) as application:
        jobs = [app.plain.job()] * 2 + [app.limited.job()] * 3
        application.enqueue_many(jobs)
    return migrated_sqlite_url


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    """A connection to it that writes at once."""
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection


@pytest.fixture
def reader(url: str) -> Iterator[Reader]:
    """A reader of it."""
    with closing(Reader(url)) as reader:
        yield reader


@pytest.fixture
def fleet() -> Fleet:
    """A worker at place 0 and none at place 1."""
    running = {0: SimpleNamespace(pid=ALIVE, poll=lambda: None)}
    fake = SimpleNamespace(places=lambda: range(2), running=lambda: running)
    return cast(Fleet, fake)


class Notes:
    """Writes what handlers would note."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.journal = Journal(directory)

    def begin(self, place: int, pid: int, job: int, run: int = 1) -> None:
        """Note that an execution begins now."""
        with (self._directory / f"{place}-{pid}-1").open("a") as file:
            file.write(f"begin {monotonic()} {job} {run} plain - -\n")


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    """Notes in a directory of their own."""
    (directory := tmp_path / "notes").mkdir()
    return Notes(directory)


def test_a_recovery_is_measured(
    reader: Reader, connection: Connection, fleet: Fleet, notes: Notes
) -> None:
    """It is over when each place has begun a job and none that was due waits any more."""
    notes.begin(0, ALIVE, job=1)
    connection.execute(update(live).values(run=1, worker=1))  # all of them, and only job 1 runs
    watch = Watch(reader, notes.journal, fleet, monotonic())
    assert watch.wait(0) is False
    assert watch.recovery.first is None
    assert watch.recovery.waiting == [2, 3, 4, 5]
    notes.begin(0, ALIVE, job=2)  # begins where it was claimed
    notes.begin(1, DEAD, job=3)  # began in a process that has gone since
    connection.execute(update(live).where(live.c.id == 4).values(run=2))  # is claimed anew
    assert watch.wait(0) is False
    assert watch.recovery.waiting == [3, 4, 5]  # by somebody who does not know it
    notes.begin(1, ALIVE, job=4, run=2)
    assert watch.wait(0) is False
    assert watch.recovery.waiting == [3, 5]
    connection.execute(update(live).where(live.c.id == 5).values(worker=None))
    assert re.fullmatch(
        r"3 \(limited, run 1, attempt 0, lost 0\) held by worker 1, who is gone;"
        r" 5 \(limited, run 1, attempt 0, lost 0\) due for \d+\.\d s",
        watch.describe(),
    )
    connection.execute(update(live).where(live.c.id.in_((3, 5))).values(run=2, worker=None))
    assert watch.wait(0) is True
    places = watch.recovery.places
    assert sorted(places, key=lambda place: places[place] or 0) == [0, 1]
    assert watch.recovery.first == places[0]
    assert watch.recovery.all == watch.recovery.due


def test_a_database_that_is_away_is_waited_for(tmp_path: Path, fleet: Fleet, notes: Notes) -> None:
    """What cannot be read is not taken for well."""
    watch = Watch(Reader(f"sqlite:///{tmp_path}/none/x.db"), notes.journal, fleet, monotonic())
    notes.begin(0, ALIVE, job=1)
    notes.begin(1, ALIVE, job=1)
    assert watch.wait(0) is False
    assert watch.recovery.first is not None
    assert watch.recovery.due is None


def test_who_is_idle(connection: Connection) -> None:
    """Jobs that are due for long count while slots are free, limited ones while places are."""
    assert idle(connection, late=60, slots=9) == []
    connection.execute(update(live).values(run_at=datetime.now(UTC) - LATER))
    assert idle(connection, late=60, slots=9) == [
        "3 jobs (limited) have been due for 60 s, with 3 slots free",
        "2 jobs (plain) have been due for 60 s, with 9 slots free",
    ]
    connection.execute(update(live).where(live.c.id <= 3).values(worker=1))
    assert idle(connection, late=60, slots=3) == []
    assert idle(connection, late=60, slots=4) == [
        "2 jobs (limited) have been due for 60 s, with 1 slots free"
    ]


def test_who_is_not_registered(connection: Connection, fleet: Fleet) -> None:
    """A process without a row that is alive is told."""
    seen = [f"worker 0 (pid {ALIVE}) runs and is not registered"]
    assert unregistered(connection, fleet) == seen
    now = datetime.now(UTC)
    said = {"name": "w", "host": "h", "concurrency": 1, "version": "1", "pid": ALIVE}
    times = {"started_at": now, "beat_at": now, "expires_at": now + LATER}
    connection.execute(insert(worker).values(listening=True, stuck=0, **said, **times))
    assert unregistered(connection, fleet) == []
    connection.execute(update(worker).values(expires_at=now - LATER))
    assert unregistered(connection, fleet) == seen


def test_what_grows_is_told(tmp_path: Path) -> None:
    """Files that a process opens and keeps are noticed; so are sessions beyond what is said."""
    process = SimpleNamespace(pid=ME)
    fake = SimpleNamespace(running=lambda: {0: process}, ages=lambda: {0: 61.0})
    fleet, vigil, opened = cast(Fleet, fake), Vigil(Plan()), []
    for number in range(ENOUGH):
        vigil.look(fleet, sessions=126)
        opened += [(tmp_path / f"{number} {each}").open("w") for each in range(2)]
    assert list(vigil.problems()) != []
    vigil.look(fleet, sessions=127)
    text = " ".join(vigil.problems())
    assert f"worker 0 (pid {ME}): open files grew" in text
    assert "127 sessions" in text
    for file in opened:
        file.close()


def test_what_does_not_grow_is_not(tmp_path: Path) -> None:
    """A process that stays as it is passes, and so does one that has just begun."""
    vigil = Vigil(Plan())
    with subprocess.Popen(["sleep", "infinity"]) as process:
        fake: Any = SimpleNamespace(running=lambda: {0: process}, ages=lambda: {0: 61.0})
        for _ in range(ENOUGH):
            vigil.look(cast(Fleet, fake), sessions=78)
        process.kill()
    assert list(vigil.problems()) == []
    assert len(list(vigil.lines())) == 2


def event(number: int) -> Event:
    """Return an event of the course of seed 1."""
    return next(each for each in course(1, ("a",)) if each.number == number)


@pytest.mark.parametrize(
    ("lasts", "least", "most"),
    [(Lasts.AT_ONCE, 0, 0), (Lasts.A_WHILE, 5, 40), (Lasts.PAST_EXPIRY, 12, 20)],
)
def test_how_long_a_trouble_lasts(lasts: Lasts, least: float, most: float) -> None:
    """As long as the plan says; past the expiry where a worker is to be taken for gone."""
    assert least <= event(3).seconds(lasts, Plan(seed=1)) <= most
    assert event(3).seconds(lasts, Plan(seed=1)) == event(3).seconds(lasts, Plan(seed=1))


def test_the_report_tells_what_never_came_about() -> None:
    """Medians are of what recovered; the longest is "never" if one did not."""
    well = Recovery(first=1.0, due=2.0, places={0: 3.0, 1: 4.0})
    unwell = Recovery(first=2.0, due=None, places={0: 3.0, 1: None})
    report = Report(passed=[Passed("crash", "", 0, 0, each) for each in (well, unwell)])
    line = next(line for line in report.lines() if line.startswith("crash"))
    assert " ".join(line.split()) == "crash 2 1.5 2.0 2.0 never 4.0 never 4.0 never 0"
