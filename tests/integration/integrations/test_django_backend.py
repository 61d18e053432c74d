"""`django.tasks` and native tasks in a Django project: see `django_backend_cases.py`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from sqlalchemy import make_url

DRIVERS = [
    "sqlite",
    "postgresql+psycopg",
    pytest.param(
        "mysql+mysqldb",
        marks=pytest.mark.repeats(decided="tests/integration/transactions"),
    ),
    pytest.param(
        "postgresql+psycopg2",
        marks=pytest.mark.repeats(decided="tests/integration/integrations/test_django.py"),
    ),
    pytest.param(
        "mysql+pymysql", marks=pytest.mark.repeats(decided="tests/conformance/test_mariadb.py")
    ),
]
# Each way of completing, and each kind of handler, once.
DECIDED = {("postgresql+psycopg", "plain"), ("mysql+mysqldb", "coroutine-kept")}
AGAIN = pytest.mark.repeats(decided="tests/integration/integrations/test_django_backend.py")
FEWEST_STATEMENTS = 4  # the order, its child, the completion, the commit


def url_on(driver: str, request: pytest.FixtureRequest) -> str:
    """Return the URL of a migrated database."""
    kind = driver.partition("+")[0]
    url = make_url(request.getfixturevalue(f"migrated_{kind}_url")).set(drivername=driver)
    return url.render_as_string(hide_password=False)


def run(program: str, *arguments: str, seconds: float = 120) -> str:
    """Run a program of this folder; return what it said on standard error."""
    found = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"{__package__}.{program}", *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stderr


@pytest.mark.repeats("postgresql+psycopg", decided="tests/integration/transactions")
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_project_s_tests(request: pytest.FixtureRequest, driver: str) -> None:
    """Transactions, results, attempts, signals, priorities, arguments, moments."""
    said = run("django_backend_cases", url_on(driver, request))
    assert int(re.findall(r"^Ran (\d+) tests", said, re.MULTILINE)[0]) == 33


ALL = [
    pytest.param(driver, kind, marks=() if (driver, kind) in DECIDED else AGAIN)
    for driver in ("postgresql+psycopg", "mysql+mysqldb", "sqlite")
    for kind in ("plain", "coroutine", "plain-kept", "coroutine-kept")
]


@pytest.mark.parametrize(("driver", "kind"), ALL)
def test_killed_at_each_statement(request: pytest.FixtureRequest, driver: str, kind: str) -> None:
    """Writes, children and completion are there or not, together; in the end once."""
    whole = {"orders": 1, "children": 1, "state": "succeeded"}
    nothing = {"orders": 0, "children": 0, "state": "running"}
    left = []
    with dying(url_on(driver, request)) as ask:
        for statements in count(1):
            told = ask(f"{kind} {statements}")
            assert (told["again"], told["end"]) == ("exit 0", whole), statements
            left.append(told["left"])
            if told["how"] != "killed":
                break
    assert told["how"] == "exit 0"
    done = left.index(whole)
    assert left == [nothing] * done + [whole] * (len(left) - done)
    assert done >= FEWEST_STATEMENTS
    assert len(left) - done == 2  # killed after the commit, and not at all


@contextmanager
def dying(url: str) -> Iterator[Callable[[str], Any]]:
    """Yield what has a process killed, and tells what was left of its work."""
    command = [sys.executable, "-m", f"{__package__}.django_dying", url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(line: str) -> Any:
            print(line, file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())  # type: ignore[union-attr]

        yield ask
        process.stdin.close()
