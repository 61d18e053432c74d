"""Errors for what Celery has and we have not: each names the section of the docs about it."""

from collections.abc import Iterable, Mapping
from typing import Any

from mutirao.errors import ConfigurationError

PAGE = "docs/from/celery.md"


def refusal(what: str, instead: str, anchor: str) -> ConfigurationError:
    """Return the error for something that has no equal.

    Parameters:
        what: of Celery, as it is written there.
        instead: what to do.
        anchor: the section of the page.
    """
    return ConfigurationError(f"{what} has no equal in Mutirão: {instead} ({PAGE}#{anchor})")


def refuse_options(
    of: str, given: Mapping[str, Any], refused: Mapping[str, tuple[str, str]], known: Iterable[str]
) -> None:
    """Raise ConfigurationError for an option that is unsupported, or unknown.

    Parameters:
        of: the owner of the options.
        refused: what to do instead, and the section of the page, by the names of options.
        known: the names of those that are taken.
    """
    for name, value in given.items():
        if name in refused and value not in (None, False):
            instead, anchor = refused[name]
            raise refusal(f"{of}({name}=…)", instead, anchor)
        if name not in refused and name not in known:
            raise refusal(f"{of}({name}=…)", "nothing is known of this option", "options")
