"""The options of a transport: those that the program gives, then environment variables.

The environment is read when the options are first needed, not when a transport is made: that
happens while a module is imported.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

import msgspec

from mutirao.errors import ConfigurationError
from mutirao.model.brokers.message import Mode

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def with_environment(kind: str, options: type[Options], given: Mapping[str, Any]) -> Options:
    """Return options of a transport; `MUTIRAO_KIND_NAME` says each that is not given.

    Parameters:
        kind: "RABBITMQ", …
        options: a dataclass with a default for each; it checks them.
        given: those that the program gives, by name.

    Raises:
        ConfigurationError: a variable cannot be read or is of no option, or its option is out of
            range; the message names the variables, and not what they have: that may be a secret.
    """
    kinds = get_type_hints(options)
    _check_known(f"MUTIRAO_{kind}_", kinds)
    named: dict[str, str] = {}
    found = dict(given)
    for name in (each.name for each in fields(options) if each.name not in given):
        variable = f"MUTIRAO_{kind}_{name}".upper()
        if text := os.environ.get(variable):
            named[variable] = name
            found[name] = _read(variable, text, kinds[name])
    try:
        return options(**found)
    except ConfigurationError as wrong:
        if named:
            raise ConfigurationError(f"{wrong} (options are from {', '.join(named)})") from None
        raise


def check_kinds(options: "DataclassInstance") -> None:
    """Raise ConfigurationError if an option is of another type; its value is not shown."""
    for name, kind in get_type_hints(type(options)).items():
        try:
            msgspec.convert(getattr(options, name), kind)
        except msgspec.ValidationError as unfit:
            raise ConfigurationError(f"{name} cannot be used: {unfit}") from None


def check_mode(mode: object) -> None:
    """Raise ConfigurationError if a mode is none that there is."""
    if mode not in get_args(Mode):
        raise ConfigurationError(f"mode is {mode!r}; give one of {', '.join(get_args(Mode))}")


def _check_known(prefix: str, names: Iterable[str]) -> None:
    known = [f"{prefix}{name}".upper() for name in names]
    for variable in sorted(os.environ):
        if variable.startswith(prefix) and variable not in known:
            raise ConfigurationError(
                f"{variable} is none of the variables of a transport, which are"
                f" {', '.join(known)}; all else stands in the code, the mode too"
            )


def _read(variable: str, text: str, kind: Any) -> Any:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as unfit:
        raise ConfigurationError(f"{variable} cannot be read: {unfit}") from None
