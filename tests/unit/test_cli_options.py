"""Options of commands that take lists: separated by commas, repeated, or by a variable."""

from __future__ import annotations

import click
import pytest

from mutirao.cli.relay import relay
from mutirao.cli.worker import worker


def given(command: click.Command, *words: str) -> dict[str, object]:
    """Return the options of a command line."""
    return command.make_context("mutirao", ["shop:app", *words]).params


def test_repeated() -> None:
    """All of them count, in their order."""
    found = given(worker, "-q", "a", "--queues", "b, c", "--tasks", "x", "--tasks", "y")
    assert (found["queues"], found["tasks"]) == (("a", "b", "c"), ("x", "y"))
    assert (found["exclude_queues"], found["webhook_schemes"]) == (None, ("https",))
    assert given(relay, "--exclude-queues", "a,b")["exclude_queues"] == ("a", "b")
    found = given(worker, "--webhook-ports", "443", "--webhook-ports", "8000-8010,9000")
    assert found["webhook_ports"] == "443,8000-8010,9000"
    with pytest.raises(click.BadParameter, match="is no port"):
        given(worker, "--webhook-ports", "443,none")
