"""`prune`, `doctor`, `audit`: keep the tables small, find problems, see what people did."""

import asyncio
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click

from mutirao.app import Mutirao
from mutirao.cli.group import REFUSED, SCHEMA
from mutirao.cli.options import age, as_json, ask, noted, option, target
from mutirao.cli.output import print_done, print_json, print_table
from mutirao.cli.target import ApiCommand, AppCommand, load_app
from mutirao.errors import UnknownJob
from mutirao.model.audit.actions import About, AuditRecord
from mutirao.model.finding_texts.translation import language_of, translated, translated_text
from mutirao.model.findings import Finding, Level
from mutirao.model.jobs.job import FINAL_OUTCOMES, OutcomeKind

_OUTCOMES = sorted(str(outcome) for outcome in FINAL_OUTCOMES)


@click.command(cls=AppCommand)
@target
@option(
    *("--outcome", "outcomes"),
    type=click.Choice(_OUTCOMES),
    multiple=True,
    default=("succeeded", "cancelled"),
    help="Jobs that ended so; may be repeated.",
)
@option("--older-than", type=age, default="7d", help="Finished at least so long ago.")
@option("--batch", type=click.IntRange(min=1), default=1_000, help="Jobs deleted at once.")
@as_json
def prune(
    target: str, outcomes: tuple[str, ...], older_than: timedelta, batch: int, as_json: bool
) -> None:
    """Delete finished jobs and their attempts, in small batches. Workers do this by themselves."""

    app = load_app(target)

    async def body() -> dict[str, int]:
        return {
            outcome: await _prune(app, OutcomeKind(outcome), older_than, batch)
            for outcome in outcomes
        }

    which = f"{', '.join(outcomes)}, older than {older_than}"
    deleted = noted(app, About("prune", "history", which), body)
    if as_json:
        print_json({"deleted": deleted})
    else:
        click.echo(
            "\n".join(f"{count} {outcome} jobs deleted" for outcome, count in deleted.items())
        )


@click.command(cls=AppCommand)
@target
@as_json
def doctor(target: str, as_json: bool) -> None:
    """Examine the database and the workers; report problems and what to do about them.

    Checks the schema's version, the clocks, the use of indexes, bloat, queues that no worker
    serves, tasks that this application does not have, and workers. Exits with 1 if there is a
    problem, 3 if it is the schema; decide yourself about warnings. Texts are in Portuguese where
    LC_ALL, LC_MESSAGES or LANG asks for it; JSON is always in English.
    """
    findings = asyncio.run(_examined(load_app(target)))
    if as_json:
        print_json({"findings": findings})
    else:
        _print_findings(findings, language_of(os.environ))
    problems = {finding.about for finding in findings if finding.level is Level.PROBLEM}
    if problems:
        raise click.exceptions.Exit(SCHEMA if "schema" in problems else REFUSED)


def _print_findings(findings: Sequence[Finding], language: str) -> None:
    said = [translated(each, language) for each in findings]
    rows: list[tuple[Any, ...]] = [(f.level, f.about, f.found, f.advice) for f in said]
    head = ("level", "about", "found", "what to do")
    columns = [translated_text(each, language) for each in head]
    print_table(columns, rows, empty=translated_text("nothing to examine", language))


async def _examined(app: Mutirao) -> list[Finding]:
    try:
        return await app.aexamine()
    finally:
        await app.aclose()


async def _prune(app: Mutirao, outcome: OutcomeKind, older_than: timedelta, batch: int) -> int:
    total = 0
    while deleted := await app.aprune(outcome, older_than, batch):
        total += deleted
    return total


@click.command(cls=ApiCommand)
@target
@option("--limit", type=click.IntRange(min=1, max=10_000), default=20, help="At most so many.")
@option("--stop", type=click.IntRange(min=1), help="Stop this action after its batch.")
@as_json
def audit(target: str, limit: int, stop: int | None, as_json: bool) -> None:
    """List what people did, newest first; or stop an action that runs."""
    app = load_app(target)
    if stop is not None:
        if not ask(app, lambda: app.actions.astop(stop)):
            raise UnknownJob(f"no action {stop} is running; `mutirao audit` lists them")
        print_done({"id": stop}, f"action {stop} stops after its batch", as_json)
        return
    found = ask(app, lambda: app.actions.alist(limit=limit))
    if as_json:
        print_json(found)
        return
    print_audit(found)


def print_audit(found: Sequence[AuditRecord]) -> None:
    """Print what people did."""
    print_table(
        ("id", "who", "action", "jobs", "done", "passed over", "state", "started"),
        [
            (each.id, each.who, *_said(each), each.state, each.started_at) for each in found
        ],
        empty="nothing was done yet",
    )  # fmt: skip


def _said(each: AuditRecord) -> tuple[Any, ...]:
    """Return what was done, to which jobs or to what else, and how far it came."""
    if each.about is not None:
        return each.about.command, f"{each.about.of} {each.about.name}", None, None
    return each.action, each.filter or each.ids, each.done, each.passed_over
