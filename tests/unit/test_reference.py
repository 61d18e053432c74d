"""The reference has all that the code has: settings, metrics, errors, exit statuses, troubles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mutirao import errors
from mutirao.cli import group
from tests.support.engine import process
from tests.support.reference_pages import pages

ROOT = Path(__file__).parents[2]
ORDEAL = ROOT / "tests" / "faults" / "ordeal"


@pytest.mark.parametrize("page", ["settings", "metrics"])
def test_a_page_that_is_made_of_the_code(page: str) -> None:
    """Write it again with `python -m tests.support.reference_pages`."""
    made = {path.stem: (path.read_text(encoding="utf-8"), text) for path, text in pages()}
    written, expected = made[page]
    assert written == expected


def test_each_error_says_what_to_do() -> None:
    """Each class has a row, with the classes that it really is."""
    rows = [*_rows("docs/reference/errors.md", "error")]
    classes = {name for name in vars(errors) if name[0].isupper()}
    named = [name for first, *_ in rows for name in re.findall(r"`(\w+)`", first)]
    assert sorted([*named, "MutiraoError"]) == sorted(classes)  # and none is there twice
    for first, also, when, what in rows:
        assert when, first
        assert what, first
        for name in re.findall(r"`(\w+)`", first):
            bases = {each.__name__ for each in getattr(errors, name).__mro__}
            assert {*re.findall(r"`(\w+)`", also)} <= bases, name


def test_each_exit_status_is_explained() -> None:
    """The page of the command line has them all."""
    of_commands = {0, group.REFUSED, group.MISUSED, group.SCHEMA, group.UNREACHABLE}
    of_workers = {process.FAILED, process.STUCK, process.FORCED, process.STARTLESS}
    shown = [int(number) for number, _ in _rows("docs/cli.md", "exit status")]
    assert shown == sorted(of_commands | of_workers)


def test_each_event_of_the_log_is_explained() -> None:
    """A record has one of these words, which people search for."""
    code = "\n".join(path.read_text() for path in (ROOT / "src" / "mutirao").rglob("*.py"))
    events = set(re.findall(r'"((?:attempts?|worker|log)\.[a-z]+)"', code))
    shown = [re.findall(r"`([\w.]+)`", first) for first, _ in _rows("docs/logs.md", "event")]
    assert {each for names in shown for each in names} == events


def test_each_trouble_has_a_way_out() -> None:
    """What the ordeal does to workers is on the page for those who meet it."""
    code = "\n".join(path.read_text() for path in ORDEAL.glob("*.py"))
    troubles = set(re.findall(r'\.trouble\(\s*"([\w-]+)"', code)) - {"nothing"}
    rows = _rows("docs/howto/recover.md", "trouble")
    named = {name for first, *_ in rows for name in re.findall(r"`([\w-]+)`", first)}
    assert named == troubles


def _rows(page: str, column: str) -> Iterator[list[str]]:
    """Yield the cells of each row of each table whose first column has this name."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for table in re.findall(rf"^\| {column} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE):
        for row in table.splitlines():
            yield [cell.strip() for cell in row.strip().strip("|").split(" |")]
