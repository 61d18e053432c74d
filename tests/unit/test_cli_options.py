"""Options of commands that take lists: separated by commas, repeated, or by a variable."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from mutirao.cli import main
from mutirao.cli.relay import relay
from mutirao.cli.sections import OTHERS, WORKER
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


def test_the_help_of_a_worker_has_sections() -> None:
    """Each option stands in one of them, and each of them has some."""
    found = CliRunner().invoke(main, ["worker", "--help"]).output
    places = [found.index(f"\n{name}:\n") for name in (*WORKER, OTHERS)]
    assert places == sorted(places)
    written = re.findall(r"^  (?:-\w, )?(--[\w-]+)", found[places[0] :], re.MULTILINE)
    assert len(written) == len({*written})
    assert {*written} == {
        max(each.opts, key=len) for each in worker.params if isinstance(each, click.Option)
    } | {"--help"}
    in_last = found[places[-1] :]
    assert {"--reload", "--log-level", "--help"} <= {*re.findall(r"--[\w-]+", in_last)}
    assert len(re.findall(r"^  (?:-\w, )?--", in_last, re.MULTILINE)) <= 5
