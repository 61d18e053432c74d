"""House rules that a program can check and that import-linter, ruff and mypy do not."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mutirao import GraphHandle, Handle, Mutirao, Task, Tasks
from mutirao.client.limits import Limits
from mutirao.client.schedules import Schedules
from mutirao.sql.registry import DIALECTS
from mutirao.tasks.schedule_declarations import Declarations
from mutirao.tasks.task import Call
from tests.support import import_spy

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
CONFORMANCE = sorted((ROOT / "conformance/src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SQL = sorted((ROOT / "src").rglob("*.sql"))
LONG_FILE, LONGEST_FILE = 500, 800
LONGEST_FUNCTION = 60

HELD_BY_USERS = (Mutirao, Tasks, Schedules, Declarations, Limits, Task, Call, Handle, GraphHandle)
BORROWED = re.compile(r"^(?:As|Like) `|\b(?:see|as in) `", re.M)

Function = ast.FunctionDef | ast.AsyncFunctionDef
MAKES = re.compile(
    r"^CREATE (?:OR REPLACE )?(?:UNIQUE |CONSTRAINT )?(?P<kind>[A-Z]+) (?:IF NOT EXISTS )?"
    r"(?P<name>\w+).*",
    re.M | re.S,
)


def long_functions(source: str) -> Iterator[str]:
    """Yield the name and length of every function of `source` that is too long."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield f"{node.name}: {length} lines"


def made(source: str) -> Iterator[tuple[str, str, int]]:
    """Yield what the statements of a migration make: its kind and name, and how many lines."""
    for statement in source.rstrip("\n").split("\n--;\n"):
        if found := MAKES.search(statement):
            yield found["kind"], found["name"], len(found[0].splitlines())


def long_sql_functions(source: str) -> list[str]:
    """Return the names of the functions in SQL that are too long."""
    return [
        name
        for kind, name, length in made(source)
        if kind in ("FUNCTION", "PROCEDURE") and length > LONGEST_FUNCTION
    ]


def borrowing(held: type) -> Iterator[str]:
    """Yield the public methods of a class whose docstring is missing or refers to another one."""
    for name, member in inspect.getmembers(held):
        if name.startswith("_") or not (inspect.isroutine(member) or isinstance(member, property)):
            continue
        text = inspect.getdoc(member) or ""
        if not re.match(r"[A-Z][^.]+ [^.]+[.:]", text) or BORROWED.search(text):
            yield f"{held.__name__}.{name}: {text!r}"


def names(path: Path) -> set[str]:
    """Return every dotted name that the module at `path` uses, such as `dialect.name`."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}


def offences_of_importing(package: str, *paths: Path) -> list[str]:
    """Import all of `package` in a process of its own; return what it did beyond importing."""
    found = subprocess.run(
        [sys.executable, "-B", import_spy.__file__, package],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
    )
    return found.stdout.splitlines()


def test_files_are_short() -> None:
    """A file past 800 lines is several things; one past 500 may be, and is only named.

    A file is one thing: it is not cut in two to please a number.
    """
    paths = [*SOURCES, *CONFORMANCE]
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in paths}
    assert len(lengths) > 4
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}
    for path, length in lengths.items():
        if length > LONG_FILE:
            print(f"{path} has {length} lines: is it one thing?")  # noqa: T201


def test_functions_are_short() -> None:
    """A function past 60 lines does more than one thing."""
    paths = [*SOURCES, *CONFORMANCE]
    found = {path.relative_to(ROOT): list(long_functions(path.read_text())) for path in paths}
    assert {path: functions for path, functions in found.items() if functions} == {}


def test_public_methods_say_themselves_what_they_do() -> None:
    """Whoever reads the help of one method needs no other one."""
    assert [found for held in HELD_BY_USERS for found in borrowing(held)] == []


def test_a_borrowed_docstring_is_noticed() -> None:
    """Nothing, a name alone and a reference are no docstrings of a method's own."""

    class Held:
        def cancel(self) -> None:
            """Cancel jobs; return their ids."""

        def bare(self) -> None: ...

        def twin(self) -> None:
            """As `acancel`."""

        def referring(self) -> None:
            """Cancel jobs; see `acancel`."""

    assert [found.partition(":")[0] for found in borrowing(Held)] == [
        "Held.bare",
        "Held.referring",
        "Held.twin",
    ]


def test_a_long_function_is_noticed() -> None:
    """The rule above can fail: sync and async, methods too, and at 61 lines, not at 60."""
    for head in ("def f():", "async def f():"):
        assert list(long_functions(head + "\n pass" * 59)) == []
        assert list(long_functions(head + "\n pass" * 60)) == ["f: 61 lines"]


def named_databases(source: str) -> set[str]:
    """Return the names of databases that are literals in `source`."""
    nodes = ast.walk(ast.parse(source))
    texts = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    return {text for text in texts if text.lower() in DIALECTS}


def test_sql_functions_are_short() -> None:
    """So does one in SQL."""
    found = {path.relative_to(ROOT): long_sql_functions(path.read_text()) for path in SQL}
    assert len(found) > 11
    assert {path: functions for path, functions in found.items() if functions} == {}


def test_a_long_sql_function_is_noticed() -> None:
    """The rule above can fail: each statement is measured, without the comments before it."""
    head = "-- Why.\nCREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$\nBEGIN\n"
    table, index = "-- Why.\nCREATE TABLE t (\n    id bigint\n)", "CREATE UNIQUE INDEX i ON t (id)"
    for lines, wrong in ((56, []), (57, ["f"])):
        function = head + "    NULL;\n" * lines + "END\n$$"
        source = f"{table}\n--;\n{function}\n--;\n{index}\n"
        assert long_sql_functions(source) == wrong
        assert [name for _, name, _ in made(source)] == ["t", "f", "i"]


def test_a_revision_makes_each_thing_once() -> None:
    """Nothing is made in one file and replaced in another, nor is a name used for two functions."""
    for directory in {path.parent for path in SQL}:
        files = [path.read_text() for path in directory.glob("*.sql")]
        things = [(kind, name) for source in files for kind, name, _ in made(source)]
        assert {thing for thing in things if things.count(thing) > 1} == set()


def test_only_dialects_ask_which_database_it_is() -> None:
    """Nothing outside `sql/dialects/` branches on the database, nor names one.

    But for the registry, which lists them, migrations, each driver, which says whose it is, the
    dashboards of Grafana, whose data sources are called like databases, and the place where
    Django's names of them become ours.
    """
    free = {"dialects", "drivers", "migrations"}
    rooms = [path for path in SOURCES if not free & {*path.parts}]
    askers = {
        str(path.relative_to(ROOT / "src/mutirao"))
        for path in rooms
        if any(name.endswith(("dialect.name", "get_backend_name")) for name in names(path))
        or named_databases(path.read_text())
    }
    assert askers == {
        "sql/registry.py",
        "telemetry/grafana/sql_board.py",
        "integrations/django/databases.py",
        "integrations/django/tables/vendors.py",
    }


def test_a_name_of_a_database_is_noticed() -> None:
    """The rule above can fail: in a comparison, and as the key of a table."""
    assert named_databases('if kind == "sqlite": pass') == {"sqlite"}
    assert named_databases('TABLE = {"PostgreSQL": 1}') == {"PostgreSQL"}
    assert named_databases('"""For sqlite."""') == set()


def test_no_test_is_skipped() -> None:
    """A backend that is not there is an error; a test that does not apply is not written."""
    skips = {"pytest.skip", "pytest.xfail", "pytest.importorskip"}
    skips |= {f"pytest.mark.{mark}" for mark in ("skip", "skipif", "xfail")}
    found = {path.relative_to(ROOT): names(path) & skips for path in [*TESTS, *CONFORMANCE]}
    assert len(found) > 5
    assert {path: marks for path, marks in found.items() if marks} == {}


def test_importing_does_nothing_else() -> None:
    """Importing any module reads no environment, connects to nothing and writes nothing."""
    assert offences_of_importing("mutirao") == []
    assert offences_of_importing("mutirao_conformance", ROOT / "conformance/src") == []


@pytest.mark.parametrize(
    ("offence", "body"),
    [
        ("environment", "import os; os.environ['PATH']"),
        ("environment", "import os; os.getenv('PATH')"),
        ("environment", "from os import environ; 'PATH' in environ"),
        ("environment", "import os; dict(os.environ)"),
        ("sqlite3.connect", "import sqlite3; sqlite3.connect(':memory:').close()"),
        ("socket.connect", "import socket; socket.socket(type=socket.SOCK_DGRAM)"
                           ".connect(('127.0.0.1', 9))"),
        ("write", "open(__file__ + '.log', 'w').close()"),
    ],
)  # fmt: skip
def test_doing_more_than_importing_is_noticed(tmp_path: Path, offence: str, body: str) -> None:
    """The rule above can fail, and looks into submodules."""
    package = tmp_path / "canary"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "inner.py").write_text(body)
    found = offences_of_importing("canary", tmp_path)
    assert {line.split("\t")[0] for line in found} == {offence}


def classes(source: str) -> list[str]:
    """Return the names of the classes of a module."""
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]


def test_no_class_has_the_name_of_another() -> None:
    """One name for one thing: but what each driver has, and a protocol with what keeps to it."""
    paths = [*SOURCES, *CONFORMANCE]
    # Rows in Django have the names of what they show, and a command the one that Django looks for.
    django = {"integrations/django/models.py", "integrations/django/management/commands/mutirao.py"}
    own = [path for path in paths if not str(path).endswith(tuple(django))]
    found = [name for path in own for name in classes(path.read_text())]
    assert {name for name in found if found.count(name) > 1} == {"OwnConnection", "Endings"}


def test_the_moment_that_means_blocked_is_said_once() -> None:
    """In Python; SQL files name it, and statements are made of it."""
    seen = [*SOURCES, *SQL]
    found = [path.name for path in seen if re.search(r"9999-0|9999, 5|2533837", path.read_text())]
    assert found == ["uniqueness.py"]
