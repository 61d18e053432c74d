"""Options of the command line that are generated from parameters of the application's functions.

Each field of a `TypedDict` in the room `tasks` has its type and its text: `key: Annotated[str |
None, "…"]` becomes `--key`. So a new field is on the command line, too. A field of `WorkerSettings`
also has its default and its bounds.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import click

from mutirao.cli.options import (
    Command,
    duration,
    json_object,
    kept,
    length_or_moment,
    moment,
    names_option,
    number_or_moment,
    option,
    window,
)
from mutirao.model.keys.uniqueness import OnConflict
from mutirao.ports.measurements import LAST_PORT
from mutirao.tasks.options import Conflict, Duration, Expiry, KeyTerms, Tags, Version
from mutirao.workers import SETTINGS

_Decorator = Callable[[Any], Any]

# For commands that are one process each.
METRICS_PORT: Mapping[str, Any] = {
    "type": click.IntRange(0, LAST_PORT),
    "help": "Port of its metrics for Prometheus, and of /livez and /readyz; 0: any that is free.",
}
# How a text becomes a value of each type.
_READ: dict[Any, dict[str, Any]] = {
    str | None: {},
    int | None: {"type": int},
    datetime | None: {"type": moment},
    Duration | None: {"type": duration},
    Duration | Literal["forever"] | None: {"type": window},
    Expiry | None: {"type": length_or_moment},
    Version | None: {"type": number_or_moment},
    Mapping[str, Any] | None: {"type": json_object},
    Conflict | None: {"type": click.Choice([*map(str, OnConflict)])},
    Tags: {"multiple": True},
}


def options_of(terms: type, **called: tuple[str, ...]) -> Callable[[Command], Command]:
    """Add an option for each of some terms to a command; those of keys come last.

    Parameters:
        terms: a `TypedDict` whose fields are annotated with the texts of their options.
        called: the option and the parameter of terms that have another name there.
    """

    def decorate(command: Command) -> Command:
        hints = get_type_hints(terms, include_extras=True)
        for name in sorted(hints, key=KeyTerms.__annotations__.__contains__)[::-1]:
            kind, text = get_args(hints[name])
            words = called.get(name, (f"--{name.replace('_', '-')}",))
            command = option(*words, help=text, **_READ[kind])(command)
        return command

    return decorate


def text_of(read: Callable[[str], object], name: str = "AGE") -> Callable[[str], str]:
    """Return a type of option that stays a text, for other processes, if it is valid.

    `name`: its name in `--help`.
    """

    def checked(text: str) -> str:
        try:
            read(text)
        except ValueError as unfit:
            raise click.BadParameter(str(unfit)) from None
        return text

    checked.__name__ = name  # which click shows
    return checked


def setting_options(
    *names: str,
    after: Mapping[str, Sequence[_Decorator]] | None = None,
    **others: Mapping[str, Any],
) -> Callable[[Command], Command]:
    """Add options for settings to a command, in the order of the settings.

    Parameters:
        names: which settings; none: all that have a text.
        after: other options, each behind that of a setting.
        others: parameters of `click.option` that differ from the setting's, by its name.
    """
    made: list[_Decorator] = []
    for each in SETTINGS:
        if get_origin(each.type) is Annotated and (not names or each.name in names):
            kind, said = get_args(each.type)
            if said.help is not None:
                given = {**_default(each.default), "help": said.help, **others.get(each.name, {})}
                flags = [*filter(None, [said.short]), f"--{each.name.replace('_', '-')}"]
                made.append(_option(flags, kind, said, given))
        made += (after or {}).get(each.name, ())

    def decorate(command: Command) -> Command:
        for each in reversed(made):
            command = each(command)
        return command

    return decorate


def _option(flags: list[str], kind: Any, said: Any, given: dict[str, Any]) -> _Decorator:
    if kind == tuple[str, ...] | None:
        return names_option(*flags, **given)
    return option(*flags, **{**_kind(kind, said), **given})


def _kind(annotation: Any, said: Any) -> dict[str, Any]:
    """Return how a text becomes a value of a setting's type."""
    if annotation is bool:
        return {"is_flag": True}
    if get_origin(annotation) is Literal:
        return {"type": click.Choice(get_args(annotation))}
    if annotation == timedelta | None:
        return {"type": text_of(kept)}
    if annotation in (int, int | None):
        return {"type": click.IntRange(min=said.least)}
    if annotation in (float, float | None):
        least = said.least if said.above is None else said.above
        return {"type": click.FloatRange(min=least, min_open=said.above is not None)}
    return {}


def _default(value: object) -> dict[str, Any]:
    if isinstance(value, timedelta):
        return {"default": f"{value.days}d"}
    return {} if value is None or value is False else {"default": value}
