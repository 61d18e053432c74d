"""`--database`: where the jobs are, if not in the application's own database."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from mutirao import JobState
from tests.integration.cli.conftest import Shell
from tests.integration.cli.test_worker import working


@pytest.fixture
def others(migrated_file: Path, tmp_path: Path) -> list[str]:
    """The URLs of two other databases."""
    paths = (shutil.copy(migrated_file, tmp_path / f"{name}.db") for name in ("one", "two"))
    return [f"sqlite:///{path}" for path in paths]


def test_a_command_elsewhere(sqlite_shell: Shell, others: list[str]) -> None:
    """By option or variable, and the application's own is left as it is."""
    one, two = others
    sqlite_shell.ok("enqueue", "shop:app", "send", "--database", one)
    assert len(sqlite_shell.json("list", "shop:app", "--database", one)) == 1
    assert sqlite_shell.ok("list", "shop:app", env={"MUTIRAO_DATABASE": two}) == "no such jobs\n"
    sys.modules.pop("shop")  # a command is a process of its own
    sqlite_shell.ok("enqueue", "shop:app", "send", "--queue", "here")
    assert [job["queue"] for job in sqlite_shell.json("list", "shop:app")] == ["here"]


def test_migrate_elsewhere(sqlite_shell: Shell, tmp_path: Path) -> None:
    """It says which one."""
    url = f"sqlite:///{tmp_path / 'new.db'}"
    assert sqlite_shell.ok("migrate", "shop:app", "--database", url).startswith(f"{url} is at")


def test_what_is_no_database(sqlite_shell: Shell) -> None:
    """The status is that of a wrong call."""
    output = sqlite_shell.refused(2, "list", "shop:app", "--database", "oracle://scott@host/shop")
    assert "begins with 'oracle'" in output
    several = ("--database", "sqlite:///one.db", "--database", "nothing")
    assert "number 2 of the databases" in sqlite_shell.refused(2, "worker", "shop:app", *several)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_of_two(sqlite_shell: Shell, others: list[str], processes: int) -> None:
    """Jobs of both run, and their records name the database."""
    for url in others:
        sqlite_shell.ok("enqueue", "shop:app", "send", "--database", url)
    options = [word for url in others for word in ("--database", url)]
    with working(sqlite_shell, *options, "--processes", str(processes)) as worker:
        found = {worker.wait_for(lambda told: told.get("outcome"))["database"] for _ in others}
        assert found == {*others}
        assert worker.end() == 0
    for url in others:
        [job] = sqlite_shell.json("list", "shop:app", "--database", url)
        assert job["state"] == JobState.SUCCEEDED


def test_a_worker_of_one(sqlite_shell: Shell, others: list[str]) -> None:
    """A single one is served like the application's own."""
    sqlite_shell.ok("enqueue", "shop:app", "send", "--database", others[0])
    with working(sqlite_shell, "--database", others[0]) as worker:
        worker.wait_for_message("succeeded")
        assert worker.end() == 0
