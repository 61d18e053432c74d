"""Django's migrations, models, admin, commands and checks, in Django projects of their own."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

_FIXTURES = {"sqlite": "tmp_path", "postgresql": "postgres", "mysql": "mysql"}


def run(request: pytest.FixtureRequest, program: str, kind: str, databases: int) -> int:
    """Run a program of this directory with empty databases; return the number of its tests."""
    urls = [_empty(request, kind, nth) for nth in range(databases)]
    command = [sys.executable, "-W", "error", "-m", f"tests.integration.django_data.{program}"]
    ran = subprocess.run(
        [*command, *urls], capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return int(re.findall(r"^Ran (\d+) tests?", ran.stderr, re.MULTILINE)[0])


def _empty(request: pytest.FixtureRequest, kind: str, nth: int) -> str:
    place = request.getfixturevalue(_FIXTURES[kind])
    if kind == "sqlite":
        return f"sqlite:///{place / f'shop{nth}.db'}"
    name = place.create_database()
    request.addfinalizer(lambda: place.drop_database(name))
    return str(place.url(name))


@pytest.mark.repeats("postgresql", "mysql", decided="tests/integration/migrations")
@pytest.mark.parametrize("kind", sorted(_FIXTURES))
def test_migrations_and_models(request: pytest.FixtureRequest, kind: str) -> None:
    """Both roads lead to the same tables, and the ORM reads the views."""
    assert run(request, "model_cases", kind, 3) == 15


def test_jobs_in_a_schema(request: pytest.FixtureRequest) -> None:
    """Tables, models and checks are where `MUTIRAO` says, on PostgreSQL."""
    assert run(request, "schema_cases", "postgresql", 1) == 1


@pytest.mark.repeats("postgresql", decided="tests/integration/django_data/admin_cases.py")
@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_the_admin(request: pytest.FixtureRequest, kind: str) -> None:
    """Lists, actions and forms, as the models' permissions allow; and the dashboard beside it."""
    assert run(request, "admin_cases", kind, 1) == 21


@pytest.mark.repeats("postgresql", decided="tests/integration/django_data/check_cases.py")
@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_system_checks(request: pytest.FixtureRequest, kind: str) -> None:
    """What is wrong with a project is said by `manage.py check`."""
    assert run(request, "check_cases", kind, 1) == 8
