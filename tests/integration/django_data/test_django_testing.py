"""The tests of a Django project: in a transaction, live, in parallel, by pytest-django."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.django_data.djproject import database
from tests.integration.integrations.django_project import AS_APP
from tests.support.postgresql import PostgresServer

_SETTINGS = """
INSTALLED_APPS = [
    "django.contrib.contenttypes", "django.contrib.auth", "mutirao.integrations.django", "shop",
    *AS_APP,
]
TASKS = {"default": {"BACKEND": "mutirao.integrations.django.MutiraoBackend"}}
DATABASES = {"default": DATABASE}
TEST_RUNNER = "django.test.runner.DiscoverRunner"
SECRET_KEY, USE_TZ, ROOT_URLCONF = "of a test", True, "shop.urls"
ALLOWED_HOSTS, STATIC_URL = ["*"], "/static/"
"""
_TASKS = """
from django.contrib.auth.models import Group
from django.db import transaction

from mutirao import Job, Retry
from mutirao.integrations.celery import CeleryTasks
from mutirao.integrations.django import app

try:
    from django.tasks import task
except ModuleNotFoundError:
    from django_tasks import task


@app.task(retry=Retry.never())
def make(name):
    if not name:
        raise ValueError("no name")
    Group.objects.create(name=name)


@app.task
async def amake(name):
    await Group.objects.acreate(name=name)


@app.task
def make_with(job: Job, name):
    with job.transaction(using="default"):
        Group.objects.create(name=name)


celery = CeleryTasks(app)


@celery.shared_task
def make_as_before(name):
    Group.objects.create(name=name)


@task
async def amake_again(name, times=1):
    made = await Group.objects.filter(name__startswith=name).acount()
    await Group.objects.acreate(name=f"{name}{made}")
    if made < times:
        raise ValueError("not yet")
    return made
"""
_URLS = """
from django.db import transaction
from django.http import HttpResponse
from django.urls import path

from shop.tasks import make, make_with


def order(request):
    make.enqueue(request.GET["name"])
    return HttpResponse("ordered")


def order_within(request):
    with transaction.atomic():
        make_with.enqueue(request.GET["name"])
        transaction.set_rollback("refused" in request.GET)
    return HttpResponse("ordered")


urlpatterns = [path("order", order), path("within", order_within)]
"""
_TESTS = """
import time
import urllib.request
from contextlib import suppress

from django.contrib.auth.models import Group
from django.db import transaction
from django.test import LiveServerTestCase, TestCase, TransactionTestCase

from mutirao.integrations.django import app
from mutirao.integrations.django.models import Job
from mutirao.testing.django import capture, drain, inline
from shop.tasks import amake, amake_again, make, make_as_before, make_with


def groups():
    return sorted(Group.objects.values_list("name", flat=True))


class InATestCase(TestCase):
    def test_drain(self):
        self.client.get("/order?name=a")
        amake.enqueue("b")
        make_with.enqueue("c")
        make.enqueue("")
        assert drain() == {"succeeded": 3, "dead": 1}
        assert groups() == ["a", "b", "c"]
        assert Job.objects.filter(state="succeeded").count() == 3

    def test_inline(self):
        with inline() as jobs:
            self.client.get("/order?name=a")
            amake.enqueue("b")
            make_with.enqueue("c")
            with self.assertRaisesMessage(ValueError, "no name"):
                make.enqueue("")
        assert groups() == ["a", "b", "c"]
        assert [job.state for job in jobs] == ["succeeded"] * 3 + ["dead"]
        assert not Job.objects.exists()

    def test_inline_within_atomic(self):
        with inline() as jobs:
            self.client.get("/within?name=a")
            self.client.get("/within?name=b&refused=1")
        assert groups() == ["a"]
        assert [job.state for job in jobs] == ["succeeded"] * 2

    def test_capture(self):
        with capture() as jobs:
            make.enqueue("a")
            amake_again.enqueue("b")
            make_as_before.delay("c")
        jobs.assert_enqueued(make_as_before, name="c")
        jobs.assert_enqueued(make, name="a")
        jobs.assert_enqueued(amake_again, name="b", times=1)
        jobs.assert_not_enqueued(amake_again, name="a")
        with self.assertRaisesMessage(TypeError, "'shop.tasks.make'"):
            jobs.of("shop.tasks.make")
        assert drain() == {}

    def test_tasks_in_words_of_celery(self):
        with transaction.atomic():
            make_as_before.delay("a")
        with suppress(ValueError), transaction.atomic():
            make_as_before.delay("b")
            raise ValueError
        assert drain() == {"succeeded": 1}
        assert groups() == ["a"]

    def test_a_coroutine_that_is_retried(self):
        result = amake_again.enqueue("a", times=2)
        assert drain() == {"retried": 1}
        assert drain(with_scheduled=True) == {"retried": 1, "succeeded": 1}
        result.refresh()
        assert (result.status, result.return_value, len(result.errors)) == ("SUCCESSFUL", 2, 2)
        assert groups() == ["a0", "a1", "a2"]

    def test_nothing_is_left_of_others(self):
        assert (groups(), Job.objects.count()) == ([], 0)


class Committed(TransactionTestCase):
    def test_one(self):
        make.enqueue("a")
        assert drain() == {"succeeded": 1}
        assert groups() == ["a"]

    def test_two(self):
        assert (groups(), Job.objects.count()) == ([], 0)
        self.test_one()


class Live(LiveServerTestCase):
    def test_a_worker_beside_the_server(self):
        with app.worker(poll=0.1):
            urllib.request.urlopen(self.live_server_url + "/order?name=live").read()
            deadline = time.monotonic() + 60
            while groups() != ["live"]:
                assert time.monotonic() < deadline, [*Job.objects.values()]
        app.close()
"""
_IN_MEMORY = """
from django.test import TestCase

from mutirao.errors import ConfigurationError
from mutirao.integrations.django import app
from mutirao.integrations.django.models import Job
from mutirao.testing.django import drain
from shop.tasks import make


class InMemory(TestCase):
    def test_it(self):
        handle = make.enqueue("a")
        assert drain() == {"succeeded": 1}
        assert Job.objects.get(id=handle.id).state == "succeeded"
        with self.assertRaisesMessage(ConfigurationError, "'TEST': {'NAME': 'test.db'}"):
            app.job(handle.id)
"""
_PYTEST = """
import pytest
from django.contrib.auth.models import Group

from mutirao.integrations.django import app
from mutirao.testing.django import drain
from shop.tasks import make

pytest_plugins = ["mutirao.testing.fixtures"]


@pytest.fixture
def mutirao_app():
    return app


@pytest.mark.django_db
def test_drained():
    make.enqueue("a")
    assert drain() == {"succeeded": 1}
    assert Group.objects.count() == 1


@pytest.mark.django_db
def test_inline(inline_jobs):
    make.enqueue("a")
    assert Group.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_committed():
    make.enqueue("a")
    assert drain() == {"succeeded": 1}
"""


def project(home: Path, said: object) -> Path:
    """Write the project."""
    shop = home / "shop"
    shop.mkdir()
    (shop / "__init__.py").touch()
    (shop / "urls.py").write_text(_URLS)
    (shop / "tasks.py").write_text(_TASKS)
    (home / "settings.py").write_text(f"DATABASE, AS_APP = {said!r}, {AS_APP}\n{_SETTINGS}")
    return home


def run(home: Path, *command: str) -> str:
    """Run a module of Python there; return what it says."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", *command], cwd=home, text=True, timeout=200,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_project_s_own_tests(tmp_path: Path, postgres: PostgresServer) -> None:
    """In two processes with databases of their own, cloned from the one that was migrated."""
    name = postgres.create_database()
    home = project(tmp_path, database(postgres.url(name)))
    (home / "shop" / "tests.py").write_text(_TESTS)
    said = run(home, "django", "test", "--parallel", "2", "--noinput")
    assert "Ran 10 tests" in said
    postgres.drop_database(name)


def test_in_memory(tmp_path: Path) -> None:
    """As Django makes the database of a test on SQLite: what needs another connection says so."""
    said = _file(tmp_path)
    del said["TEST"]
    home = project(tmp_path, said)
    (home / "shop" / "tests.py").write_text(_IN_MEMORY)
    assert "Ran 1 test" in run(home, "django", "test", "--noinput")


@pytest.mark.repeats(decided="tests/integration/django_data/test_django_testing.py")
def test_by_pytest_django(tmp_path: Path) -> None:
    """`django_db` with the fixtures of the package."""
    home = project(tmp_path, _file(tmp_path))
    (home / "test_shop.py").write_text(_PYTEST)
    (home / "pytest.ini").write_text("[pytest]\n")
    assert "3 passed" in run(home, "pytest", "-q", "-p", "no:asyncio", "-p", "no:cacheprovider")


@pytest.mark.parametrize("kind", ["sqlite", "mysql"])
@pytest.mark.repeats("sqlite", "mysql", decided="tests/integration/django_data")
def test_its_tests_elsewhere(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    """The same on other databases, in one process."""
    url = request.getfixturevalue("mysql_url") if kind == "mysql" else None
    home = project(tmp_path, database(url) if url else _file(tmp_path))
    (home / "shop" / "tests.py").write_text(_TESTS)
    assert "Ran 10 tests" in run(home, "django", "test", "--noinput")


def _file(home: Path) -> dict[str, object]:
    """Return an SQLite database whose tests have a file, too: others connect to it."""
    return {**database(f"sqlite:///{home / 'shop.db'}"), "TEST": {"NAME": str(home / "test.db")}}
