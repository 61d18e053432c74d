"""Which commands the documents show to whoever has a clone, in blocks, tables and text.

What stands in blocks that `tests/unit/test_readme.py` follows is run there, and is none of these. A
code span that begins with ARGS= or DATABASE= belongs to the last command of its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.documents import blocks

ROOT = Path(__file__).parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *(ROOT / folder / "README.md" for folder in ("benchmarks", "examples")),
    *sorted((ROOT / "docs/contributing").glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
BY_HAND = ("sh by-hand", "console by-hand")
# Nobody follows these pages block by block.
UNFOLLOWED = [page for page in PAGES[1:] if page.parent != ROOT / "docs"]

_OURS = re.compile(
    r"(MUTIRAO_\w+=\S+ )?"
    r"(make |\.ci/run|scripts/|(\.venv/bin/)?python3? (-m (tests|benchmarks|pytest)\b|examples/))"
)
_SPAN = re.compile(r"`([^`]+)`")
_MORE = re.compile(r"(ARGS|DATABASE)=")


@dataclass(frozen=True)
class Command:
    """A command, and the first place that shows it."""

    text: str
    page: str
    line: int


def commands() -> list[Command]:
    """Return every command that a page shows, once, in the order of the pages."""
    found: dict[str, Command] = {}
    for page in PAGES:
        for line, text in _of(page):
            found.setdefault(text, Command(text, str(page.relative_to(ROOT)), line))
    return list(found.values())


def _of(page: Path) -> Iterator[tuple[int, str]]:
    text = page.read_text(encoding="utf-8")
    for block in blocks(text):
        own = block.kind in BY_HAND or (page in UNFOLLOWED and block.kind in ("sh", "console"))
        for number, line in enumerate(block.body.splitlines() if own else (), block.line + 1):
            command = re.sub(r"\s{2,}#.*", "", line).removeprefix("$ ").strip()
            if _OURS.match(command):
                yield number, command
    for number, spans in _spans(re.sub(r"^```.*?^```$", _blank, text, flags=re.M | re.S)):
        yield from ((number, command) for command in _joined(spans))


def _blank(block: re.Match[str]) -> str:
    return "\n" * block[0].count("\n")


def _spans(prose: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the code spans of each row of a table, and of each paragraph."""
    for part in re.finditer(r"^\|.*$|(?:^(?!\|).+\n?)+", prose, re.MULTILINE):
        spans = [" ".join(span.split()) for span in _SPAN.findall(part[0])]
        yield prose.count("\n", 0, part.start()) + 1, spans


def _joined(spans: list[str]) -> Iterator[str]:
    last = ""
    for span in spans:
        if _MORE.match(span) and last.startswith("make "):
            yield f"{last.partition(' ARGS=')[0]} {span}"
        elif _OURS.match(span):
            last = span
            yield span
