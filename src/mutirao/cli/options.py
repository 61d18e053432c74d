"""Parts that several commands share: common options, types of values, running a store."""

import asyncio
import getpass
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from mutirao.app import Mutirao
from mutirao.errors import InvalidFilter
from mutirao.model.filters.conditions import Exactly
from mutirao.model.filters.qualifiers import quoted, scalar_written
from mutirao.model.jobs.job import JobState
from mutirao.model.lengths import is_length, length
from mutirao.model.topics.subscriptions import WhenDead

FOREVER = "forever"
POSITIVE = click.FloatRange(min=0, min_open=True)
WHEN_DEAD = click.Choice([*map(str, WhenDead)])
T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

# It is generic in newer versions of click only.
if TYPE_CHECKING:
    from mutirao.model.audit.actions import About

    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType

option = partial(click.option, show_default=True, show_envvar=True)
target = click.argument("target", metavar="MODULE:APP")


def _as_json_of_all() -> bool:
    """Return whether `mutirao --json` was given before the name of the command."""
    return bool(click.get_current_context().find_root().params.get("as_json"))


as_json = click.option(
    "--json", "as_json", is_flag=True, flag_value=True, envvar="MUTIRAO_JSON", show_envvar=True,
    default=_as_json_of_all, show_default=False, help="Print one JSON document.",
)  # fmt: skip


class Wanted(NamedTuple):
    """The jobs that are named after the application: their ids, or the text of a filter."""

    ids: tuple[int, ...]
    filter: str | None


def _wanted(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> Wanted:
    if all(word.isascii() and word.isdigit() for word in words):
        if any(int(word) == 0 for word in words):
            raise click.BadParameter("0 is no id of a job; ids begin with 1")
        return Wanted(tuple(map(int, words)), None)
    from mutirao.model.filters.filter import parse  # of commands that list and change jobs

    text = " ".join(words)
    try:
        parse(text)
    except InvalidFilter as unfit:
        raise click.BadParameter(str(unfit)) from None
    return Wanted((), text)


wanted = click.argument("wanted", metavar="[ID]...|[FILTER]", nargs=-1, callback=_wanted)


LOG_FORMAT, LOG_LEVEL, LOG_DEBUG = "MUTIRAO_LOG_FORMAT", "MUTIRAO_LOG_LEVEL", "MUTIRAO_LOG_DEBUG"


class _OfAllCommands(click.Option):
    """An option that has a variable of all commands, after that of the command itself."""

    def __init__(self, *args: Any, otherwise: Callable[[], str | None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._otherwise = otherwise

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the value of the variables, or None."""
        return super().resolve_envvar_value(ctx) or self._otherwise()


def _level_of_all() -> str | None:
    debug = os.environ.get(LOG_DEBUG, "")
    if debug and click.BOOL.convert(debug, None, None):
        return "debug"
    return os.environ.get(LOG_LEVEL)


def log_options(command: Command) -> Command:
    """Add the options for the log of a long-running command."""
    levels = click.Choice(["debug", "info", "warning", "error"], case_sensitive=False)
    for decorate in reversed((
        option("--log-format", type=click.Choice(["text", "json", "logfmt"]), default="text",
               cls=_OfAllCommands, otherwise=lambda: os.environ.get(LOG_FORMAT),
               help=f"How lines are written; of all commands: {LOG_FORMAT}."),
        option("--log-level", default="info", type=levels, cls=_OfAllCommands,
               otherwise=_level_of_all,
               help=f"Of all commands: {LOG_LEVEL}, or {LOG_DEBUG}=1 for debug."),
    )):  # fmt: skip
        command = decorate(command)
    return command


def duration(text: str) -> timedelta:
    """Return the duration in a text: 90, 90s, 15m, 2h, 7d or 1w."""
    try:
        return length(text)
    except ValueError as unfit:
        raise click.BadParameter(str(unfit)) from None


def waits(text: str) -> list[timedelta]:
    """Return the waits between attempts in a text: 5s,1m,1h, or never."""
    return [] if text == "never" else [duration(each) for each in text.split(",")]


def age(text: str) -> timedelta:
    """Return a duration that must have a unit, because it decides what is deleted."""
    if text.replace(".", "", 1).isdigit():
        raise click.BadParameter(f"{text!r} has no unit; write {text}d for days, or s, m, h")
    return duration(text)


def kept(text: str) -> timedelta | None:
    """Return how long something is kept: an `age`, or None for "forever"."""
    return None if text == FOREVER else age(text)


def moment(text: str, otherwise: str = "") -> datetime:
    """Return the aware datetime in a text: 2026-11-21T13:44:28Z.

    `otherwise`: other accepted forms, for the message if it is no moment.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no moment; write it as 2026-11-21T13:44:28Z{otherwise}"
        ) from None
    if found.tzinfo is None:
        raise click.BadParameter(
            f"{text!r} has no time zone; add Z for UTC, or an offset such as -03:00"
        )
    return found


def window(text: str) -> timedelta | str:
    """Return the duration in a text, or the word "forever"."""
    return text if text == "forever" else duration(text)


def number_or_moment(text: str) -> float | datetime:
    """Return the number in a text, a whole one exactly, or the aware datetime."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return moment(text)


def length_or_moment(text: str) -> timedelta | datetime:
    """Return the duration in a text, or the aware datetime: 15m, 2h, 2026-11-21T13:44:28Z."""
    return duration(text) if is_length(text) else moment(text, ", or 15m or 2h")


def past(text: str) -> datetime:
    """Return the moment in a text, or the one so long ago: 15m, 2h, 7d."""
    return datetime.now(UTC) - duration(text) if is_length(text) else moment(text, ", or 2h or 7d")


def names(text: str) -> tuple[str, ...]:
    """Return the names in a text, separated by commas."""
    return tuple(name.strip() for name in text.split(","))


class Listed(_ParamType):
    """Some of a list, separated by commas; of an option that may be repeated, or a variable.

    Parameters:
        name: its name in `--help`.
        read: returns the value of one text; raises click.BadParameter.
    """

    envvar_list_splitter = ","  # otherwise a variable would be parted by its spaces

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the values of the text."""
        return self._read(value)


def names_option(
    *flags: str, help: str, default: str | None = None
) -> Callable[[Command], Command]:
    """Return an option of names, `-q a -q b` or `-q a,b`; a tuple of them, or None without any."""
    return option(
        *flags,
        multiple=True,
        type=Listed("names", names),
        callback=lambda ctx, param, given: tuple(chain(*given)) or None,
        default=None if default is None else (default,),
        help=f"{help} May be repeated.",
    )


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, such as {"order_id": 7}."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.BadParameter(f'{text!r} is no JSON object; name what is in it: {{"id": 7}}')
    return found


def argument(text: str) -> tuple[str, Any]:
    """Return the name and value of an argument in a text: order_id=7, note=late, code='"7"'."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is no argument; write order_id=7")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


_FILTERS = (
    option(
        "--state",
        "states",
        multiple=True,
        type=click.Choice([str(state) for state in JobState]),
        help="Jobs in this state; may be repeated.",
    ),
    option("--queue", "queues", multiple=True, help="Jobs of this queue; may be repeated."),
    option("--task", help="Jobs of this task."),
    option("--tag", help="Jobs with this tag."),
    option("--key", help="Jobs with this key."),
    option("--tenant", help="Jobs of this tenant."),
    option("--group", help="Jobs of this group."),
    option(
        "--arg",
        "args",
        multiple=True,
        type=argument,
        help="Jobs with an argument of this value (order_id=7); may be repeated.",
    ),
    option("--graph", type=int, help="Jobs of this graph."),
    option("--error-type", help="Jobs whose last error is of this class: shop.Busy, or Busy."),
    option("--before", type=past, help="Enqueued before a moment, or so long ago (2h)."),
    option("--after", type=past, help="Enqueued since a moment, or so long ago (2h)."),
)


def filters(limit: int | None) -> Callable[[Command], Command]:
    """Add the options of a `JobFilter` to a command, which receives them as keyword arguments."""

    def decorate(command: Command) -> Command:
        most = option("--limit", type=click.IntRange(min=1), default=limit, help="At most so many.")
        for each in reversed((*_FILTERS, most)):
            command = each(command)
        return command

    return decorate


def chosen(wanted: Wanted, given: dict[str, Any]) -> dict[str, Any]:
    """Return the jobs that are named and the options of `filters`, as arguments of `app.jobs`."""
    several = {name: given[name] or None for name in ("states", "queues")}
    several["args"] = dict(given["args"]) or None
    return {"ids": wanted.ids or None, "filter": wanted.filter, **given, **several}


def text_of(wanted: Wanted, given: dict[str, Any]) -> str | None:
    """Return all that selects jobs, including the options, as the text of one filter."""
    several = {"states": "state", "queues": "queue"}
    one = {"task", "tag", "key", "tenant", "group", "graph"}
    terms = [wanted.filter or ""]
    for name, value in given.items():
        if name in several and value:
            terms.append(f"{several[name]}:{','.join(map(quoted, value))}")
        elif name in one and value is not None:
            terms.append(f"{name}:{quoted(str(value))}")
        elif name == "error_type" and value is not None:
            terms.append(f"error:{quoted(value)}")
        elif name in ("before", "after") and value is not None:
            terms.append(f"{name}:{value.isoformat()}")
        elif name == "args":
            terms += [f"arg.{each}:{scalar_written(Exactly(its))}" for each, its in value]
    return " ".join(filter(None, terms)) or None


def user() -> str:
    """Return the system's user that runs the command, for the audit."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # one without a name
        return f"uid {os.getuid()}"


def noted(app: Mutirao, about: "About", body: Callable[[], Awaitable[T]]) -> T:
    """Run a body as `ask` does; the audit records what it does, and its user."""
    return ask(app, lambda: app.actions.anote(user(), about, body))


def ask(app: Mutirao, body: Callable[[], Awaitable[T]]) -> T:
    """Run a body with the application after checking the schema; close the application then."""

    async def asked() -> T:
        try:
            await app.acheck()
            return await body()
        finally:
            await app.aclose()

    return asyncio.run(asked())
