"""`mutirao schedules …`: the whole life of one, what bad input gets, and what was left behind."""

from __future__ import annotations

from functools import partial

import pytest

from mutirao.model.jobs.job import NewJob
from mutirao.model.schedules import schedule_rules
from mutirao.web.pages.schedules import ticks_of
from mutirao_conformance.kit import NOW
from mutirao_conformance.rows import rewrite
from mutirao_conformance.schedules import scheduled
from tests.integration.cli.conftest import Shell

pytestmark = pytest.mark.repeats(
    "postgresql", "mysql", decided="conformance/src/mutirao_conformance/schedules.py"
)

APP = "shop:app"


def test_a_life(shell: Shell) -> None:
    """Put, listed, paused, run, resumed, removed; each answers in a line."""
    said = shell.ok(
        *("schedules", "put", APP, "nightly", "send", '{"order_id": 7}'),
        *("--cron", "30 3 * * *", "--timezone", "America/Sao_Paulo", "--queue", "night"),
    )
    assert said.startswith("schedule nightly ticks next at ")
    assert said.endswith(" 06:30:00Z\n")
    pause = ("schedules", "pause", APP, "nightly", "--reason", "the bank is closed")
    assert shell.ok(*pause) == "schedule nightly is paused\n"
    assert shell.ok("schedules", "run", APP, "nightly") == (
        "enqueued job 1 (send) in queue night\n"
    )  # fmt: skip
    listed = shell.ok("schedules", "list", APP).splitlines()
    assert listed[0].split()[:4] == ["NAME", "TASK", "WHEN", "STATUS"]
    for each in (
        "nightly",
        "send",
        "30 3 * * * America/Sao_Paulo",
        "paused (the bank is closed)",
        "ready",
        "call",
    ):
        assert each in listed[1]
    assert "06:30:00Z" in shell.ok("schedules", "resume", APP, "nightly")
    [found] = shell.json("schedules", "list", APP)
    assert (found["args"], found["last_job"], found["runs"]) == ({"order_id": 7}, 1, 0)
    assert shell.ok("schedules", "remove", APP, "nightly") == "schedule nightly is removed\n"
    assert shell.ok("schedules", "list", APP) == "no schedules\n"
    assert shell.json("list", APP)[0]["metadata"] == {"schedule": "nightly"}


def test_all_terms(shell: Shell) -> None:
    """Every option arrives; putting it again with others changes it."""
    put = ("schedules", "put", APP, "s", "send")
    answer = shell.json(
        *(*put, "--every", "15m", "--jitter", "90", "--until", "2100-01-01T00:00:00Z"),
        *("--max-runs", 5, "--overlap", "skip", "--catch-up", "none", "--priority", 3),
    )
    assert (answer["name"], answer["paused"]) == ("s", False)
    [found] = shell.json("schedules", "list", APP)
    assert (found["every"], found["jitter"], found["until"]) == (900, 90, "2100-01-01T00:00:00Z")
    assert (found["max_runs"], found["overlap"], found["catch_up"]) == (5, "skip", "none")
    assert "every 0:15:00" in shell.ok("schedules", "list", APP)
    shell.json(*put, "--cron", "0 0 * * *", "--catch-up", "all", "--catch-up-limit", 7)
    [found] = shell.json("schedules", "list", APP)
    assert (found["every"], found["cron"], found["jitter"]) == (None, "0 0 * * *", 0)


def test_changing_one_term(shell: Shell) -> None:
    """The job and all other terms stay."""
    put = ("schedules", "put", APP, "s", "send", '{"order_id": 7}')
    shell.ok(*put, "--every", "15m", "--max-runs", 5, "--queue", "slow")
    change = ("schedules", "change", APP, "s")
    assert shell.ok(*change, "--overlap", "skip").startswith("schedule s ticks next at ")
    shell.ok(*change, "--cron", "30 3 * * *", "--timezone", "America/Sao_Paulo")
    [found] = shell.json("schedules", "list", APP)
    assert (found["cron"], found["every"]) == ("30 3 * * *", None)
    assert (found["timezone"], found["next_at"][10:]) == ("America/Sao_Paulo", "T06:30:00Z")
    assert (found["overlap"], found["max_runs"], found["queue"]) == ("skip", 5, "slow")
    assert found["args"] == {"order_id": 7}


@pytest.mark.parametrize(
    ("status", "words", "expected"),
    [
        (1, ("put", APP, "s", "send"), "neither cron nor every"),
        (1, ("put", APP, "s", "send", "--cron", "0 0 30 2 *"), "'0 0 30 2 *' is no cron line"),
        (1, ("put", APP, "s", "send", "--cron", "0 0 * * *", "--every", "5m"), "both cron and"),
        (1, ("put", APP, "s", "send", "--cron", "0 0 * * *", "--timezone", "M/X"), "no time zone"),
        (1, ("put", APP, "s", "send", "--every", "5m", "--timezone", "M/X"), "leave the zone out"),
        (1, ("put", APP, "s", "send", "--every", "0"), "every is 0:00:00"),
        (1, ("put", APP, "s", "send", "--every", "5m", "--until", "2001-01-01T00:00Z"), "passed"),
        (1, ("put", APP, "s", "nobody", "--every", "5m"), "no task 'nobody'"),
        (1, ("put", APP, "s", "send", '{"order_id": "x"}', "--every", "5m"), "cannot take these"),
        (2, ("put", APP, "s", "send", "--every", "5m", "--until", "2100-01-01T00:00"), "no time z"),
        (2, ("put", APP, "s", "send", "--every", "5m", "--overlap", "some"), "'some' is not one"),
        (1, ("pause", APP, "s"), "no schedule 's'; `mutirao schedules list`"),
        (1, ("change", APP, "s", "--max-runs", "3"), "no schedule 's'"),
        (2, ("change", APP, "s"), "no term is given; name at least one"),
        (1, ("resume", APP, "s"), "no schedule 's'"),
        (1, ("remove", APP, "s"), "no schedule 's'"),
        (1, ("run", APP, "s"), "no schedule 's'"),
    ],
)
def test_bad_input(sqlite_shell: Shell, status: int, words: tuple[str, ...], expected: str) -> None:
    """One line that says what to do, and an exit status; nothing is written."""
    assert expected in sqlite_shell.refused(status, "schedules", *words)
    assert sqlite_shell.json("schedules", "list", APP) == []


def test_a_run_that_would_overlap(sqlite_shell: Shell) -> None:
    """Is refused with the job that is in the way."""
    sqlite_shell.ok("schedules", "put", APP, "s", "send", "--every", "1h", "--overlap", "after")
    sqlite_shell.ok("schedules", "run", APP, "s")
    assert "job 1 of schedule 's' is live" in sqlite_shell.refused(1, "schedules", "run", APP, "s")
    assert "after the end of job 1" in sqlite_shell.ok("schedules", "resume", APP, "s")


def test_one_that_left_the_code(shell: Shell) -> None:
    """The list says since when, and which worker had it last."""
    schedule = scheduled(cron="0 0 1 1 *", job=NewJob(task="send"))
    declare = partial(schedule_rules.declare, schedule=schedule, worker="host:1")
    shell.store(lambda store: store.schedules.amend("s", declare, now=NOW))
    assert "not in the code since 2024-02-29 12:00Z (host:1)" in shell.ok("schedules", "list", APP)


def test_a_period_that_somebody_wrote(shell: Shell) -> None:
    """Longer than any, it is listed beside others; on the dashboard, too."""
    put = partial(schedule_rules.put, schedule=scheduled("endless"))
    shell.store(lambda store: store.schedules.amend("endless", put, now=NOW))
    written = {"every": "1e300"}
    assert shell.store(
        lambda store: rewrite(store, "mutirao_schedule", "name", "endless", **written)
    )
    assert "every 1e+300 s" in shell.ok("schedules", "list", APP)
    [record] = shell.store(lambda store: store.schedules.listed())
    assert ticks_of(record) == [record.next_at]
