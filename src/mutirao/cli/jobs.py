"""`list`, `show`, `retry`, `cancel`, `change` and `redrive`: inspect jobs and act on them."""

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import click

from mutirao.app import Mutirao
from mutirao.cli.options import (
    Wanted,
    as_json,
    ask,
    chosen,
    filters,
    option,
    target,
    text_of,
    user,
    wanted,
)
from mutirao.cli.output import first_line, print_fields, print_json, print_table, print_text, say
from mutirao.cli.target import ApiCommand, ApiFilterCommand, load_app
from mutirao.cli.terms import options_of
from mutirao.client.jobs import why_not_redriven
from mutirao.errors import NothingToRedrive
from mutirao.model.audit.actions import ActionKind, NewAction
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobRecord
from mutirao.model.keys.uniqueness import PARKED
from mutirao.tasks.options import ChangeTerms, change_of

_NOT_LISTED = ("result", "payload", "attempts")
by = option("--as", "by", default=user, show_default="the system's user",
            help="Who does it, for the audit.")  # fmt: skip
yes = option("--yes", "-y", is_flag=True, help="Do not ask, where no ids are given.")


@dataclass(frozen=True)
class JobCommand:
    """An operation on jobs: its name, the function that performs it, and the message afterwards."""

    verb: str
    give: Callable[..., Awaitable[list[int]]]  # takes the application, and which jobs
    done: str
    nothing: str = "no such jobs"
    change: str | None = None  # the new values, as JSON


async def _redrive(app: Mutirao, **which: Any) -> list[int]:
    with suppress(NothingToRedrive):  # each reason is printed on a line of its own
        return await app.aredrive(**which)
    return []


RETRY = JobCommand("retry", Mutirao.aretry, "due now")
CANCEL = JobCommand("cancel", Mutirao.acancel, "cancelled")
REDRIVE = JobCommand(
    "redrive",
    _redrive,
    "enqueued as new jobs",
    "no such jobs, but for live ones and those that were enqueued again before",
)


@click.command("list", cls=ApiFilterCommand)
@target
@wanted
@filters(limit=100)
@as_json
def list_(target: str, wanted: Wanted, as_json: bool, **given: Any) -> None:
    """List jobs, newest first: all, or those of a filter.

    \b
    mutirao list shop:app state:dead 'task:send_*' older:2h -queue:mail
    """
    app = load_app(target)
    found = ask(app, lambda: app.ajobs(**chosen(wanted, given)))
    if as_json:
        print_json([_as_listed(job) for job in found])
        return
    print_jobs(found)


def print_jobs(found: Sequence[JobRecord]) -> None:
    """Print jobs as a table."""
    progressing = any(job.progress is not None for job in found)  # most handlers report no progress
    print_table(
        ("id", "task", "queue", "state", "attempt", "due", "finished",
         *(["progress"] if progressing else []), "error"),
        [
            (j.id, j.task, j.queue, j.state, j.attempt, None if j.run_at == PARKED else j.run_at,
             j.finished_at, *([_progress(j)] if progressing else []), _error(j))
            for j in found
        ],
        empty="no such jobs",
    )  # fmt: skip


def _as_listed(job: JobRecord) -> dict[str, Any]:
    """Return the fields that a list shows of a job, without those that were not read."""
    return {name: getattr(job, name) for name in JobRecord.__slots__ if name not in _NOT_LISTED}


@click.command(cls=ApiCommand)
@target
@click.argument("id", type=click.IntRange(min=1))
@as_json
def show(target: str, id: int, as_json: bool) -> None:
    """Show a job with all its attempts."""
    app = load_app(target)
    job = ask(app, lambda: app.ajob(id))
    if as_json:
        print_json(job)
        return
    print_job(job)


def print_job(job: JobRecord) -> None:
    """Print a job with its attempts."""
    shown = [name for name in JobRecord.__slots__ if name not in ("attempts", "error")]
    print_fields((name.replace("_", " "), getattr(job, name)) for name in shown)
    click.echo()
    sent = any(a.status is not None for a in job.attempts)  # a webhook
    print_table(
        ("attempt", "run", "worker", "outcome", "started", "seconds",
         *(["status"] if sent else []), "error"),
        [
            (a.attempt, a.run, a.worker, a.outcome, a.started_at,
             (a.finished_at - a.started_at).total_seconds(), *([a.status] if sent else []),
             a.error_type)
            for a in job.attempts
        ],
        empty="not attempted yet",
    )  # fmt: skip
    if job.error:
        click.echo()
        print_text(job.error)


@click.command(cls=ApiFilterCommand)
@target
@wanted
@filters(limit=None)
@by
@yes
@as_json
def retry(target: str, wanted: Wanted, by: str, yes: bool, as_json: bool, **given: Any) -> None:
    """Make waiting jobs due now, by id or by filter. (Dead ones: see redrive.)"""
    _order(RETRY, target, wanted, by, yes, as_json, given)


@click.command(cls=ApiFilterCommand)
@target
@wanted
@filters(limit=None)
@by
@yes
@as_json
def cancel(target: str, wanted: Wanted, by: str, yes: bool, as_json: bool, **given: Any) -> None:
    """Cancel jobs, by id or by filter; running ones learn of it with the next heartbeat."""
    _order(CANCEL, target, wanted, by, yes, as_json, given)


@click.command(cls=ApiFilterCommand)
@target
@wanted
@filters(limit=None)
@options_of(ChangeTerms, queue=("--to-queue",))
@by
@yes
@as_json
def change(
    target: str,
    wanted: Wanted,
    by: str,
    yes: bool,
    as_json: bool,
    to_queue: str | None,
    **given: Any,
) -> None:
    """Give waiting jobs new values, by id or by filter: a priority, a queue, a time.

    \b
    mutirao change shop:app 7 --priority -5
    mutirao change shop:app queue:mail older:2h --to-queue bulk --delay 15m --yes
    """
    others = (name for name in ChangeTerms.__annotations__ if name != "queue")
    new = cast(ChangeTerms, {"queue": to_queue} | {name: given.pop(name) for name in others})
    change_of(new)  # before anything is asked

    def give(app: Mutirao, **which: Any) -> Awaitable[list[int]]:
        return app.achange(where=which, **new)  # type: ignore[arg-type]

    change = json.dumps(
        {name: value for name, value in new.items() if value is not None}, default=str
    )
    order = JobCommand("change", give, "changed", change=change)
    _order(order, target, wanted, by, yes, as_json, given)


@click.command(cls=ApiFilterCommand)
@target
@wanted
@filters(limit=None)
@by
@yes
@as_json
def redrive(target: str, wanted: Wanted, by: str, yes: bool, as_json: bool, **given: Any) -> None:
    """Enqueue finished jobs again, by id or by filter; the new ones are linked to them.

    By filter only dead ones, unless it says which state, and none that were redriven before.
    """
    _order(REDRIVE, target, wanted, by, yes, as_json, given)


def _order(
    order: JobCommand,
    target: str,
    wanted: Wanted,
    by: str,
    yes: bool,
    as_json: bool,
    given: dict[str, Any],
) -> None:
    """Perform an operation on jobs, print which it changed, and fail if it missed a named one."""
    confirm(order.verb, wanted, yes, given)
    ids, app, which = wanted.ids, load_app(target), chosen(wanted, given)

    async def body() -> tuple[list[int], list[str]]:
        before = await _named(app, ids)
        new = NewAction(
            who=by,
            action=ActionKind(order.verb),
            filter=None if ids else text_of(wanted, given),
            ids=ids or None,
            change=order.change,
        )
        reached = [*await app.actions.aobserve(new, lambda: order.give(app, **which))]
        refusals = (_refusal(order, id, before.get(id), reached) for id in ids)
        return reached, [why for why in refusals if why is not None]

    reached, refused = ask(app, body)
    if as_json:
        print_json({"ids": reached, "refused": refused})
    elif reached or not refused:
        say(f"{order.done}: {', '.join(map(str, reached))}" if reached else order.nothing)
    for why in refused:
        say(f"mutirao: {why}", error=True)
    if refused:
        raise click.exceptions.Exit(1)


def confirm(verb: str, wanted: Wanted, yes: bool, given: dict[str, Any]) -> None:
    """Ask for confirmation, unless jobs are named or `yes` was given."""
    if wanted.ids:
        return
    given = {"filter": wanted.filter, **given}
    named = {
        name: value for name, value in given.items() if value not in (None, ()) and name != "limit"
    }
    if not named:
        raise click.UsageError(f"Say which jobs to {verb}: ids, or a filter such as queue:mail.")
    if yes:
        return
    described = ", ".join(_described(name, named[name]) for name in sorted(named))
    if not sys.stdin.isatty():
        raise click.UsageError(f"To {verb} all jobs of {described}, add --yes.")
    click.confirm(f"{verb.capitalize()} all jobs of {described}?", abort=True, err=True)


def _described(name: str, value: Any) -> str:
    if name == "states":
        return f"state {' or '.join(value)}"
    if name == "queues":
        return f"queue {' or '.join(value)}"
    if name == "args":
        return ", ".join(f"{argument} {json.dumps(its)}" for argument, its in value)
    return f"{name.replace('_', ' ')} {value}"


async def _named(app: Mutirao, ids: tuple[int, ...]) -> dict[int, JobRecord]:
    if not ids:
        return {}
    return {job.id: job for job in await app.ajobs(ids=ids, limit=None)}


def _refusal(order: JobCommand, id: int, job: JobRecord | None, reached: list[int]) -> str | None:
    """Return why an operation did not change a named job, or None if it did."""
    if order is REDRIVE:
        return why_not_redriven(id, job)
    if job is None:
        return f"there is no job {id}"
    if id in reached:
        return None
    if order is RETRY and job.state is JobState.DEAD:
        return f"job {id} is dead; `mutirao redrive` enqueues it again as a new job"
    return f"job {id} is {job.state}: there is nothing to {order.verb}"


def _progress(job: JobRecord) -> str:
    if job.progress is None:
        return ""
    of = "" if job.progress_of is None else f"/{job.progress_of:g}"
    return first_line(f"{job.progress:g}{of} {job.progress_note or ''}", 30)


def _error(job: JobRecord) -> str:
    return first_line(f"{job.error_type}: {job.error}" if job.error_type else job.error)
