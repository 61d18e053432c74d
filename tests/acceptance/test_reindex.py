"""What people do with a table and SKIP LOCKED, done by the programs of the example."""

from __future__ import annotations

import re

import pytest

from tests.conftest import DATABASES
from tests.support.examples import run_demo
from tests.support.mariadb import MysqlServer
from tests.support.postgresql import PostgresServer

pytestmark = pytest.mark.repeats(decided="tests/conformance")


@pytest.fixture(scope="module", params=DATABASES)
def said(
    request: pytest.FixtureRequest, postgres: PostgresServer, mysql: MysqlServer
) -> dict[str, list[str]]:
    """The lines that each program printed, on each database that Mutirão supports."""
    urls = {"sqlite": "sqlite://", "postgresql": postgres.url("postgres"), "mysql": mysql.url("")}
    parts = run_demo("reindex", urls[request.param], timeout=250).split("\n\n")[1:]
    return {lines[0].rstrip(":"): lines[1:] for lines in map(str.splitlines, parts)}


def test_priority_is_changed_live(said: dict[str, list[str]]) -> None:
    """The last of three jobs becomes the most urgent one while it waits, and runs first."""
    assert said["priority"] == [
        "1 job is more urgent now",
        *(f"document {number} is indexed" for number in (3, 1, 2)),
    ]


def test_what_failed_is_tried_later_by_its_error(said: dict[str, list[str]]) -> None:
    """A fatal error ends a job; others wait, are counted, and are due at once when told so."""
    assert said["errors"] == [
        "1 dead (__main__.Unreadable), 2 scheduled (ConnectionError)",
        "the search engine is down: 2 jobs",
        "this is no document: 1 jobs",
        "the next attempt is 5 minutes later",
        "2 are due now",
        "1 dead (__main__.Unreadable), 2 succeeded (None)",
    ]


def test_what_hangs_goes_on(said: dict[str, list[str]]) -> None:
    """The job of a killed worker is taken over, and a handler that hangs is cut off."""
    assert said["hang"] == [
        "hang.killed lost succeeded",
        "hang.hanging retried succeeded",
        "AttemptTimeout",
    ]


def test_statistics_are_a_view(said: dict[str, list[str]]) -> None:
    """Number, sum, mean and 95 % of run times: five jobs of 10 to 50 ms."""
    seen = r"5 jobs took ([\d.]+) s, ([\d.]+) s each; 95 % within ([\d.]+) s"
    found = re.fullmatch(seen, said["figures"][0])
    assert found, said
    total, mean, slowest = map(float, found.groups())
    assert total >= 0.15
    assert mean == pytest.approx(total / 5, abs=0.002)
    assert slowest >= 0.05


def test_what_changed_meanwhile_is_run_again(said: dict[str, list[str]]) -> None:
    """Once, as of the newest version; an older one is outdated, while it runs and afterwards."""
    assert said["rerun"] == [
        "version 1: inserted",
        "document 7 is indexed as of 1",
        "version 2: rerun",
        "version 4: rerun",
        "version 3: outdated",
        "document 7 is indexed as of 4",
        "version 3: outdated",
    ]


def test_stages_have_workers_of_their_own(said: dict[str, list[str]]) -> None:
    """A stage is done by its worker, when the one before is done."""
    assert said["stages"] == [
        "the worker of index did 0: stage read, running",
        "the worker of read did 1: stage split, running",
        "the worker of split did 1: stage index, running",
        "4 words are indexed",
        "the worker of index did 1: stage None, succeeded",
    ]


def test_rows_have_schedules_of_their_own(said: dict[str, list[str]]) -> None:
    """Each ticks with its period, to the microsecond; one of an hour was changed to a second."""
    assert said["schedules"] == [
        "document 1: [1.0] s apart",
        "document 2: [2.0] s apart",
        "document 3: [1.0] s apart",
    ]
