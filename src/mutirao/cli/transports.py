"""`transports`: what queues need at their brokers, and the messages that are dead there."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import click

from mutirao.app import Mutirao
from mutirao.cli.group import WholeHelp
from mutirao.cli.options import as_json, option, target
from mutirao.cli.output import first_line, print_done, print_json, print_table, say
from mutirao.cli.target import AppCommand, load_app
from mutirao.client import transports as brokers
from mutirao.client.kept_schedules import look_at_schedules
from mutirao.errors import ConfigurationError, UnknownJob
from mutirao.model.brokers.message import DeadMessage
from mutirao.ports import Transport
from mutirao.ports.brokers import close_transports

T = TypeVar("T")
MANY = 100_000  # messages that are searched
SHOWN = 10_000  # characters of a body or an error

_queue = option("--queue", help="One queue, instead of all that brokers carry.")
_ids = click.argument("ids", nargs=-1)
_task = option("--task", help="Those of one task, instead of some ids.")
_error = option("--error", help="Those whose error has this text in it, instead of some ids.")
_all = option("--all", "all_", is_flag=True, help="All dead messages, instead of some ids.")


@click.group(cls=WholeHelp)
def transports() -> None:
    """Make what queues need at their brokers, and look after dead messages there."""


@transports.command(cls=AppCommand)
@target
@as_json
def declare(target: str, as_json: bool) -> None:
    """Make what queues need at their brokers; safe to repeat, and changes nothing."""
    app = _app(target)
    made = _ask(app, lambda: brokers.declare(app.transports, app.schedules.declared()))
    if as_json:
        print_json(made)
        return
    for broker, names in made.items():
        say(f"{broker} has all that its queues need ({len(names)} names)")


@transports.command(cls=AppCommand)
@target
@as_json
def compare(target: str, as_json: bool) -> None:
    """Say what is missing at the brokers, or otherwise than `declare` makes it."""
    app = _app(target)
    found = _ask(app, lambda: brokers.compare(app.transports, app.schedules.declared()))
    if as_json:
        print_json(found)
    for broker, differences in found.items() if not as_json else ():
        for each in differences or ("as it should be",):
            say(f"{broker}: {each}")
    if any(found.values()):
        raise SystemExit(1)


@transports.command("schedules", cls=AppCommand)
@target
@option("--stopped", is_flag=True, help="Only those that do not go on.")
@as_json
def schedules_(target: str, stopped: bool, as_json: bool) -> None:
    """List the schedules that brokers keep: what waits, runs, has stopped and why, or is left."""
    app = _app(target)
    found = _ask(app, lambda: look_at_schedules(app.schedules.declared(), app.transports))
    shown = [each for each in found if each.state == "stopped" or not stopped]
    if as_json:
        print_json([each._asdict() for each in shown])
        return
    print_table(
        ("name", "task", "queue", "state", "due", "phase", "stopped"),
        [
            (each.name, each.task, each.queue, each.state, each.due, each.phase, each.stopped)
            for each in shown
        ],
        empty="no schedule that has stopped" if stopped else "no schedule that a broker keeps",
    )


@transports.command("start-schedule", cls=AppCommand)
@target
@click.argument("name")
@as_json
def start_schedule(target: str, name: str, as_json: bool) -> None:
    """Have a schedule that a broker keeps go on, after a phase of it has stopped it."""
    app = _app(target)
    _ask(app, lambda: brokers.start_schedule(app.transports, app.schedules.declared(), name))
    print_done({"schedule": name}, f"schedule {name} goes on", as_json)


@transports.command("drop-schedule", cls=AppCommand)
@target
@click.argument("name")
@as_json
def drop_schedule(target: str, name: str, as_json: bool) -> None:
    """Delete the queue of a schedule that the code does not have any more."""
    app = _app(target)
    _ask(app, lambda: brokers.drop_schedule(app.transports, app.schedules.declared(), name))
    print_done({"schedule": name}, f"the queue of schedule {name} is deleted", as_json)


@transports.group()
def dead() -> None:
    """List, show, return and drop dead messages."""


@dead.command("list", cls=AppCommand)
@target
@_queue
@option("--limit", type=click.IntRange(min=1), default=100, help="How many to list at most.")
@as_json
def list_(target: str, queue: str | None, limit: int, as_json: bool) -> None:
    """List dead messages, the oldest of each queue first."""
    app = _app(target)
    found = _ask(app, lambda: brokers.dead(app.transports, queue, limit))
    if as_json:
        print_json([_shown(each) for each in found])
        return
    print_table(
        ("id", "queue", "task", "attempts", "last", "error"),
        [
            (each.id, each.queue, each.task, each.cause.attempts, each.cause.last_at,
             first_line(f"{each.cause.error_type}: {each.cause.error}"))
            for each in found
        ],
        empty="no dead messages",
    )  # fmt: skip


@dead.command(cls=AppCommand)
@target
@click.argument("id")
@_queue
@as_json
def show(target: str, id: str, queue: str | None, as_json: bool) -> None:
    """Show a dead message with its body and its whole error."""
    app = _app(target)
    found = _ask(app, lambda: brokers.dead(app.transports, queue, MANY))
    for each in found:
        if each.id == id:
            break
    else:
        raise UnknownJob(f"no dead message {id!r}; `mutirao transports dead list` has their ids")
    if as_json:
        print_json(_shown(each))
        return
    for name, value in _shown(each).items():
        first, *more = _bounded("" if value is None else str(value)).split("\n")
        for line in (f"{name:>11}  {first}", *(f"{'':11}  {each}" for each in more)):
            say(line)


@dead.command("return", cls=AppCommand)
@target
@_ids
@_all
@_task
@_error
@_queue
@as_json
def return_(target: str, queue: str | None, as_json: bool, **which: Any) -> None:
    """Send dead messages back to their queues, as first attempts."""
    _act(target, queue, as_json, which, "returned", lambda transport: transport.return_dead)


@dead.command(cls=AppCommand)
@target
@_ids
@_all
@_task
@_error
@_queue
@as_json
def drop(target: str, queue: str | None, as_json: bool, **which: Any) -> None:
    """Delete dead messages for good."""
    _act(target, queue, as_json, which, "dropped", lambda transport: transport.drop_dead)


def _act(
    target: str,
    queue: str | None,
    as_json: bool,
    which: Mapping[str, Any],
    done: str,
    action: Callable[[Transport], Any],
) -> None:
    """Act on some dead messages; print how many, and which ids do not exist."""
    if sum(map(bool, (which["ids"], which["all_"], which["task"] or which["error"]))) != 1:
        raise ConfigurationError("give the ids of messages, --task or --error, or --all")
    app = _app(target)

    async def act() -> tuple[int, list[str]]:
        if which["all_"]:
            return await brokers.each_dead(app.transports, queue, None, action), []
        found = await brokers.dead(app.transports, queue, MANY)
        chosen = [each.id for each in found if _is_meant(each, which)]
        unknown = [id for id in dict.fromkeys(which["ids"]) if id not in chosen]
        if not chosen:
            return 0, unknown
        return await brokers.each_dead(app.transports, queue, chosen, action), unknown

    number, unknown = _ask(app, act)
    print_done({done: number}, f"{number} dead messages {done}", as_json)
    if unknown:
        raise UnknownJob(
            f"no dead message has the id {' or '.join(unknown[:20])}; `mutirao transports dead"
            " list` has those there are"
        )


def _is_meant(dead: DeadMessage, which: Mapping[str, Any]) -> bool:
    if which["ids"]:
        return dead.id in which["ids"]
    text = f"{dead.cause.error_type}: {dead.cause.error}".casefold()
    of_task = which["task"] is None or dead.task == which["task"]
    return of_task and (which["error"] is None or which["error"].casefold() in text)


def _ask(app: Mutirao, body: Callable[[], Awaitable[T]]) -> T:
    """Run a body, and close the connections to brokers then; no database is needed."""

    async def asked() -> T:
        try:
            return await body()
        finally:
            await close_transports(app.transports)

    return asyncio.run(asked())


def _app(target: str) -> Mutirao:
    app = load_app(target)
    if not app.transports:
        raise ConfigurationError(
            'the application has no queues of brokers; give Mutirao(transports={"mail": …})'
        )
    return app


def _bounded(text: str) -> str:
    if len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]}…\n({len(text):,} characters in all; --json has them)"


def _shown(dead: DeadMessage) -> dict[str, object]:
    cause = dead.cause
    return {
        "id": dead.id,
        "queue": dead.queue,
        "task": dead.task,
        "attempts": cause.attempts,
        "first_at": cause.first_at,
        "last_at": cause.last_at,
        "exchange": dead.exchange,
        "routing_key": dead.routing_key,
        "error_type": cause.error_type,
        "error": cause.error,
        "body": dead.raw.decode(errors="backslashreplace"),
    }
