"""`manage.py mutirao …` in a project that a directory holds, as programs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mutirao import Mutirao
from tests.support.waiting import wait_until

_SETTINGS = """
from pathlib import Path

HERE = Path(__file__).parent
INSTALLED_APPS = ["mutirao.integrations.django", "shop"]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": HERE / "shop.db",
    "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
}}
SECRET_KEY, USE_TZ, DEBUG = "of a test", True, True
"""
_MANAGE = """
import os, sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
from django.core.management import execute_from_command_line

execute_from_command_line(sys.argv)
"""
_TASKS = """
import logging
from pathlib import Path

from mutirao.integrations.django import app


@app.task
def write(name):
    Path(__file__).with_name(name).write_text("one")
    logging.getLogger("django.tasks").info("wrote %s", name)
"""


class Project:
    """A Django project in a directory."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "shop").mkdir()
        (home / "shop" / "__init__.py").touch()
        (home / "settings.py").write_text(_SETTINGS)
        (home / "manage.py").write_text(_MANAGE)
        self.tasks = home / "shop" / "tasks.py"
        self.tasks.write_text(_TASKS)
        self._environ = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def enqueue(self, name: str) -> None:
        """Enqueue a job of its task, from elsewhere."""
        other = Mutirao(f"sqlite:///{self.home / 'shop.db'}")
        other.task(name="write")(lambda name: None).enqueue(name=name)
        other.close()

    def run(self, *words: str, status: int = 0) -> str:
        """Run a command to its end."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words], cwd=self.home, env=self._environ,
            capture_output=True, text=True, timeout=250, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextmanager
    def running(self, *words: str) -> Iterator[Path]:
        """Run a command beside the block, until SIGTERM; give its log."""
        log = self.home / "worker.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "manage.py", *words], cwd=self.home, env=self._environ,
                stdout=out, stderr=out,
            )  # fmt: skip
        try:
            yield log
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def project(tmp_path: Path, migrated_file: Path) -> Project:
    """A project whose database is migrated."""
    shutil.copy(migrated_file, tmp_path / "shop.db")
    return Project(tmp_path)


def test_commands(project: Project) -> None:
    """They are about the project's application, and end with their own statuses."""
    listed = project.run("help", "mutirao")
    assert "worker" in listed
    assert "manage.py mutirao" in listed
    project.run("mutirao", "enqueue", "write", '{"name": "x"}', "--settings=settings")
    assert "no job 99" in project.run("mutirao", "show", "99", status=1)
    assert "No such command" in project.run("mutirao", "wroker", status=2)
    called = (
        "import django; django.setup(); from django.core.management import call_command;"
        "call_command('mutirao', 'cancel', '1'); call_command('mutirao', 'list', '--json')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", called], cwd=project.home, capture_output=True, text=True,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "settings"}, timeout=250, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert '"state":"cancelled"' in ran.stdout.replace(" ", "")


@pytest.mark.repeats(decided="tests/integration/service")
def test_several_processes(project: Project) -> None:
    """Each of them sets the project up."""
    with project.running("mutirao", "worker", "--processes", "2", "--poll", "0.2"):
        project.enqueue("done")
        wait_until(lambda: (project.home / "shop" / "done").exists())


@pytest.mark.repeats(decided="tests/integration/cli/test_worker.py")
def test_a_worker_starts_again_when_code_changes(project: Project) -> None:
    """With the new code; also after code that cannot be imported. The old one ends well."""
    shop = project.home / "shop"

    def written(name: str) -> str:
        return str(wait_until(lambda: (shop / name).exists() and (shop / name).read_text()))

    with project.running("mutirao", "worker", "--reload", "--poll", "0.2") as log:
        project.enqueue("a")
        assert written("a") == "one"
        project.tasks.write_text("this is no Python")
        wait_until(lambda: "starts again after a change" in log.read_text())
        # Longer: Python knows compiled code by the size and the whole second of its source.
        project.tasks.write_text(_TASKS.replace('"one"', '"another"'))
        project.enqueue("b")
        assert written("b") == "another"
    said = log.read_text()
    assert "stopped" in said
    assert said.count("wrote b") == 1  # not by Django's own handler as well
