"""Options of the command line, made of the parameters that a function of the application takes.

Each field of a `TypedDict` in the room `tasks` brings its type and its text:
`key: Annotated[str | None, "…"]` is `--key`. So a new one is on the command line, too.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, get_args, get_type_hints

import click

from mutirao.cli.options import (
    Command,
    duration,
    json_object,
    moment,
    number_or_moment,
    option,
    window,
)
from mutirao.model.keys.uniqueness import OnConflict
from mutirao.tasks.options import Conflict, Duration, KeyTerms, Tags, Version

# How a text becomes a value of each type.
_READ: dict[Any, dict[str, Any]] = {
    str | None: {},
    int | None: {"type": int},
    datetime | None: {"type": moment},
    Duration | None: {"type": duration},
    Duration | Literal["forever"] | None: {"type": window},
    Version | None: {"type": number_or_moment},
    Mapping[str, Any] | None: {"type": json_object},
    Conflict | None: {"type": click.Choice([*map(str, OnConflict)])},
    Tags: {"multiple": True},
}


def options_of(terms: type, **called: tuple[str, ...]) -> Callable[[Command], Command]:
    """Add an option for each of some terms to a command; those of keys are the last.

    Parameters:
        terms: a `TypedDict` whose fields are annotated with the texts of their options.
        called: the option and the parameter of terms that are not called as they are.
    """

    def decorate(command: Command) -> Command:
        hints = get_type_hints(terms, include_extras=True)
        for name in sorted(hints, key=KeyTerms.__annotations__.__contains__)[::-1]:
            kind, text = get_args(hints[name])
            words = called.get(name, (f"--{name.replace('_', '-')}",))
            command = option(*words, help=text, **_READ[kind])(command)
        return command

    return decorate
