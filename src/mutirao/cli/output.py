"""Prints results: rich tables on a terminal, plain columns elsewhere, or JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mutirao.model.brokers.message_id import MessageId
from mutirao.model.display import one_line as one_line_of
from mutirao.model.limits.limits import LimitRecord
from mutirao.model.schedules.schedule import ScheduleRecord
from mutirao.model.topics.subscriptions import SubscriptionRecord
from mutirao.tasks.handle import Handle

Declared = LimitRecord | ScheduleRecord | SubscriptionRecord
_WHOLE = frozenset(("id", "state", "status", "outcome", "level", "attempt"))
_STYLES = {
    **dict.fromkeys(("ok", "succeeded", "alive"), "green"),
    **dict.fromkeys(("warning", "retried", "lost", "cancelled", "stopped"), "yellow"),
    **dict.fromkeys(("problem", "dead", "expired"), "bold red"),
    **dict.fromkeys(("running", "ready"), "cyan"),
    **dict.fromkeys(("scheduled", "snoozed", "released", "blocked"), "blue"),
}


def say(line: str, *, error: bool = False) -> None:
    """Print one line, on standard error if wanted; names in it cannot make it several."""
    click.echo(one_line_of(line), err=error)


def print_json(value: Any) -> None:
    """Print one JSON document; records become objects, moments ISO 8601 text."""
    click.echo(_as_json(value, indent=2))


def print_done(facts: Mapping[str, Any], line: str, as_json: bool) -> None:
    """Print the result of a command: a line, or its facts as one JSON document."""
    if as_json:
        print_json(facts)
    else:
        say(line)


def fields_of(handle: Handle[Any]) -> dict[str, Any]:
    """Return the fields of a handle that are printed."""
    id = str(handle.id) if isinstance(handle.id, MessageId) else handle.id
    return {"id": id, "task": handle.task, "queue": handle.queue, "how": handle.how}


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], empty: str) -> None:
    """Print rows under their columns' names, or `empty` if there are no rows."""
    cells = [[one_line(value) for value in row] for row in rows]
    console = Console()
    if not cells:
        say(empty)
    elif console.is_terminal:
        console.print(_rich(columns, cells))
    else:
        click.echo("\n".join(_aligned([[name.upper() for name in columns], *cells])))


def print_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one per line; None and empty values are left out."""
    shown = [[f"{name}:", one_line(value)] for name, value in fields if value not in (None, (), {})]
    click.echo("\n".join(_aligned(shown)))


def print_text(text: str) -> None:
    """Print text of several lines unchanged, except for control characters."""
    click.echo("\n".join(_printable(line) for line in text.splitlines()))


def one_line(value: Any) -> str:
    """Return a value as text of one line."""
    match value:
        case None:
            return ""
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        case float():
            return f"{value:.3f}" if value < 10 else f"{value:,.0f}"
        case dict():
            return _printable(_as_json(value))
        case list() | tuple():
            return ", ".join(one_line(each) for each in value)
        case _:
            return _printable(str(value))


def minute(moment: datetime | None, unknown: str = "?") -> str:
    """Return a moment to the minute."""
    return unknown if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%MZ}"


def origin_of(record: Declared) -> str:
    """Return the origin of an object that code may declare, and since when it is not in code."""
    if record.in_code is not False:
        return str(record.origin)
    return f"not in the code since {minute(record.declared_at)} ({record.declared_by})"


def first_line(text: str | None, longest: int = 60) -> str:
    """Return the first line of a text, cut to `longest` characters."""
    line = (text or "").strip().partition("\n")[0]
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _as_json(value: Any, *, indent: int | None = None) -> str:
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which JSON can contain only escaped
        return json.dumps(msgspec.to_builtins(value), indent=indent)
    return (encoded if indent is None else msgspec.json.format(encoded, indent=indent)).decode()


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}"
                   for c in text)  # fmt: skip


def _rich(columns: Sequence[str], rows: list[list[str]]) -> Table:
    # If a terminal is narrow, times and errors are cut before what distinguishes jobs and states.
    table = Table(*(Column(each, no_wrap=each in _WHOLE) for each in columns))
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    return table


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
