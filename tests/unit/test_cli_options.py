"""Options of commands that take lists: separated by commas, repeated, or by a variable."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mutirao.cli import main
from mutirao.cli.group import SUMMARIES
from mutirao.cli.relay import relay
from mutirao.cli.sections import OTHERS, WORKER
from mutirao.cli.worker import worker
from mutirao.engine import settings


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


def test_json_is_asked_for() -> None:
    """Behind a command or before all of them: old versions of click took a default for the flag."""
    command = main.get_command(click.Context(main), "list")
    assert command is not None
    assert (given(command)["as_json"], given(command, "--json")["as_json"]) == (False, True)
    parent = main.make_context("mutirao", ["--json", "list"])
    assert command.make_context("list", ["shop:app"], parent=parent).params["as_json"] is True


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


def test_a_setting_is_an_option() -> None:
    """Under its name, with its bounds and its default, where it has a text."""
    found = {each.name: each for each in worker.params if isinstance(each, click.Option)}
    for name, told in settings.options():
        assert (name in found) is (told.help is not None), name
        if told.help is not None:
            assert f"--{name.replace('_', '-')}" in found[name].opts
    usual = settings.WorkerSettings()
    for name in ("concurrency", "grace", "poll", "log_jobs", "prune_batch"):
        assert found[name].get_default(click.Context(worker)) == getattr(usual, name), name
    for words in (("--poll", "0"), ("-c", "0"), ("--connections", "2"), ("--log-jobs", "some")):
        with pytest.raises(click.BadParameter):
            given(worker, *words)


@pytest.mark.parametrize("command", ["worker", "relay", "webhooks"])
def test_the_help_is_as_it_is_kept(command: str) -> None:
    """People's scripts and habits know it: who changes it, changes the file beside this one."""
    told = subprocess.run(
        [sys.executable, "-m", "mutirao", command, "--help"],
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        check=True,
        text=True,
    )
    kept = Path(__file__).with_name("help") / f"{command}.txt"
    assert told.stdout == kept.read_text()


def test_all_commands_are_summed_up_as_they_say() -> None:
    """What `mutirao --help` writes of a command is the first sentence of the command's own."""
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    assert {name: each and each.get_short_help_str(1_000) for name, each in found.items()} == (
        SUMMARIES
    )
