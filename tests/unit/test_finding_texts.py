"""Findings are translated by their texts: each text in the code has a translation.

What the code says is read from its syntax: the texts of functions that make a finding, and the
tables beside them. A text that is put together must be a part of one with a translation.
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from mutirao.model.finding_texts.in_portuguese import PORTUGUESE
from mutirao.model.finding_texts.translation import language_of, translated, translated_text
from mutirao.model.findings import Finding, Level
from mutirao.sql.statements.leftovers import LEFTOVERS

SOURCE = Path(__file__).parents[2] / "src" / "mutirao"
MADE_BY = {"Finding", "Flaw"}
# Names and statements, which are the same in each language.
_SAME = re.compile(
    r"\W*|[\w.]+=?|\s*(SELECT|SHOW|EXPLAIN|SET LOCAL|ALTER ROLE|INSERT|UPDATE|WHERE|PRAGMA)\b.*"
    r"|mutirao transports declare|read committed|%Y-.*|sqlite:.*|(USING|COVERING) INDEX.*",
    re.DOTALL,
)
# Of servers and sessions: what has to be there, by its technical name; and parts of conditions.
_NAMES = {
    "SKIP LOCKED", "microseconds in UTC_TIMESTAMP", "the storage engine InnoDB",
    "utf8mb4 compared byte for byte", "but one of our tables has no primary key",
    "but our tables have to be in InnoDB", "ahead of", " or ", "pause ",
    "{} {}", "{} to {}",
}  # fmt: skip


def texts() -> Iterator[tuple[str, str]]:
    """Yield each text of the code from which findings are made, and the file that has it."""
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "Finding(" in source or "Flaw(" in source:
            for node in _makers(ast.parse(source)):
                yield from ((each, path.name) for each in _said(node))
    yield from ((f"{{}} {each.what}", "leftovers.py") for each in LEFTOVERS)


def _makers(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield functions that make a finding, and tables of texts on the module's level."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _makes(node):
            yield node
    yield from (each for each in tree.body if isinstance(each, ast.Assign))


def _makes(node: ast.AST) -> bool:
    calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(isinstance(each, ast.Name) and each.id in MADE_BY for each in calls)


def _said(node: ast.AST) -> Iterator[str]:
    """Yield the texts below a node, but for docstrings; a fact is `{}`."""
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        yield re.sub(r"(\{\})+", "{}", "".join(map(str, parts)))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        for child in ast.iter_child_nodes(node):
            yield from _said(child)


def test_each_finding_has_a_text() -> None:
    """In Portuguese, whole or as a part of a longer one."""
    known = "\n".join(PORTUGUESE)
    asked = {each for each in texts() if not _SAME.fullmatch(each[0]) and each[0] not in _NAMES}
    assert len(asked) > 100
    assert sorted(each for each in asked if not re.search(_pattern(each[0]), known)) == []


def _pattern(text: str) -> str:
    return ".+".join(map(re.escape, text.split("{}")))


def test_translations_have_the_facts_of_the_original() -> None:
    """None is missing, and none is left over."""
    wrong = [each for each in PORTUGUESE if _facts(each) != _facts(PORTUGUESE[each])]
    assert wrong == []


def _facts(text: str) -> int:
    return sum(1 for _, name, _, _ in string.Formatter().parse(text) if name == "")


@pytest.mark.parametrize(
    ("english", "portuguese"),
    [
        ("all 6 are there", "todos os 6 existem"),
        ("the index a{}b is missing or invalid", "o índice a{}b falta ou é inválido"),
        ("'a', 'b' and 3 more are paused and make no jobs",
         "'a', 'b' and 3 more: estão em pausa e não criam jobs"),
        ("3 jobs that are blocked by nothing", "3 jobs que nada bloqueia estão bloqueados"),
        ("what nobody has translated", "what nobody has translated"),
    ],
)  # fmt: skip
def test_facts_are_put_into_the_translation(english: str, portuguese: str) -> None:
    """Whatever they are; and a text without a translation stays as it is."""
    assert translated_text(english, "pt") == portuguese
    finding = Finding(Level.WARNING, "indexes", english)
    assert translated(finding, "pt-BR") == Finding(Level.WARNING, "indexes", portuguese)
    assert translated(finding, "en") == finding


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "pt_BR.UTF-8"}, "pt"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "de_DE", "LC_MESSAGES": "pt"}, "pt"),
        ({"LANG": "pt_BR.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "pt_BR.UTF-8", "LC_ALL": ""}, "pt"),
    ],
)
def test_the_language_is_that_of_the_environment(
    environment: dict[str, str], language: str
) -> None:
    """The first variable that is set decides; English where it names a language without texts."""
    assert language_of(environment) == language
