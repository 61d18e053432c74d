"""Docstrings and comments of the source are in plain English, by the rules of `test_prose`.

A worker, a row or a transaction is no "who"; see `FORBIDDEN` there. What reads as a list in code,
such as comments behind constants, is one sentence each.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.test_prose import FORBIDDEN, MEAN, forbidden_in, sentences, words

SOURCE = Path(__file__).parents[2] / "src" / "mutirao"
ROOMS = sorted(
    {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
)
LONGEST = 50  # words of a sentence
# Forbidden words that are left: no more than these.
LEFT = {"sql": 1}
_NAMED = re.compile(r"^\s+[\w*.`(), ]+: ", re.MULTILINE)  # a parameter, or an error that is raised
_SECTION = re.compile(r"^\s*(Parameters|Raises|Returns|Yields):$", re.MULTILINE)
_COLUMNS = re.compile(r"^ {4}(\S.*\S {2,}\S.*| {16,}.*)$", re.MULTILINE)  # in line with each other
_ANY = re.compile("|".join(rf"\b{each}" for each in FORBIDDEN), re.IGNORECASE)
_DIRECTIVE = re.compile(r"# *(noqa|type:|fmt:|pragma|pyright|!)")


@cache
def prose(room: str) -> tuple[tuple[str, str], ...]:
    """Return each docstring and comment of a room, with the file that has it."""
    own, within = SOURCE / f"{room}.py", SOURCE / room
    paths = [own] if own.exists() else sorted(within.rglob("*.py"))
    # A revision that was committed is never edited, not a byte.
    edited = [path for path in paths if "versions" not in path.parts]
    return tuple((str(path.relative_to(SOURCE)), text) for path in edited for text in _said(path))


def _said(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    with_docstrings = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, with_docstrings) and (text := ast.get_docstring(node)):
            text = _COLUMNS.sub("", text)
            yield _NAMED.sub("\n\n", _SECTION.sub("", text))
    if "#" in source:
        with path.open("rb") as file:
            yield from _comments(file.readline)


def _comments(readline: object) -> Iterator[str]:
    """Yield comments: lines of their own that follow each other are one, others are one each."""
    block: list[str] = []
    last = 0
    for token in tokenize.tokenize(readline):  # type: ignore[arg-type]
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            alone = not token.line[: token.start[1]].strip()
            if block and not (alone and token.start[0] == last + 1):
                yield " ".join(block)
                block = []
            block.append(token.string.lstrip("# "))
            last = token.start[0] if alone else 0
    if block:
        yield " ".join(block)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_in_plain_english(room: str) -> None:
    """Its sentences are short, and it has none of the forbidden words."""
    suspect = [each for each in prose(room) if _ANY.search(each[1])]
    found = [f"{path}: {each}" for path, text in suspect for each in forbidden_in(text)]
    assert len(found) <= LEFT.get(room, 0), "\n".join(found)
    lengths = [
        (words(each), path, each) for path, text in prose(room) for each, _ in sentences(text)
    ]
    longest = [each for each in lengths if each[0] > LONGEST]
    assert longest == []
    mean = sum(length for length, _, _ in lengths) / max(len(lengths), 1)
    assert mean <= MEAN


def test_what_a_file_says_is_found(tmp_path: Path) -> None:
    """Docstrings with their parameters, blocks of comments, and comments behind code."""
    path = tmp_path / "a.py"
    path.write_text(
        '"""Runs.\n\nParameters:\n    name: of it.\n"""\n\n'
        "# One that\n# goes on.\nX = 1  # seconds\nY = 2  # more\nZ = 3  # noqa: E501\n"
    )
    by_words = defaultdict(list)
    for text in _said(path):
        by_words[" ".join(text.split())].append(text)
    assert [*by_words] == ["Runs. of it.", "One that goes on.", "seconds", "more"]
