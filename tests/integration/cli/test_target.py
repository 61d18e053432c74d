"""`module:attribute`: how the application is found, and what is said where it is not."""

from __future__ import annotations

import sys

import pytest

from tests.integration.cli.conftest import Shell


@pytest.mark.parametrize("target", ["shop:app", "shop:inner.app"])
def test_found(sqlite_shell: Shell, target: str) -> None:
    """In the current directory, and below a dotted attribute."""
    assert sqlite_shell.ok("list", target) == "no such jobs\n"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("shop", "'shop' names no application: write module:attribute, such as shop:app"),
        (":app", "write module:attribute"),
        ("shop.py:", "write module:attribute"),
        ("./shop:app", "write module:attribute"),
        ("shopp:app", "no module 'shopp'"),
        ("shopp:app", "did you mean shop?"),
        ("shop.deeper:app", "no module 'shop.deeper'"),
        ("shop:ap", "has no 'ap'; there is shop:app. Did you mean app?"),
        ("shop:inner.nothing", "has no 'inner.nothing'"),
        ("shop:orders", "shop:orders is a list, not a Mutirao application; there is shop:app."),
        ("shop:send", "shop:send is a Task, not a Mutirao application"),
        ("os:path", "there is none in os: make one with app = Mutirao(url)."),
        ("broken:app", "importing 'broken' failed with ZeroDivisionError"),
        ("broken:app", "broken.py, line 2)"),
        ("other:app", "importing 'other' failed with ModuleNotFoundError"),
    ],
)
def test_not_found(sqlite_shell: Shell, target: str, expected: str) -> None:
    """What was found instead, and what comes near, in one line and with status 2."""
    (sqlite_shell.directory / "broken.py").write_text("one = 1\none / 0\n")
    (sqlite_shell.directory / "other.py").write_text("import no_such_package\n")
    said = sqlite_shell.refused(2, "list", target)
    assert expected in said
    assert len(said.splitlines()) == 1


def test_from_the_variable(sqlite_shell: Shell) -> None:
    """MUTIRAO_APP stands in for an argument that is left out; ids after it are ids."""
    env = {"MUTIRAO_APP": "shop:app"}
    sqlite_shell.ok("enqueue", "send", '{"order_id": 7}', env=env)
    assert sqlite_shell.ok("list", env=env).splitlines()[1].startswith("1 ")
    assert "id:           1\n" in sqlite_shell.ok("show", 1, env=env)
    assert sqlite_shell.ok("cancel", "--yes", "--queue", "mail", env=env) == "cancelled: 1\n"


def test_the_argument_wins_over_the_variable(sqlite_shell: Shell) -> None:
    """What is written on the command line is meant."""
    env = {"MUTIRAO_APP": "nowhere:app"}
    assert sqlite_shell.ok("list", "shop:app", env=env) == "no such jobs\n"
    assert "no module 'nowhere'" in sqlite_shell.refused(2, "list", env=env)


def test_options_from_variables(sqlite_shell: Shell) -> None:
    """Every option has a variable, which an argument overrides."""
    made = sqlite_shell.history()
    env = {"MUTIRAO_LIST_STATE": "dead", "MUTIRAO_JSON": "1"}
    assert f'"id": {made.dead},' in sqlite_shell.ok("list", "shop:app", env=env)
    assert f'"id": {made.ready},' in sqlite_shell.ok(
        "list", "shop:app", "--state", "ready", env=env
    )


def test_the_current_directory_is_importable_once(sqlite_shell: Shell) -> None:
    """It is put first, and not again for every command."""
    for _ in range(2):
        sqlite_shell.ok("list", "shop:app")
    assert sys.path.count(str(sqlite_shell.directory)) == 1
    assert sys.path[0] == str(sqlite_shell.directory)
