"""`limits`, `pause`, `resume`: list and change how many jobs run at once."""

from datetime import timedelta
from typing import TypeVar

import click

from mutirao.cli.group import WholeHelp
from mutirao.cli.options import Command, as_json, ask, duration, noted, option, target
from mutirao.cli.output import origin_of, print_done, print_json, print_table
from mutirao.cli.target import ApiCommand, AppCommand, load_app
from mutirao.model.audit.actions import About
from mutirao.model.limits.limits import Limit, LimitRecord

T = TypeVar("T")


def _target_options(command: Command) -> Command:
    for decorate in (
        option("--queue", help="A queue, or give --task."),
        option("--task", help="A task, or give --queue."),
        option("--by", help="The name of an argument whose values count separately."),
    ):
        command = decorate(command)
    return command


@click.group(cls=WholeHelp)
def limits() -> None:
    """List, put and remove limits on how many jobs run at once, or start in a period."""


@limits.command("list", cls=AppCommand)
@target
@as_json
def list_(target: str, as_json: bool) -> None:
    """List limits and pauses by name, with their current use."""
    app = load_app(target)
    found = ask(app, lambda: app.limits.alist())
    if as_json:
        print_json(found)
        return
    print_table(
        ("name", "of", "by", "key", "most", "running", "tokens", "blocked", "origin"),
        [
            (m.name, f"queue {m.queue}" if m.task is None else f"task {m.task}", m.by, m.key,
             _most(m), m.running, None if m.tokens is None else int(m.tokens), m.parked,
             origin_of(m))
            for m in found
        ],
        empty="no limits",
    )  # fmt: skip


@limits.command(cls=AppCommand)
@target
@click.argument("most", type=int)
@_target_options
@option("--per", type=duration, help="The time in which so many may start (1, 60, 2h).")
@option("--burst", type=int, help="With --per: how many may start at once after a rest.")
@option("--name", help="What it is called, instead of a name made of the rest.")
@as_json
def put(
    target: str,
    most: int,
    queue: str | None,
    task: str | None,
    by: str | None,
    per: timedelta | None,
    burst: int | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Limit a queue or a task to MOST jobs at once, or to MOST starts in a period.

    \b
    mutirao limits put shop:app 5 --task call_api --by tenant
    mutirao limits put shop:app 100 --queue mail --per 60 --burst 20
    """
    app = load_app(target)
    limit = Limit(most, per=per, burst=burst, by=by, name=name)
    made = noted(
        app,
        About("put", "limit", name or _in_words({"queue": queue, "task": task, "by": by})),
        lambda: app.limits.aput(limit, queue=queue, task=task),
    )
    print_done({"put": made}, f"limit {made} is in force", as_json)


@limits.command(cls=AppCommand)
@target
@click.argument("name")
@as_json
def remove(target: str, name: str, as_json: bool) -> None:
    """Remove limit NAME. If it is in the code, the next worker that starts restores it."""
    app = load_app(target)
    noted(app, About("remove", "limit", name), lambda: app.limits.aremove(name))
    print_done({"removed": name}, f"limit {name} is removed", as_json)


@click.command(cls=ApiCommand)
@target
@_target_options
@option("--key", help="Only jobs with this value of the argument.")
@as_json
def pause(target: str, as_json: bool, **which: str | None) -> None:
    """Pause a queue, a task or a key: no more of its jobs start until it is resumed.

    \b
    mutirao pause shop:app --queue mail
    mutirao pause shop:app --task call_api --key acme
    """
    app = load_app(target)
    noted(app, _about("pause", which), lambda: app.apause(**which))
    print_done({"paused": _named(which)}, f"{_in_words(which)} is paused", as_json)


@click.command(cls=ApiCommand)
@target
@_target_options
@option("--key", help="Only jobs with this value of the argument.")
@as_json
def resume(target: str, as_json: bool, **which: str | None) -> None:
    """Resume what was paused with the same options."""
    app = load_app(target)
    noted(app, _about("resume", which), lambda: app.aresume(**which))
    print_done({"resumed": _named(which)}, f"{_in_words(which)} is resumed", as_json)


def _about(command: str, which: dict[str, str | None]) -> About:
    """Return the entry of the audit for what is paused or resumed: a queue by its name alone."""
    said = _named(which)
    of = next(iter(said), "queue")
    rest = (f"{each} {value}" for each, value in said.items() if each != of)
    return About(command, of, " ".join((said.get(of, ""), *rest)))


def _named(which: dict[str, str | None]) -> dict[str, str]:
    order = ("queue", "task", "by", "key")
    return {name: value for name in order if (value := which.get(name)) is not None}


def _in_words(which: dict[str, str | None]) -> str:
    return " ".join(f"{name} {value}" for name, value in _named(which).items())


def _most(limit: LimitRecord) -> str:
    if limit.paused:
        return "paused"
    if limit.per is None:
        return str(limit.most)
    return f"{limit.most} per {limit.per:g} s, burst {limit.burst}"
