"""What several commands share: the application's argument, types of values, running a store."""

import asyncio
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


class Duration(click.ParamType[Any]):
    """A length of time: 90, 90s, 15m, 2h, 7d or 1w."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> timedelta:
        """Return the length of time that a text stands for."""
        if isinstance(value, timedelta):
            return value
        found = _DURATION.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no length of time; write 90, 90s, 15m, 2h, 7d or 1w")
        return timedelta(seconds=float(found[1]) * _UNITS[found[2] or "s"])


class Moment(click.ParamType[Any]):
    """A moment: 2026-11-21T13:44:28Z, or how long ago: 15m, 2h, 7d."""

    name = "moment"

    def __init__(self, ago: bool = True) -> None:
        """With `ago`, a length of time stands for a moment in the past."""
        self._ago = ago

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        """Return the aware datetime that a text stands for."""
        if isinstance(value, datetime):
            return value
        if self._ago and _DURATION.fullmatch(value):
            return datetime.now(UTC) - Duration().convert(value, param, ctx)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no moment; write it as 2026-11-21T13:44:28Z")
        if moment.tzinfo is None:
            self.fail(f"{value!r} has no time zone; add Z for UTC, or an offset such as -03:00")
        return moment


class Names(click.ParamType[Any]):
    """Names, separated by commas."""

    name = "name,name"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Return the names in a text."""
        return value if isinstance(value, tuple) else tuple(n.strip() for n in value.split(","))


_FILTERS = (
    option("--state", type=click.Choice([str(state) for state in JobState])),
    option("--queue", help="Jobs of this queue."),
    option("--task", help="Jobs of this task."),
    option("--tag", help="Jobs with this tag."),
    option("--error-type", help="Jobs whose last error is of this class, such as ValueError."),
    option("--before", type=Moment(), help="Enqueued before a moment, or so long ago (2h)."),
    option("--after", type=Moment(), help="Enqueued since a moment, or so long ago (2h)."),
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
