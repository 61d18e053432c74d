"""The command of a machine: its options are the fields of its plan, and its end is a verdict.

Every machine ends in the same way: its figures, each thing that is not as promised, and how many of
these there are. Its exit status is 1 if there are any, else 0.
"""

from __future__ import annotations

import argparse
import inspect
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

SHOWN = 50  # findings

Say = Callable[[str], None]

# An entry of a docstring's parameters: names, and what they are, which may go on in more lines.
_ENTRY = re.compile(r"^ {4}(?P<names>\w+(?:, \w+)*): (?P<text>.+(?:\n {8}.+)*)", re.MULTILINE)


def say(line: str) -> None:
    """Print a line at once, also where standard output is a file."""
    print(line, flush=True)


def end_with(main: Callable[[], int]) -> NoReturn:
    """Run a program, and exit with its status; SIGTERM ends it as Ctrl-C does, from now on.

    So that its workers and servers end with it.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())


def parser_of(package: str, plan: type[Any], *, logs: str = "") -> argparse.ArgumentParser:
    """Return a parser of a machine's options.

    Parameters:
        package: what is run, by `python -m`.
        plan: a dataclass. Each field is an option: its type, its default, and what its docstring
            says of it.
        logs: what is said of the option `--logs`, a directory that is made; "" for no such option.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {package}")
    kinds, texts = get_type_hints(plan), dict(_texts(plan))
    for field in fields(plan):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            **_option(kinds[field.name], field, texts.get(field.name, "")),
        )
    if logs:
        parser.add_argument("--logs", type=_directory, help=logs)
    return parser


def verdict(lines: Iterable[str], problems: Iterable[str]) -> int:
    """Print the figures of a run and what is not as promised; return the exit status."""
    for line in lines:
        print(line)
    found = list(problems)
    for problem in found[:SHOWN]:
        print(f"NOT AS PROMISED: {problem}")
    if len(found) > SHOWN:
        print(f"and {len(found) - SHOWN:,} more")
    print(f"{len(found):,} findings" if found else "everything as promised", flush=True)
    return 1 if found else 0


def _texts(plan: type[Any]) -> Iterator[tuple[str, str]]:
    _, _, parameters = (inspect.getdoc(plan) or "").partition("Parameters:\n")
    for entry in _ENTRY.finditer(parameters):
        for name in entry["names"].split(", "):
            yield name, " ".join(entry["text"].split()).rstrip(".").replace("%", "%%")


def _option(kind: Any, field: Field[Any], text: str) -> dict[str, Any]:
    """Return how an option is made of a field."""
    default = field.default
    if kind is bool:
        return {"action": "store_true", "default": default, "help": text}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind), "default": default, "help": text}
    if get_origin(kind) is tuple:
        return {"type": _words, "default": default, "help": f"{text}; with commas"}
    return {"type": kind, "default": default, "help": f"{text} (%(default)g)".lstrip()}


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _directory(text: str) -> Path:
    place = Path(text)
    place.mkdir(parents=True, exist_ok=True)
    return place
