"""What the command line changes is in the audit: by whom, and what of it failed."""

from __future__ import annotations

import getpass
import json

import pytest

from mutirao.cli import options
from tests.integration.cli.conftest import Shell

pytestmark = pytest.mark.repeats(
    "postgresql", "mysql", decided="conformance/src/mutirao_conformance/audit.py"
)

APP = "shop:app"
COMMANDS = {
    ("limits", "put", APP, "5", "--task", "send"): ("put", "limit", "task send"),
    ("limits", "remove", APP, "task send"): ("remove", "limit", "task send"),
    ("pause", APP, "--queue", "mail"): ("pause", "queue", "mail"),
    ("resume", APP, "--queue", "mail"): ("resume", "queue", "mail"),
    ("pause", APP, "--task", "send", "--by", "order_id", "--key", "7"): (
        "pause", "task", "send by order_id key 7",
    ),
    ("schedules", "put", APP, "nightly", "send", '{"order_id": 7}', "--every", "1h"): (
        "put", "schedule", "nightly",
    ),
    ("schedules", "change", APP, "nightly", "--every", "2h"): ("change", "schedule", "nightly"),
    ("schedules", "pause", APP, "nightly"): ("pause", "schedule", "nightly"),
    ("schedules", "resume", APP, "nightly"): ("resume", "schedule", "nightly"),
    ("schedules", "run", APP, "nightly"): ("run", "schedule", "nightly"),
    ("schedules", "remove", APP, "nightly"): ("remove", "schedule", "nightly"),
    ("hosts", "hold", APP, "social.example"): ("hold", "host", "social.example"),
    ("hosts", "flush", APP, "social.example"): ("flush", "host", "social.example"),
    ("prune", APP, "--outcome", "dead"): ("prune", "history", "dead, older than 7 days, 0:00:00"),
}  # fmt: skip


def test_each_change_is_an_entry(shell: Shell) -> None:
    """With its name, in the order in which they were given; looking makes none."""
    for words in COMMANDS:
        shell.ok(*words)
    shell.ok("limits", "list", APP)
    shell.run("schedules", "pause", APP, "none")
    shell.run("pause", APP)  # says nothing of what
    entries = shell.json("audit", APP, "--limit", 100)[::-1]
    found = [tuple(json.loads(each["change"]).values()) for each in entries]
    wanted = [*COMMANDS.values(), ("pause", "schedule", "none"), ("pause", "queue", "")]
    assert found == wanted
    assert {each["state"] for each in entries[:-2]} == {"done"}
    assert {each["state"] for each in entries[-2:]} == {"failed"}
    assert {each["who"] for each in entries} == {options.user()} == {getpass.getuser()}
