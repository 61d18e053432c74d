"""What the matrix has: a row for each server and each Python, and which tests it runs.

What is promised and cannot be had is a row, too, with the reason.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.matrix import djangos
from tests.matrix.interpreters import Interpreter
from tests.matrix.roots import MARIADB, POSTGRESQL, RABBITMQ, Root
from tests.support import binaries, mysql, mysql_router
from tests.support.debian import fetched

Command = list[str | Path]


@dataclass(frozen=True)
class Row:
    """A server or a Python.

    Parameters:
        name: by which `--only` asks for it.
        product, version: what is to be there; the whole version is what it says itself.
        tests: arguments of pytest.
        asks: the command that tells the version.
        root: where other servers than the machine's are; None for those.
        python: what runs the tests; None for the Python that runs the matrix.
        missing: why it cannot be run, said instead of being run.
    """

    name: str
    product: str
    version: str
    tests: tuple[str, ...] = ()
    asks: Callable[[], Command] | None = None
    root: Root | None = None
    python: Interpreter | None = None
    missing: str = ""

    def found(self) -> str:
        """Return the version that is there."""
        assert self.asks is not None
        said = subprocess.run(self.asks(), check=True, capture_output=True, text=True).stdout
        number = re.search(r"\d+\.\d+(\.\d+)?", said)
        if number is None:
            raise ValueError(f"{self.asks()} said {said!r}, where a version was expected")
        return number[0]


CONTRACT = "tests/conformance"
_POSTGRESQL = (
    *(f"{CONTRACT}/test_{each}.py" for each in ("sql_store", "roles", "notifiers")),
    "tests/integration/plans",
    "tests/integration/migrations",
    "tests/integration/records",
    "tests/integration/transactions",
    "tests/integration/uniqueness",
    *("-k", "not sqlite and not Sqlite and not mysql and not mariadb and not singlestore"),
)
_MARIADB = (
    f"{CONTRACT}/test_mariadb.py",
    f"{CONTRACT}/test_mariadb_levels.py",
    "tests/integration/plans/test_mysql.py",
    "tests/integration/databases/test_mariadb.py",
    "tests/integration/databases/test_mariadb_refusals.py",
    "tests/integration/sessions",
    "tests/integration/transactions/test_again_mariadb.py",
)
_MYSQL = (
    f"{CONTRACT}/test_mysql.py",
    "tests/integration/plans/test_mysql.py",
    "tests/integration/databases/test_mysql_servers.py",
)
_ROUTER = ("tests/integration/databases/test_mysql_router.py",)
_RABBITMQ = (
    f"{CONTRACT}/test_rabbitmq.py",
    "tests/integration/carried",
    "tests/integration/carrying",
    "tests/faults/chaos/test_chaos_broker.py",
    *("-k", "not sqs and not Sqs and not memory"),
)
_SQLITE = (
    f"{CONTRACT}/test_sql_store.py::TestSqlite",
    "tests/integration/plans/test_sqlite.py",
    "tests/integration/transactions/test_lent_sqlite.py",
)
# These pages show what the store does, and no Python or version of a package decides that.
_OF_THE_STORE = (
    *("database", "graphs", "limits", "schedules", "tasks"),
    *("tenants", "topics", "uniqueness", "worker"),
)
_PAGE = "tests/unit/test_readme.py::test_what_a_page_shows_works"
_PYTHON = (
    *("--drivers", "tests/unit", "tests/faults/cron_oracle"),
    *(f"{CONTRACT}/test_sql_store.py::Test{each}" for each in ("Sqlite", "Psycopg")),
    *(f"{CONTRACT}/test_{each}.py" for each in ("mariadb", "rabbitmq")),
    *(f"tests/integration/{each}" for each in ("tasks", "worker", "engine")),
    *(f"tests/acceptance/test_with_{each}.py" for each in ("django", "fastapi", "flask")),
    "tests/integration/integrations/test_django_backend.py::test_a_project_s_tests[sqlite]",
    "tests/integration/django_data/test_django_data.py::test_migrations_and_models[sqlite]",
    # What only the tests use.
    *(
        f"--ignore=tests/unit/test_{each}.py"
        for each in ("support", "hangs", "fixtures", "house", "matrix")
    ),
    *(f"--deselect={_PAGE}[docs/{each}.md]" for each in _OF_THE_STORE),
)


def _postgres() -> Command:
    return [binaries.find_server() / "postgres", "--version"]


def _mariadb() -> Command:
    return [binaries.find_mariadb(), "--version"]


def _mysql() -> Command:
    return [*fetched(mysql.PACKAGE).command("usr/sbin/mysqld"), "--no-defaults", "--version"]


def _router() -> Command:
    return [*mysql_router.command(), "--version"]


def _rabbitmq() -> Command:
    return ["echo", binaries.find_rabbitmq()]  # its directory is called by its version


def _library(python: Interpreter | None) -> Callable[[], Command]:
    asked = "import sqlite3; print(sqlite3.sqlite_version)"
    return lambda: [python.made() if python else sys.executable, "-c", asked]


def _python(version: str, *, lowest: bool = False) -> Row:
    interpreter = Interpreter(version, lowest=lowest)
    product = f"Python, {'lowest' if lowest else 'newest'} dependencies"
    return Row(
        interpreter.name,
        product,
        version,
        _PYTHON,
        lambda: [interpreter.made(), "--version"],
        python=interpreter,
    )


def _django(version: str, python: str) -> Row:
    its = djangos.WithDjango(python, django=version)
    product = f"Django, Python {python}"
    return Row(f"django-{version}", product, version, djangos.TESTS, its.asks, python=its)


_NEW = Interpreter("3.14")
_GONE = "neither Debian 12 nor its branch sid has it"

ROWS = (
    Row("postgresql-14", "PostgreSQL", "14", missing=_GONE),
    Row("postgresql-15", "PostgreSQL", "15", _POSTGRESQL, _postgres),
    Row("postgresql-18", "PostgreSQL", "18", _POSTGRESQL, _postgres, POSTGRESQL),
    Row("mariadb-10.6", "MariaDB", "10.6", missing=_GONE),
    Row("mariadb-10.11", "MariaDB", "10.11", _MARIADB, _mariadb),
    Row("mariadb-11.8", "MariaDB", "11.8", _MARIADB, _mariadb, MARIADB),
    Row("mysql-8.0", "MySQL", "8.0", missing=_GONE),
    Row("mysql-9.7", "MySQL", "9.7", _MYSQL, _mysql),
    Row("mysql-router-9.7", "MySQL Router", "9.7", _ROUTER, _router),
    Row("sqlite-3.40", "SQLite", "3.40", _SQLITE, _library(None)),
    Row("sqlite-3.53", "SQLite", "3.53", _SQLITE, _library(_NEW), python=_NEW),
    Row("rabbitmq-3.10", "RabbitMQ", "3.10", _RABBITMQ, _rabbitmq),
    Row("rabbitmq-4.3", "RabbitMQ", "4.3", _RABBITMQ, _rabbitmq, RABBITMQ),
    _python("3.11", lowest=True),
    *(_python(f"3.{minor}") for minor in (11, 12, 13, 14, 15)),
    Row(
        "python-3.14t",
        "Python, free-threaded",
        "3.14",
        missing="Debian packages none, and PyPI has no interpreter",
    ),
    _django("5.2", "3.11"),
    _django("6.0", "3.12"),
    _django("6.1", "3.13"),
    Row("django-6.2", "Django", "6.2", missing="PyPI has no pre-release of it"),
)
