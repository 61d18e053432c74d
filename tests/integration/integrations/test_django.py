"""Django's own connections, in a Django project: see `django_cases.py`."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from sqlalchemy import create_engine, make_url, text


def url_on(driver: str, request: pytest.FixtureRequest) -> str:
    """Return the URL of a migrated database with a table of the project."""
    kind = "sqlite" if driver == "sqlite" else "postgresql"
    url = make_url(request.getfixturevalue(f"migrated_{kind}_url")).set(drivername=driver)
    engine = create_engine(url)
    id = "integer PRIMARY KEY" if driver == "sqlite" else "serial PRIMARY KEY"
    with engine.begin() as conn:
        conn.execute(text(f"CREATE TABLE orders (id {id}, item text)"))
    engine.dispose()
    return url.render_as_string(hide_password=False)


@pytest.mark.repeats("sqlite", decided="tests/integration/integrations/test_django.py")
@pytest.mark.repeats("postgresql+psycopg2", decided="tests/integration/integrations/test_django.py")
@pytest.mark.parametrize("driver", ["sqlite", "postgresql+psycopg", "postgresql+psycopg2"])
def test_a_project_s_tests(request: pytest.FixtureRequest, driver: str) -> None:
    """Transactions, savepoints, guards of tests, logs of queries are Django's."""
    program = "tests.integration.integrations.django_cases"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", program, url_on(driver, request)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert int(re.findall(r"^Ran (\d+) tests", run.stderr, re.MULTILINE)[0]) == 25
