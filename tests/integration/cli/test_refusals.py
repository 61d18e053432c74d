"""What every command makes of values that are far out of range: one sentence, and no traceback."""

from __future__ import annotations

import pytest

from tests.integration.cli.conftest import Shell

pytestmark = pytest.mark.repeats("postgresql", "mysql", decided="tests/conformance")

APP = "shop:app"
HUGE = "9" * 20
AGES = "999999999999d"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("show", APP, HUGE), "is no id; give a whole number from 1 to"),
        (("list", APP, HUGE), "is no id"),
        (("list", APP, "--graph", HUGE), "is no id"),
        (("list", APP, "--limit", HUGE), "give a whole number from 0 to"),
        (("list", APP, "--before", AGES), "is too long; give at most 115741d"),
        (("cancel", APP, HUGE), "is no id"),
        (("retry", APP, HUGE), "is no id"),
        (("redrive", APP, HUGE), "is no id"),
        (("graphs", "show", APP, HUGE), "is no id"),
        (("graphs", "list", APP, "--limit", HUGE), "give a whole number from 0 to"),
        (("enqueue", APP, "send", "--delay", AGES), "is too long"),
        (("enqueue", APP, "send", "--timeout", AGES), "is too long"),
        (("schedules", "put", APP, "s", "send", "--every", AGES), "is too long"),
        (("prune", APP, "--older-than", AGES), "is too long"),
        (("worker", APP, "-c", HUGE), "give at most 100000"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_numbers_that_no_database_holds(shell: Shell, command: tuple[str, ...], words: str) -> None:
    """Refused before anything is asked of the database."""
    result = shell.run(*command)
    assert result.exit_code in (1, 2)
    assert words in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (("lst", APP), " Did you mean 'list'?"),
        (("schedules", "lisst", APP), " Did you mean 'list'?"),
        (("frobnicate",), ""),
    ],
)
def test_a_command_that_is_none(sqlite_shell: Shell, command: tuple[str, ...], hint: str) -> None:
    """Those of similar names are suggested, whatever the version of click."""
    said = sqlite_shell.refused(2, *command)
    assert f"Error: No such command {command[-1 - (APP in command)]!r}.{hint}\n" in said
