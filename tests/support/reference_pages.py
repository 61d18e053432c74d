"""Tables of the reference that are made of the code: settings and variables, metrics.

`python -m tests.support.reference_pages` writes them between the marks of their pages; a test
compares. The pages are Markdown in the repository, so that they are read in a clone as well.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import click

from mutirao.cli import main
from mutirao.engine.settings import WorkerSettings
from mutirao.telemetry.prometheus import store_metrics, worker_metrics
from mutirao.telemetry.prometheus.families import Named
from tests.support import env_example

PAGES = Path(__file__).parents[2] / "docs" / "reference"
COUNTED = ("mutirao_attempts", "mutirao_rescued", "mutirao_fenced")  # Prometheus adds _total
_PART = r"(<!-- made of the code: {} -->\n).*?(\n<!-- end of what is made -->)"

Row = tuple[str, ...]


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page with the text that it is to have."""
    for name, tables in (("settings", settings_tables()), ("metrics", metrics_tables())):
        path = PAGES / f"{name}.md"
        text = path.read_text(encoding="utf-8")
        for part, table in tables:
            pattern = re.compile(_PART.format(re.escape(part)), re.DOTALL)
            found = pattern.search(text)
            assert found, f"{path.name} has no place for {part!r}"
            text = text[: found.start()] + found[1] + table + found[2] + text[found.end() :]
        yield path, text


def settings_tables() -> Iterator[tuple[str, str]]:
    """Yield the table of each command that runs for long, and of the others' variables."""
    yield "settings of a worker", _table(("setting", "default", "meaning"), _worker_settings())
    for name in env_example.SERVING:
        head = ("option", "variable", "default", "meaning")
        yield f"mutirao {name}", _table(head, _options(name))
    yield "all commands", _table(("variable", "example or default", "meaning"), _of_all())


def metrics_tables() -> Iterator[tuple[str, str]]:
    """Yield the table of what workers count, and of what the database holds."""
    for part, module in (("of a worker", worker_metrics), ("of the database", store_metrics)):
        yield part, _table(("metric", "labels", "meaning"), _metrics(module))


def _table(head: Row, rows: Iterable[Row]) -> str:
    written = [f"| {' | '.join(each)} |" for each in (head, *rows)]
    return "\n".join((written[0], "|---" * len(head) + "|", *written[1:]))


def _metrics(module: ModuleType) -> Iterator[Row]:
    for each in vars(module).values():
        if isinstance(each, Named):
            name = f"{each.name}_total" if each.name in COUNTED else each.name
            yield f"`{name}`", ", ".join(each.labels), each.says


def _worker_settings() -> Iterator[Row]:
    meanings = _meanings(inspect.getdoc(WorkerSettings) or "")
    for each in fields(WorkerSettings):
        yield f"`{each.name}`", _default(each), meanings[each.name]


def _meanings(docstring: str) -> dict[str, str]:
    """Return the text of each parameter of a docstring in Google's style."""
    section = docstring.partition("Parameters:\n")[2].partition("\nRaises:")[0]
    found = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", section, re.MULTILINE | re.DOTALL)
    return {name: _sentence(" ".join(text.split())) for name, text in found}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _default(each: Field[object]) -> str:
    value = each.default
    if value is MISSING:
        return "7 days; 90 days if dead"  # retention, the only one that is made
    if isinstance(value, timedelta):
        return f"{value.days} days"
    return "" if value is None else f"`{value}`"


def _options(name: str) -> Iterator[Row]:
    """Yield the options of a command, with their variables."""
    with click.Context(main, info_name="mutirao", auto_envvar_prefix="MUTIRAO") as outer:
        command = main.get_command(outer, name)
        assert command is not None
        prefix = f"MUTIRAO_{name.upper()}"
        context = click.Context(command, parent=outer, info_name=name, auto_envvar_prefix=prefix)
        for each in command.params:
            if isinstance(each, click.Option) and not each.is_eager:
                usual = env_example.usual(each, context)
                yield (
                    ", ".join(f"`{option}`" for option in sorted(each.opts, reverse=True)),
                    f"`{env_example.variable(each, name)}`",
                    f"`{usual}`" if usual else "",
                    (each.help or env_example.OF_ALL).replace("|", "\\|"),
                )


def _of_all() -> Iterator[Row]:
    """Yield the variables of the file's head and of the brokers, with the comments above them."""
    text = env_example.text()
    head = text.partition("# -- Of all commands\n")[2].partition("\n# Options of the other")[0]
    brokers = text[text.index("\n# -- options of RABBITMQ") : text.index("\n# -- Set by")]
    said: list[str] = []
    for line in f"{head}\n{brokers}".splitlines():
        if variable := re.match(r"# ([A-Z_]+)=(.*)", line):
            usual = f"`{variable[2]}`" if variable[2] else ""
            yield f"`{variable[1]}`", usual, " ".join(said) or "As the one above"
            said = []
        elif broker := re.match(r"# -- options of (\w+)", line):
            link = broker[1].lower()
            said = [f"[Options of the broker](../{link}.md) that the application does not give"]
        elif line.startswith("# "):
            said.append(line[2:])


if __name__ == "__main__":
    for path, text in pages():
        path.write_text(text, encoding="utf-8")
