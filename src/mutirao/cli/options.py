"""What several commands share: the application's argument, types of values, running a store."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import click

from mutirao.app import Mutirao
from mutirao.job import JobState
from mutirao.ports import Store
from mutirao.records import JobFilter

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

option = partial(click.option, show_default=True, show_envvar=True)
target = click.argument("target", metavar="MODULE:APP")
ids = click.argument("ids", metavar="[ID]...", type=click.IntRange(min=1), nargs=-1)
as_json = option(
    "--json", "as_json", is_flag=True, envvar="MUTIRAO_JSON", help="Print one JSON document."
)

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(rf"(\d+(?:\.\d+)?)([{''.join(_UNITS)}]?)")


def duration(text: str) -> timedelta:
    """Return the length of time that a text stands for: 90, 90s, 15m, 2h, 7d or 1w."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is no length of time; write 90, 90s, 15m, 2h or 7d")
    return timedelta(seconds=float(found[1]) * _UNITS[found[2] or "s"])


def age(text: str) -> timedelta:
    """Return a length of time whose unit is named: what is deleted by it is gone."""
    if text.replace(".", "", 1).isdigit():
        raise click.BadParameter(f"{text!r} has no unit; write {text}d for days, or s, m, h")
    return duration(text)


def moment(text: str) -> datetime:
    """Return the aware datetime that a text stands for: 2026-11-21T13:44:28Z."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no moment; write it as 2026-11-21T13:44:28Z"
        ) from None
    if found.tzinfo is None:
        raise click.BadParameter(
            f"{text!r} has no time zone; add Z for UTC, or an offset such as -03:00"
        )
    return found


def past(text: str) -> datetime:
    """Return a moment, or the one so long ago: 15m, 2h, 7d."""
    return datetime.now(UTC) - duration(text) if _DURATION.fullmatch(text) else moment(text)


def names(text: str) -> tuple[str, ...]:
    """Return the names in a text that are separated by commas."""
    return tuple(name.strip() for name in text.split(","))


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object that a text stands for, such as {"order_id": 7}."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.BadParameter(f'{text!r} is no JSON object; name what is in it: {{"id": 7}}')
    return found


_FILTERS = (
    option("--state", type=click.Choice([str(state) for state in JobState])),
    option("--queue", help="Jobs of this queue."),
    option("--task", help="Jobs of this task."),
    option("--tag", help="Jobs with this tag."),
    option("--graph", type=int, help="Jobs of this graph."),
    option("--error-type", help="Jobs whose last error is of this class, such as ValueError."),
    option("--before", type=past, help="Enqueued before a moment, or so long ago (2h)."),
    option("--after", type=past, help="Enqueued since a moment, or so long ago (2h)."),
)


def filters(limit: int | None) -> Callable[[Command], Command]:
    """Give a command the options of a `JobFilter`, which it gets as keyword arguments."""

    def decorate(command: Command) -> Command:
        most = option("--limit", type=click.IntRange(min=1), default=limit, help="At most so many.")
        for each in reversed((*_FILTERS, most)):
            command = each(command)
        return command

    return decorate


def job_filter(ids: tuple[int, ...], given: dict[str, Any]) -> JobFilter:
    """Return the filter that ids and the options of `filters` stand for."""
    state = given.pop("state")
    return JobFilter(ids=ids or None, state=JobState(state) if state else None, **given)


def ask(app: Mutirao, body: Callable[[Store], Awaitable[T]]) -> T:
    """Run a body with the application's store, after the schema was found to fit; then close it."""

    async def asked() -> T:
        try:
            await app.store.check()
            return await body(app.store)
        finally:
            await app.store.close()

    return asyncio.run(asked())
