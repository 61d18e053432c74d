"""`mutirao limits …`, `pause` and `resume`: the whole life of one, and what bad input gets."""

from __future__ import annotations

import pytest

from tests.integration.cli.conftest import Shell

pytestmark = pytest.mark.repeats(
    "postgresql", "mysql", decided="conformance/src/mutirao_conformance/limits.py"
)

APP = "shop:app"


def test_a_life(shell: Shell) -> None:
    """Put, listed, changed, removed; each answers in a line."""
    assert shell.ok("limits", "put", APP, 5, "--task", "send") == "limit task send is in force\n"
    shell.ok("limits", "put", APP, 100, "--queue", "mail", "--per", "60", "--burst", 20)
    listed = shell.ok("limits", "list", APP).splitlines()
    assert listed[0].split()[:4] == ["NAME", "OF", "BY", "KEY"]
    assert "100 per 60 s, burst 20" in listed[1]
    assert "task send" in listed[2]
    assert shell.json("limits", "put", APP, 7, "--task", "send") == {"put": "task send"}
    found = {each["name"]: each for each in shell.json("limits", "list", APP)}
    assert (found["task send"]["most"], found["task send"]["origin"]) == (7, "command")
    removed = shell.ok("limits", "remove", APP, "queue mail rate")
    assert removed == "limit queue mail rate is removed\n"
    shell.ok("limits", "remove", APP, "task send")
    assert shell.ok("limits", "list", APP) == "no limits\n"


def test_pause_and_resume(shell: Shell) -> None:
    """Its jobs are blocked meanwhile, and `doctor` says why."""
    shell.ok("enqueue", APP, "send", '{"order_id": 7}')
    assert shell.ok("pause", APP, "--queue", "mail") == "queue mail is paused\n"
    assert "paused" in shell.ok("limits", "list", APP)
    assert [job["state"] for job in shell.json("list", APP)] == ["blocked"]
    assert "paused: 'queue mail'" in shell.run("doctor", APP).stdout
    assert shell.ok("resume", APP, "--queue", "mail") == "queue mail is resumed\n"
    assert [job["state"] for job in shell.json("list", APP)] == ["ready"]
    said = shell.ok("pause", APP, "--task", "send", "--by", "order_id", "--key", 7)
    assert "task send" in said
    shell.ok("resume", APP, "--task", "send", "--by", "order_id", "--key", 7)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("limits", "put", APP, 0, "--task", "send"), "to let nothing run, pause"),
        (("limits", "put", APP, 5), "name the one or the other"),
        (("limits", "put", APP, 5, "--task", "send", "--burst", 2), "no period is given"),
        (("limits", "put", APP, 5, "--task", "sned"), "no task 'sned' is registered here"),
        (
            ("limits", "put", APP, 5, "--task", "send", "--by", "order"),
            "no argument of task 'send'",
        ),
        (("pause", APP, "--task", "sned"), "no task 'sned' is registered here"),
        (("limits", "remove", APP, "nothing"), "no limit is called 'nothing'"),
        (("resume", APP, "--queue", "mail"), "queue mail is not paused"),
        (("pause", APP), "name the one or the other"),
        (("pause", APP, "--task", "send", "--key", "a"), "say of which argument"),
    ],
)
def test_bad_input(shell: Shell, words: tuple[object, ...], expected: str) -> None:
    """It says what to do."""
    assert expected in " ".join(shell.refused(1, *words).split())
