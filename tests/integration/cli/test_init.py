"""`mutirao init`: what it writes passes its own tests, and nothing that is there is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mutirao.cli import main
from tests.support.clones import Installed, installed

__all__ = ["installed"]

# What has to be installed besides Mutirão, by the kind of project.
KINDS = {
    "plain": frozenset({"pytest"}),
    "fastapi": frozenset({"pytest", "fastapi", "httpx2"}),
    "flask": frozenset({"pytest", "[flask]"}),
}


def init(*arguments: str) -> tuple[int, str]:
    """Run the command; return its status and what it says."""
    done = CliRunner().invoke(main, ["init", *arguments])
    return done.exit_code, done.output


def options(kind: str, directory: Path) -> list[str]:
    """Return the arguments that write such a project."""
    return [str(directory)] if kind == "plain" else [str(directory), f"--{kind}"]


_ALIAS = "ignore:The anyio.abc.BlockingPortal alias"  # of starlette 0.50, with a newer anyio


def run_tests(directory: Path, python: Path) -> str:
    """Run what was written as its own tests; return what they say."""
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-W", "error", "-W", _ALIAS, "work"],
        cwd=directory,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_passes_its_tests(kind: str, tmp_path: Path) -> None:
    """In a package of the name that was given; the lines that say what is next name it."""
    status, said = init(*options(kind, tmp_path), "--name", "work")
    assert status == 0
    assert f"wrote {tmp_path / 'work' / 'tasks.py'}" in said
    assert "  python -m pytest work  # after pip install pytest" in said
    assert "3 passed" in run_tests(tmp_path, Path(sys.executable))
    assert not (tmp_path / "jobs.db").exists()


@pytest.mark.repeats(decided="tests/integration/cli/test_init.py")
@pytest.mark.parametrize("kind", KINDS)
def test_in_a_fresh_environment(kind: str, tmp_path: Path, installed: Installed) -> None:
    """With nothing but what such a project needs."""
    programs = installed.directory(KINDS[kind])
    said = subprocess.run(
        [programs / "mutirao", "init", *options(kind, tmp_path), "--name", "work"],
        check=True,
        capture_output=True,
    )
    assert said.stdout
    assert "3 passed" in run_tests(tmp_path, programs / "python")


def test_an_app_of_django_passes_its_tests(tmp_path: Path) -> None:
    """In a project that names it, with Mutirão's app, in INSTALLED_APPS."""
    status, said = init(str(tmp_path), "--django", "--name", "work")
    assert (status, "manage.py test work" in said) == (0, True)
    (tmp_path / "manage.py").write_text(MANAGE)
    done = subprocess.run(
        [sys.executable, "manage.py", "test", "work"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert "Ran 3 tests" in done.stderr, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr


MANAGE = """
import sys

from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    SECRET_KEY="for a test",
    USE_TZ=True,
    INSTALLED_APPS=["mutirao.integrations.django", "work"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": "work.db",
            "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE"},
        }
    },
)
execute_from_command_line(sys.argv)
"""


@pytest.mark.parametrize("there", ["jobs/tasks.py", "compose.yaml"])
def test_nothing_is_overwritten(there: str, tmp_path: Path) -> None:
    """If one of the files is there, or the package, none is written."""
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    status, said = init(str(tmp_path))
    assert status == 2
    assert "exists already, and nothing was written" in said
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / there).read_text() == "mine"


def test_a_name_that_is_none(tmp_path: Path) -> None:
    """A package has to be importable."""
    status, said = init(str(tmp_path), "--name", "my-jobs")
    assert (status, "no name of a package" in said) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["mutirao", "django", "json"])
def test_a_name_that_others_have(name: str, tmp_path: Path) -> None:
    """It would be imported instead of theirs."""
    status, said = init(str(tmp_path), "--name", name)
    assert (status, "give another --name" in said) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", ["jobs", "compose.yaml"])
def test_a_link_to_nowhere(there: str, tmp_path: Path) -> None:
    """Is there as well, and nothing is written through it, or beside it."""
    (tmp_path / there).symlink_to(tmp_path / "nowhere")
    status, said = init(str(tmp_path))
    assert (status, "exists already" in said) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == [there]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    """The reason is said, and no traceback."""
    (tmp_path / "file").write_text("")
    status, said = init(str(tmp_path / "file" / "below"))
    assert (status, "cannot be written: Not a directory" in said) == (2, True)
