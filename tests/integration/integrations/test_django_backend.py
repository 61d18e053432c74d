"""`django.tasks` and native tasks in a Django project: see `django_backend_cases.py`."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from sqlalchemy import make_url

DRIVERS = [
    "sqlite",
    "postgresql+psycopg",
    "mysql+mysqldb",
    pytest.param(
        "postgresql+psycopg2",
        marks=pytest.mark.repeats(decided="tests/integration/integrations/test_django.py"),
    ),
    pytest.param(
        "mysql+pymysql", marks=pytest.mark.repeats(decided="tests/conformance/test_mariadb.py")
    ),
]


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


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_project_s_tests(request: pytest.FixtureRequest, driver: str) -> None:
    """Transactions, results, attempts, signals, priorities, arguments, moments."""
    said = run("django_backend_cases", url_on(driver, request))
    assert int(re.findall(r"^Ran (\d+) tests", said, re.MULTILINE)[0]) == 23
