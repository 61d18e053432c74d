"""`transports`: what queues need at their brokers, and the messages that are dead there."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from mutirao.app import Mutirao
from mutirao.cli.group import WholeHelp
from mutirao.cli.options import as_json, option, target
from mutirao.cli.output import first_line, print_done, print_json, print_table, say
from mutirao.cli.target import AppCommand, load_app
from mutirao.client import transports as brokers
from mutirao.client.kept_schedules import look_at_schedules
from mutirao.errors import ConfigurationError, UnknownJob
from mutirao.model.message import DeadMessage
from mutirao.ports.brokers import close_transports

T = TypeVar("T")
MANY = 100_000  # messages that `show` looks through

_queue = option("--queue", help="One queue, instead of all that brokers carry.")
_ids = click.argument("ids", nargs=-1)
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
        print_json([_told(each) for each in found])
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
        print_json(_told(each))
        return
    for name, value in _told(each).items():
        first, *more = ("" if value is None else str(value)).split("\n")
        for line in (f"{name:>11}  {first}", *(f"{'':11}  {each}" for each in more)):
            say(line)


@dead.command("return", cls=AppCommand)
@target
@_ids
@_all
@_queue
@as_json
def return_(
    target: str, ids: tuple[str, ...], all_: bool, queue: str | None, as_json: bool
) -> None:
    """Send dead messages back to their queues, as first attempts."""
    app = _app(target)
    chosen = _chosen(ids, all_)
    number = _ask(
        app, lambda: brokers.each_dead(app.transports, queue, chosen, lambda t: t.return_dead)
    )
    print_done({"returned": number}, f"{number} dead messages returned", as_json)
    _check_all(ids, number)


@dead.command(cls=AppCommand)
@target
@_ids
@_all
@_queue
@as_json
def drop(target: str, ids: tuple[str, ...], all_: bool, queue: str | None, as_json: bool) -> None:
    """Delete dead messages for good."""
    app = _app(target)
    chosen = _chosen(ids, all_)
    number = _ask(
        app, lambda: brokers.each_dead(app.transports, queue, chosen, lambda t: t.drop_dead)
    )
    print_done({"dropped": number}, f"{number} dead messages dropped", as_json)
    _check_all(ids, number)


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


def _chosen(ids: tuple[str, ...], all_: bool) -> list[str] | None:
    if bool(ids) == all_:
        raise ConfigurationError("give the ids of messages, or --all")
    return None if all_ else list(ids)


def _check_all(ids: tuple[str, ...], found: int) -> None:
    if (left := len(set(ids)) - found) > 0:
        raise UnknownJob(
            f"{left} of these ids are of no dead message; `mutirao transports dead list` has those"
            " there are"
        )


def _told(dead: DeadMessage) -> dict[str, object]:
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
