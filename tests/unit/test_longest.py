"""Of the tests that run at the same time those that take longest begin."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.longest import SECONDS, places

ROOT = Path(__file__).parents[2]


def test_the_longest_begin() -> None:
    """What is known to take long, then what has many tests, then what only counts."""
    units = [f"tests/unit/test_hours.py::test_{n}[a-b]" for n in range(40)]
    many = [f"tests/integration/doctor/test_doctor.py::test_{n}" for n in range(40)]
    one = ["tests/acceptance/test_demo.py::test_on_sqlite"]
    assert list(places([*units, *many, *one])) == [
        "tests/acceptance/test_demo.py",
        "tests/integration/doctor/test_doctor.py",
        "tests/unit/test_hours.py",
    ]


@pytest.mark.parametrize("scope", SECONDS)
def test_what_is_in_the_table_is_there(scope: str) -> None:
    """A file that was renamed would begin somewhere."""
    path, _, name = scope.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    classes = {each.name for each in tree.body if isinstance(each, ast.ClassDef)}
    assert not name or name in classes
