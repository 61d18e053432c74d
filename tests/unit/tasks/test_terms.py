"""An option is listed once: the command line and the stores take it from there."""

from dataclasses import fields
from typing import Annotated, Any, TypedDict

import click
import pytest
from click.testing import CliRunner

from mutirao.cli.enqueue import enqueue
from mutirao.cli.jobs import change
from mutirao.cli.terms import options_of
from mutirao.model.jobs.job import Claim, NewJob
from mutirao.sql.enqueue.job_columns import FACTS
from mutirao.sql.schema.tables import job, live
from mutirao.tasks.options import CallTerms, ChangeTerms, Duration, KeyTerms


@pytest.mark.parametrize(
    ("command", "terms", "others"),
    [(enqueue, CallTerms, {}), (change, ChangeTerms, {"queue": "to_queue"})],
)
def test_the_command_line_has_each(
    command: click.Command, terms: type, others: dict[str, str]
) -> None:
    """What a call in code takes, a command takes, with a text that says what it does."""
    texts = {each.name: each.help for each in command.params if isinstance(each, click.Option)}
    assert all(texts[others.get(name, name)] for name in terms.__annotations__)


def test_an_option_is_made_of_type_and_text() -> None:
    """The type says how it is read; another name for it is given where it is shown."""

    class Terms(KeyTerms, total=False):
        pause: Annotated[Duration | None, "So long."]
        tall: Annotated[int | None, "So tall."]

    given = dict[str, Any]()

    @click.command()
    @options_of(Terms, tall=("--height", "tall"))
    def command(**options: Any) -> None:
        given.update(options)

    found = CliRunner().invoke(command, ["--pause", "2h", "--height", "3", "--scope", "all"])
    assert found.exit_code == 0, found.output
    assert (given["pause"].total_seconds(), given["tall"], given["scope"]) == (7_200, 3, "all")
    assert given["on_conflict"] is None
    assert [each.name for each in command.params][:2] == ["pause", "tall"]


def test_a_type_that_nobody_reads() -> None:
    """A field of a type that no text becomes is found when the command is made, not when used."""

    class Terms(TypedDict, total=False):
        shape: Annotated[complex, "A shape."]

    with pytest.raises(KeyError, match="complex"):
        options_of(Terms)(lambda **_: None)


def test_all_of_a_job_is_stored() -> None:
    """A field of a new job is a column of its row, or among the few that become something else."""
    elsewhere = {"run_at", "delay", "unique", "refers", "fair_by", "checked", "expires"}
    assert {each.name for each in fields(NewJob)} - elsewhere == set(FACTS)
    assert {"id", "run_at", "enqueued_at", "version", *FACTS} == set(job.c.keys())


def test_all_of_a_claim_is_read() -> None:
    """A field of a claim is a column of what waits, or else of what was asked."""
    assert set(Claim._fields) <= {*job.c.keys(), *live.c.keys()}
