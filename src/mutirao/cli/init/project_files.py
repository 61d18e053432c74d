"""The command `init`: it writes all files of a start, or none."""

import keyword
import os
import sys
from pathlib import Path

import click

from mutirao.cli.init.projects import DJANGO, FASTAPI, FLASK, PLAIN, StartedProject
from mutirao.cli.output import say
from mutirao.errors import ConfigurationError

_KINDS: dict[str, StartedProject] = {"django": DJANGO, "fastapi": FASTAPI, "flask": FLASK}


@click.command()
@click.argument("directory", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--django", "kind", flag_value="django", help="Into a project with Django.")
@click.option("--fastapi", "kind", flag_value="fastapi", help="Into a project with FastAPI.")
@click.option("--flask", "kind", flag_value="flask", help="Into a project with Flask.")
@click.option("--name", default="jobs", show_default=True, help="The package that is written.")
def init(directory: Path, kind: str | None, name: str) -> None:
    """Write a start: an application, a task, their test, settings, and a file for Docker Compose.

    Nothing that is there is changed: if a file of the start exists, none is written.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigurationError(f"{name!r} is no name of a package; give one such as jobs")
    if name in sys.stdlib_module_names or name in ("mutirao", "django", "fastapi", "flask"):
        raise ConfigurationError(
            f"a package {name} there would be imported instead of the one that is called so; give"
            " another --name, such as jobs"
        )
    chosen = _KINDS.get(kind or "", PLAIN)
    texts = {directory / path: text for path, text in chosen.written(name).items()}
    _write(texts)
    for path in texts:
        say(f"wrote {path}")
    say("Next:")
    for line in chosen.next(name):
        say(f"  {line}")


def _write(texts: dict[Path, str]) -> None:
    """Write all of them; raise ConfigurationError if one of them, or its package, exists."""
    package = next(path.parent for path in texts if path.name == "__init__.py")
    there = {path for path in texts if os.path.lexists(path) and path.parent != package}
    if os.path.lexists(package):  # also a link to nowhere
        there.add(package)
    if there:
        raise ConfigurationError(
            f"{', '.join(map(str, sorted(there)))} exists already, and nothing was written; remove"
            " that, or give another --name or directory"
        )
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise ConfigurationError(
            f"{error.filename or package} cannot be written: {error.strerror or error}; give"
            " another directory"
        ) from error
