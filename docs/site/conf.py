"""Settings of Sphinx for the site of the documents: `make docs`.

The sources are the Markdown files where they stand, so that each link works in a clone, too.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
from babel.messages.pofile import read_po
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

from mutirao.cli import main

ROOT = Path(__file__).parents[2]
WIDTH = 100  # columns of what commands say
logger = getLogger(__name__)
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

project = "Mutirão"
author = "Mutirão contributors"
copyright = "Mutirão contributors, MIT licence"
version = release = _PROJECT["version"]

root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/**",
    "examples/README.md",
    "deploy/README.md",
    "benchmarks/*.md",
    "benchmarks/results/*.md",
]
exclude_patterns = [".*", "docs/site/**"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]

locale_dirs = ["locale"]
gettext_compact = False  # a catalogue for each page
gettext_uuid = False
gettext_location = False

myst_heading_anchors = 6  # pages link to headings as Git hosts name them
myst_enable_extensions = ["colon_fence", "deflist"]

default_role = "code"  # docstrings have names between single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"Mutirão {release}"
html_extra_path: list[str] = ["extra"]
html_copy_source = False
html_show_sphinx = False


def _add_commands(app: Sphinx, name: str, source: list[str]) -> None:
    """Add what each command says with `--help` to the page of commands."""
    if name == "docs/reference/commands":
        source[0] += "\n".join(_helps(main, "mutirao", None))


def _helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, max_content_width=WIDTH)
    context.terminal_width = WIDTH
    depth = len(context.command_path.split())
    yield f"{'#' * (depth + 1)} {context.command_path}"
    yield f"\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            if (found := command.get_command(context, each)) and not found.hidden:
                yield from _helps(found, each, context)


def _warn_of_stale_translations(app: Sphinx, docname: str, source: list[str]) -> None:
    """Warn of each translation whose original is no longer on the page."""
    for catalogue in (ROOT / "docs" / "site" / "locale").glob(f"*/LC_MESSAGES/{docname}.po"):
        text = " ".join(source[0].split())
        with catalogue.open("rb") as file:
            stale = [each.id for each in read_po(file) if each.id not in text]
        for original in stale:
            logger.warning("%s translates what the page no longer says: %r", catalogue, original)


def setup(app: Sphinx) -> None:
    """Add what is made from the code, and look after translations."""
    app.connect("source-read", _add_commands)
    app.connect("source-read", _warn_of_stale_translations)
