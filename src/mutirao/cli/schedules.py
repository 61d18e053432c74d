"""`schedules`: list and change schedules."""

from collections.abc import Sequence
from datetime import UTC, timedelta
from typing import Any, TypeVar

import click

from mutirao.cli.group import WholeHelp
from mutirao.cli.options import (
    Command,
    as_json,
    ask,
    duration,
    json_object,
    moment,
    noted,
    option,
    target,
)
from mutirao.cli.output import fields_of, origin_of, print_done, print_json, print_table, say
from mutirao.cli.target import ApiCommand, AppCommand, load_app
from mutirao.model.audit.actions import About
from mutirao.model.schedules.schedule import CatchUp, Overlap, ScheduleRecord, ScheduleState, Terms

T = TypeVar("T")

name = click.argument("name")

_TERMS = (
    option("--cron", help="Minute, hour, day of month, month, day of week; or give --every."),
    option("--every", type=duration, help="The time between two ticks (90, 15m, 2h, 7d)."),
    option("--timezone", help="Of the cron line, such as America/Sao_Paulo; UTC unless given."),
    option(
        "--catch-up",
        type=click.Choice([str(each) for each in CatchUp]),
        help="Which of the ticks that nobody was there for still make jobs; last unless given.",
    ),
    option("--catch-up-limit", type=int, help="With `all`, the most of them; 100 unless given."),
    option(
        "--overlap",
        type=click.Choice([str(each) for each in Overlap]),
        help="While the last job is live: make another (allow, unless given), skip the tick, or"
        " count from its end.",
    ),
    option("--jitter", type=duration, help="Jobs are due up to so long after the tick."),
    option("--until", type=moment, help="No tick after this moment."),
    option("--max-runs", type=int, help="No tick after so many have made jobs."),
    option("--pause-after", type=int, help="Pause after so many jobs in a row have died."),
)


def _terms(command: Command) -> Command:
    """Add the options of a schedule to a command."""
    for each in reversed(_TERMS):
        command = each(command)
    return command


def _given(terms: dict[str, Any]) -> Terms:
    """Return the options that were given, for the schedule to check."""
    named: Any = {name: value for name, value in terms.items() if value is not None}
    found: Terms = named
    return found


@click.group(cls=WholeHelp)
def schedules() -> None:
    """List, put, change, pause, resume, run and remove schedules."""


@schedules.command("list", cls=ApiCommand)
@target
@as_json
def list_(target: str, as_json: bool) -> None:
    """List schedules by name, with their next ticks and the outcomes of their last jobs."""
    app = load_app(target)
    found = ask(app, lambda: app.schedules.alist())
    if as_json:
        print_json(found)
        return
    print_schedules(found)


def print_schedules(found: Sequence[ScheduleRecord]) -> None:
    """Print schedules as a table."""
    print_table(
        ("name", "task", "when", "status", "next", "last", "job", "state", "seconds", "origin"),
        [
            (s.name, s.task, _when(s), _status(s), s.next_at, s.last_tick, s.last_job, s.last_state,
             s.last_duration, origin_of(s))
            for s in found
        ],
        empty="no schedules",
    )  # fmt: skip


@schedules.command(cls=AppCommand)
@target
@name
@click.argument("task")
@click.argument("args", type=json_object, default="{}")
@_terms
@option("--queue", help="Of the jobs, instead of the task's.")
@option("--priority", type=int, help="Of the jobs; smaller runs first.")
@as_json
def put(
    target: str,
    name: str,
    task: str,
    args: dict[str, Any],
    cron: str | None,
    queue: str | None,
    priority: int | None,
    as_json: bool,
    **terms: Any,
) -> None:
    """Create schedule NAME of TASK with ARGS, a JSON object, or replace it.

    \b
    mutirao schedules put shop:app nightly report '{"days": 1}' --cron '30 3 * * *'
    """
    app = load_app(target)
    job = app.task_named(task).using(queue=queue, priority=priority).job(**args)
    given = _given(terms)
    state = noted(
        app,
        About("put", "schedule", name),
        lambda: app.schedules.aput(name, job, cron, **given),
    )
    _print(state, as_json)


@schedules.command(cls=AppCommand)
@target
@name
@_terms
@as_json
def change(target: str, name: str, cron: str | None, as_json: bool, **terms: Any) -> None:
    """Change options of schedule NAME; its job and the other options stay.

    \b
    mutirao schedules change shop:app nightly --overlap skip
    """
    app = load_app(target)
    given = _given(terms)
    if cron is None and not given:
        raise click.UsageError("no term is given; name at least one, such as --overlap skip")
    state = noted(
        app,
        About("change", "schedule", name),
        lambda: app.schedules.achange(name, cron=cron, **given),
    )
    _print(state, as_json)


@schedules.command(cls=ApiCommand)
@target
@name
@option("--reason", help="Shown in the list of schedules.")
@as_json
def pause(target: str, name: str, reason: str | None, as_json: bool) -> None:
    """Pause schedule NAME: it makes no jobs until it is resumed. Deploys leave it paused."""
    app = load_app(target)
    about = About("pause", "schedule", name)
    _print(noted(app, about, lambda: app.schedules.apause(name, reason=reason)), as_json)


@schedules.command(cls=ApiCommand)
@target
@name
@as_json
def resume(target: str, name: str, as_json: bool) -> None:
    """Resume schedule NAME; ticks that passed during the pause make no jobs."""
    app = load_app(target)
    about = About("resume", "schedule", name)
    _print(noted(app, about, lambda: app.schedules.aresume(name)), as_json)


@schedules.command(cls=AppCommand)
@target
@name
@as_json
def remove(target: str, name: str, as_json: bool) -> None:
    """Remove schedule NAME; its jobs stay. If it is in the code, the next worker restores it."""
    app = load_app(target)
    noted(app, About("remove", "schedule", name), lambda: app.schedules.aremove(name))
    print_done({"removed": name}, f"schedule {name} is removed", as_json)


@schedules.command(cls=ApiCommand)
@target
@name
@as_json
def run(target: str, name: str, as_json: bool) -> None:
    """Make a job of schedule NAME now, in addition to its ticks, paused or not."""
    app = load_app(target)
    about = About("run", "schedule", name)
    handle = noted(app, about, lambda: app.schedules.arun_now(name))
    line = f"enqueued job {handle.id} ({handle.task}) in queue {handle.queue}"
    print_done(fields_of(handle), line, as_json)


def _print(state: ScheduleState, as_json: bool) -> None:
    name, at = state.schedule.name, state.next_at
    if as_json:
        print_json({"name": name, "paused": state.paused, "next_at": at})
    elif state.paused:
        say(f"schedule {name} is paused")
    elif state.awaiting:
        say(f"schedule {name} ticks after the end of job {state.last_job}")
    elif at is None:
        say(f"schedule {name} has finished")
    else:
        say(f"schedule {name} ticks next at {at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}")


def _status(schedule: ScheduleRecord) -> str:
    status = str(schedule.status)
    return f"{status} ({schedule.reason})" if schedule.reason else status


def _when(schedule: ScheduleRecord) -> str:
    if schedule.every is not None:
        try:
            return f"every {timedelta(seconds=schedule.every)}"
        except (OverflowError, ValueError):  # the row was changed by hand
            return f"every {schedule.every} s"
    return f"{schedule.cron} {schedule.timezone}"
