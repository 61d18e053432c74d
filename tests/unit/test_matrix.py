"""The tables of servers and Pythons are what the matrix found, and nobody writes them by hand."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from tests.matrix import results, running, tables
from tests.matrix.interpreters import CLONE
from tests.matrix.results import Result
from tests.matrix.rows import ROWS, Row

PASSED = Result(
    "mysql-9.7", "MySQL", "9.7.4", "2026-11-27", "3.13.0", ("tests/unit/x.py",), passed=1200
)


@pytest.mark.parametrize("page", tables.pages(), ids=lambda page: str(page.name))
def test_a_page_says_what_was_found(page: Path) -> None:
    """If not: `python -m tests.matrix.tables`."""
    text = page.read_text(encoding="utf-8")
    assert tables.filled(text, results.read()) == text


def test_each_row_is_told() -> None:
    """Each has a result, the version that was wanted, and a reason where nothing ran."""
    kept = results.read()
    assert [each.name for each in kept] == [row.name for row in ROWS]
    for row, each in zip(ROWS, kept, strict=True):
        assert f"{each.version}.".startswith(f"{row.version}."), row.name
        assert bool(each.missing) != bool(each.passed), row.name
        assert date.fromisoformat(each.date) >= date(2026, 11, 27)


def test_each_product_has_a_table() -> None:
    """And each of its rows a line there."""
    text = "".join(page.read_text(encoding="utf-8") for page in tables.pages())
    assert all(tables.line(each) in text for each in results.read())


def test_classifiers_are_what_passed() -> None:
    """A Python is claimed if its row has passed, and none whose row has failed."""
    project = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]
    claimed = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    rows = [each for each in results.read() if re.fullmatch(r"python-3\.\d+", each.name)]
    ran = {each.name.removeprefix("python-"): not each.failed for each in rows if each.passed}
    assert {version for version, passed in ran.items() if passed} <= {*claimed}
    assert not {version for version, passed in ran.items() if not passed} & {*claimed}
    assert project["requires-python"] == f">={claimed[0]}"


def test_a_line() -> None:
    """What ran, how many passed, and when; failures and second tries are not hidden."""
    assert tables.line(PASSED) == "| MySQL 9.7.4 | 1,200 tests of `unit` passed. 2026-11-27 |\n"
    failed = replace(PASSED, failed=1, failures=("a",), again=("b", "c"))
    assert "passed, **1 failed**, 2 of them only when tried again. 2026" in tables.line(failed)
    assert tables.line(Result("x", "MySQL", "8.0", "2026-11-27", missing="nobody has it")) == (
        "| MySQL 8.0 | **not run**: nobody has it |\n"
    )


def test_results_are_kept(tmp_path: Path) -> None:
    """One row replaces its earlier result; a row that there is no more is forgotten."""
    file = tmp_path / "results.json"
    for each in (PASSED, Result("old", "MySQL", "5", "2026-11-27"), PASSED):
        results.keep(each, ["mysql-9.7", *(["old"] if each is not PASSED else [])], file)
    assert results.read(file) == [PASSED]


def test_another_version_is_not_taken_for_it() -> None:
    """A machine whose server is another one: the row says so."""
    row = Row("mysql-8.0", "MySQL", "8.0", ("none",), lambda: ["echo", "mysqld Ver 9.7.4"])
    assert running.run(row, 1).missing == "9.7.4 is what is here"
