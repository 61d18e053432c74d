"""`doctor`: its findings as people and as machines read them, and its exit status."""

from __future__ import annotations

import json

from tests.integration.cli.conftest import Shell


def test_all_is_well(shell: Shell) -> None:
    """A line for each finding, and status 0."""
    shell.history()
    header, *lines = shell.ok("doctor", "shop:app").splitlines()
    assert header.split()[:3] == ["LEVEL", "ABOUT", "FOUND"]
    assert {line.split()[0] for line in lines} == {"ok"}


def test_a_warning_is_for_people_to_judge(shell: Shell) -> None:
    """The status is still 0."""
    shell.history()
    shell.ok("enqueue", "shop:app", "send", "--queue", "slow")
    shown = shell.ok("doctor", "shop:app")
    assert "warning  queues" in shown
    assert "no live worker serves 'slow' (1 jobs)" in shown


def test_people_read_it_in_portuguese_and_programs_in_english(shell: Shell) -> None:
    """By the variables of POSIX; JSON is the same for everybody."""
    shell.ok("enqueue", "shop:app", "send")
    brazil = {"LC_ALL": "pt_BR.UTF-8"}
    shown = shell.run("doctor", "shop:app", env=brazil).stdout
    assert shown.split()[:3] == ["NÍVEL", "ASSUNTO", "CONSTATADO"]
    assert "inicie um: `mutirao worker module:app`" in shown
    machine = shell.run("doctor", "shop:app", "--json", env=brazil).stdout
    assert "start one: `mutirao worker module:app`" in machine


def test_a_problem(shell: Shell) -> None:
    """Status 1; as JSON one document with every finding."""
    shell.ok("enqueue", "shop:app", "send")
    result = shell.run("doctor", "shop:app", "--json")
    assert (result.exit_code, result.stderr) == (1, "")
    levels = {
        finding["about"]: finding["level"] for finding in json.loads(result.stdout)["findings"]
    }
    assert (levels["workers"], levels["schema"]) == ("problem", "ok")


def test_without_tables(empty_shell: Shell) -> None:
    """It says so itself, as a problem, rather than refusing to look; with the status of others."""
    result = empty_shell.run("doctor", "shop:app")
    assert result.exit_code == 3
    assert "problem  schema" in result.stdout
