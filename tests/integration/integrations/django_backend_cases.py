"""A Django project's own tests, run as a program: `django.tasks` and native tasks on our backend.

Not collected by pytest, since Django is set up once for a process. `test_django_backend.py` runs it
with the URL of a migrated database.
"""

from __future__ import annotations

import re
import sys
import unittest
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast
from unittest import mock
from uuid import UUID

import pytest

from tests.integration.integrations.django_project import BACKEND, set_up

if __name__ != "__main__":
    raise ImportError("run this as a program")

PATH = "tests.integration.integrations.django_tasks_of_cases"
from mutirao import Limit, Retry  # noqa: E402

set_up(
    sys.argv[1],
    MUTIRAO={"MODULES": ["django_tasks_of_cases"], "RETRY": Retry.fixed(2, interval=0)},
    TASKS={
        "default": {
            "BACKEND": BACKEND,
            "QUEUES": ["default", "mail"],
            "OPTIONS": {
                "timeout": 30,
                "tasks": {
                    f"{PATH}.limited": {"limit": Limit(1, by="customer"), "key": "of-{customer}"},
                    f"{PATH}.elsewhere": {"process": True},
                },
            },
        },
        "more": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": {"database": "other"}},
    },
)

from asgiref.sync import async_to_sync  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402
from django.db import connection, connections, models, transaction  # noqa: E402
from django.db.transaction import TransactionManagementError  # noqa: E402
from django.test import TestCase, TransactionTestCase, override_settings  # noqa: E402
from django.test.utils import CaptureQueriesContext, setup_test_environment  # noqa: E402
from django.utils import timezone, translation  # noqa: E402
from django.utils.translation import gettext_lazy  # noqa: E402

from mutirao.errors import ConfigurationError, InvalidArguments  # noqa: E402
from mutirao.integrations.django import app, backend, conf  # noqa: E402
from mutirao.integrations.django.compat import (  # noqa: E402
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from mutirao.integrations.django.databases import chosen_alias, engine_of  # noqa: E402
from mutirao.integrations.django.handler_connections import around_functions  # noqa: E402
from mutirao.integrations.django.project import DjangoMutirao  # noqa: E402
from mutirao.testing import drain  # noqa: E402
from tests.integration.integrations import django_tasks_of_cases as tasks  # noqa: E402


class Order(models.Model):  # type: ignore[misc]
    """An order."""

    class Meta:
        app_label, managed = "shop", False


READY, DONE, FAILED = (TaskResultStatus[n] for n in ("READY", "SUCCESSFUL", "FAILED"))


def states() -> list[str]:
    """Return the states of all jobs that others see, oldest first."""
    return [str(job.state) for job in app.jobs(limit=None)][::-1]


@contextmanager
def signals() -> Iterator[list[Any]]:
    """Note the signals that are sent."""
    found: list[Any] = []

    def noting(name: str) -> Any:
        def note(sender: Any, task_result: Any, **_: Any) -> None:
            error = sys.exc_info()[0] if name == "finished" else None
            found.append((name, sender.__name__, str(task_result.status), error))

        return note

    named = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
    notes = {name: noting(name) for name in named}
    for name, signal in named.items():
        signal.connect(notes[name], weak=False)
    try:
        yield found
    finally:
        for name, signal in named.items():
            signal.disconnect(notes[name])


class Clean(TransactionTestCase):  # type: ignore[misc]
    """Begins without jobs."""

    databases = {"default", "other"}  # noqa: RUF012

    def setUp(self) -> None:
        """Cancel and forget what others have left."""
        app.cancel(queue="default")
        drain(app)
        with connection.cursor() as cursor:
            for table in ("result", "attempt", "live", "job"):
                cursor.execute(f"DELETE FROM mutirao_{table}")  # noqa: S608 (our own names)
        tasks.ran.clear()


class Enqueueing(Clean):
    """Jobs belong to what is open on Django's connection."""

    def test_one_statement(self) -> None:
        """Of PostgreSQL: nothing is looked up or begun before it."""
        tasks.echo.enqueue(0)
        with CaptureQueriesContext(connection) as queries:
            tasks.echo.enqueue(1, second=3)
        if connection.vendor == "postgresql":
            assert len(queries) == 1
            assert "mutirao_enqueue" in queries[0]["sql"]
        assert any("mutirao_" in each["sql"] for each in queries)

    def test_atomic(self) -> None:
        """Both kinds: there when it commits, and not if it rolls back."""
        with suppress(ZeroDivisionError), transaction.atomic():
            tasks.echo.enqueue(1)
            tasks.native.enqueue(1)
            app.enqueue_many(tasks.native.job(n) for n in range(300))
            raise ZeroDivisionError
        assert states() == []
        with transaction.atomic():
            tasks.echo.enqueue(1)
            tasks.native.enqueue(1)
            with suppress(ZeroDivisionError), transaction.atomic():
                tasks.native.enqueue(2)
                raise ZeroDivisionError
        assert states() == ["ready", "ready"]

    def test_a_failed_block(self) -> None:
        """Refuses jobs as it does queries."""
        with transaction.atomic():
            transaction.set_rollback(True)
            with pytest.raises(TransactionManagementError):
                tasks.echo.enqueue(1)

    def test_from_a_coroutine(self) -> None:
        """In the thread of synchronous calls, and so in its transaction."""

        async def enqueue() -> None:
            await tasks.echo.aenqueue(1)
            await tasks.native.aenqueue(1)
            await app.aenqueue_many([tasks.native.job(2)])

        with suppress(ZeroDivisionError), transaction.atomic():
            async_to_sync(enqueue)()
            raise ZeroDivisionError
        assert states() == []
        async_to_sync(enqueue)()
        assert states() == ["ready"] * 3

    def test_another_alias(self) -> None:
        """By OPTIONS: it is in that one's transaction."""
        with suppress(ZeroDivisionError), transaction.atomic(using="other"):
            tasks.echo.using(backend="more", queue_name="whatever").enqueue(1)
            raise ZeroDivisionError
        assert states() == []
        result = tasks.echo.using(backend="more", queue_name="whatever").enqueue(1)
        assert task_backends["more"].get_result(result.id).backend == "more"

    def test_queues_without_end(self) -> None:
        """What is kept of calls, by queue and priority, has a bound."""
        more: Any = task_backends["more"]
        native = more.native(tasks.echo)
        for n in range(backend.MOST_TEMPLATES + 1):
            more._template(tasks.echo.using(backend="more", queue_name=f"q-{n}"), native, [], {})
        assert len(native.templates) <= backend.MOST_TEMPLATES

    def test_validation(self) -> None:
        """As Django's, also of what was made under other settings."""
        with pytest.raises(InvalidTask, match="Queue 'nowhere' is not valid"):
            tasks.echo.using(queue_name="nowhere")
        with pytest.raises(InvalidTask, match="priority must be a whole number"):
            tasks.echo.using(priority=101)
        with pytest.raises(InvalidTask, match="must be an aware datetime"):
            tasks.echo.using(run_after=datetime(2030, 1, 1))  # noqa: DTZ001
        mail = tasks.echo.using(queue_name="mail")
        with (
            override_settings(TASKS={"default": {"BACKEND": BACKEND}}),
            pytest.raises(InvalidTask, match="Queue 'mail' is not valid"),
        ):
            mail.enqueue(1)
        with pytest.raises(InvalidArguments, match="missing a required argument: 'first'"):
            tasks.echo.enqueue()

    def test_options_nobody_knows(self) -> None:
        """They are told, with those that there are."""
        wrong = {"default": {"BACKEND": BACKEND, "OPTIONS": {"retires": 3}}}
        with (
            override_settings(TASKS=wrong),
            pytest.raises(ImproperlyConfigured, match="has retires; expected some of"),
        ):
            tasks.echo.enqueue(1)

    def test_arguments(self) -> None:
        """By Django's rule: JSON, nothing else; a model is told about its pk."""
        result = tasks.echo.enqueue(b"text", (1, 2))
        assert result.args == ["text", [1, 2]]
        for unfit in (datetime.now(UTC), Decimal(1), UUID(int=1)):
            with pytest.raises(TypeError, match="Unsupported type"):
                tasks.echo.enqueue(unfit)
        with pytest.raises(TypeError, match="pass its pk"):
            tasks.echo.enqueue(Order(pk=1))

    def test_arguments_of_native_tasks(self) -> None:
        """More has a form: lazy texts in the active language; rows and queries have none."""
        lazy, moment = gettext_lazy("January"), timezone.now()
        with translation.override("de"):
            id = tasks.anything.enqueue([lazy, Decimal("1.50"), UUID(int=1), moment]).id
        found = app.job(id).args["value"]
        assert found[:3] == ["Januar", "1.50", str(UUID(int=1))]
        assert datetime.fromisoformat(found[3]) == moment
        with override_settings(USE_TZ=False):
            naive = timezone.now()
            id = tasks.anything.enqueue(naive).id
        assert app.job(id).args["value"] == naive.isoformat()
        with pytest.raises(InvalidArguments, match=r"Order is a model of Django.*pass its pk"):
            tasks.anything.enqueue([Order(pk=1)])
        with pytest.raises(InvalidArguments, match=r"query of Django.*values_list\('pk'"):
            tasks.anything.enqueue(Order.objects.all())

    def test_a_key_of_arguments(self) -> None:
        """And a limit by one of them, from OPTIONS."""
        result = tasks.limited.enqueue(customer=7)
        assert app.job(int(result.id)).key == "of-7"
        assert [limit.by for limit in app.tasks[f"{PATH}.limited"].options.limits] == ["customer"]


class Running(Clean):
    """What a worker does with them."""

    def test_both_kinds(self) -> None:
        """Results are those of the functions."""
        given = [
            tasks.echo.enqueue(1),
            tasks.echo.enqueue(1, 2, 3, 4, more=5),
            tasks.anecho.enqueue(7),
            tasks.attempts.enqueue(until=1),
        ]
        tasks.native.enqueue(5)
        assert drain(app) == {"succeeded": 5}
        for each in given:
            assert each.status == READY
            each.refresh()
            assert (each.status, each.attempts, each.is_finished) == (DONE, 1, True)
            assert each.enqueued_at <= each.started_at <= each.finished_at
            assert each.last_attempted_at == each.started_at
        assert [each.return_value for each in given] == [
            [1, 2, [], {}],
            [1, 2, [3, 4], {"more": 5}],
            7,
            [given[3].id, 1, 0],
        ]
        found = tasks.echo.get_result(given[1].id)
        assert (found.args, found.kwargs, found.task) == ([1, 2, 3, 4], {"more": 5}, tasks.echo)

    def test_queries_of_a_result(self) -> None:
        """Two, however many attempts there were."""
        result = tasks.attempts.enqueue(2)
        assert drain(app) == {"retried": 1, "succeeded": 1}
        with self.assertNumQueries(2):
            result.refresh()

    def test_attempts(self) -> None:
        """Each failed one is an error; the context counts on, and knows of them."""
        result = tasks.attempts.enqueue(2)
        drain(app)
        result.refresh()
        assert (result.attempts, len(result.worker_ids)) == (2, 2)
        assert result.return_value == [result.id, 2, 1]
        [error] = result.errors
        assert error.exception_class is LookupError
        assert error.traceback.startswith("Traceback")
        assert error.traceback.endswith("LookupError: attempt 1\n")
        assert tasks.ran == [(1, [2]), (2, [2])]
        assert result.started_at < result.last_attempted_at

    def test_ready_between_attempts(self) -> None:
        """As Django has it."""
        later = tasks.echo.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
        assert drain(app) == {}
        later.refresh()
        assert (later.status, later.attempts, later.started_at) == (READY, 0, None)
        found = task_backends["default"].get_result(later.id)
        assert abs(found.task.run_after - later.task.run_after) < timedelta(seconds=1)
        with pytest.raises(ValueError, match="not finished"):
            _ = later.return_value

    def test_failures(self) -> None:
        """Of any kind: nothing ends the worker."""
        given = {how: tasks.refuse.enqueue(how) for how in ("value", "exit", "group")}
        drain(app)
        classes = {}
        for how, result in given.items():
            result.refresh()
            assert (result.status, len(result.errors)) == (FAILED, 2)
            with pytest.raises(ValueError, match="Task failed"):
                _ = result.return_value
            classes[how] = result.errors[0].exception_class
        assert classes == {"value": ValueError, "exit": SystemExit, "group": ExceptionGroup}
        assert 'ValueError(ValueError("this task failed"))' in given["value"].errors[0].traceback

    def test_an_unwritable_result(self) -> None:
        """The attempt has failed."""
        result = tasks.unwritable.enqueue()
        drain(app)
        result.refresh()
        assert (result.status, result.errors[0].exception_class) == (FAILED, TypeError)

    def test_priority(self) -> None:
        """Bigger first, of both kinds; a due one of the past before one without a moment."""
        for priority in (0, 5, -5, 100):
            tasks.note.using(priority=priority).enqueue(str(priority))
        past = timezone.now() - timedelta(hours=1)
        tasks.note.using(priority=5, run_after=past).enqueue("past")
        tasks.native.using(priority=-50).enqueue(50)
        drain(app)
        assert tasks.ran == ["100", ("native", 50), "past", "5", "0", "-5"]

    def test_signals(self) -> None:
        """Once for a job, but for each start; the last one within the exception."""
        with signals() as found:
            tasks.attempts.enqueue(3)
            drain(app)
            tasks.anecho.enqueue(1)
            drain(app)
        started = ("started", "MutiraoBackend", "RUNNING", None)
        enqueued = ("enqueued", "MutiraoBackend", "READY", None)
        failed = ("finished", "MutiraoBackend", "FAILED", LookupError)
        done = ("finished", "MutiraoBackend", "SUCCESSFUL", None)
        assert found == [enqueued, started, started, failed, enqueued, started, done]

    def test_ids(self) -> None:
        """Unknown and malformed ones are not there; another task's is a mismatch."""
        huge = (str(10**30), "9" * 5_000)
        for id in ("123456789", "no number", "-1", "²", str(UUID(int=3)), *huge, ""):
            with pytest.raises(TaskResultDoesNotExist):
                tasks.echo.get_result(id)
        with pytest.raises(TaskResultMismatch):
            tasks.note.get_result(tasks.echo.enqueue(1).id)

    def test_naive_moments(self) -> None:
        """Without USE_TZ they are naive, in the local zone, both ways."""
        with override_settings(USE_TZ=False):
            at = datetime.now() + timedelta(hours=1)  # noqa: DTZ005
            result = tasks.echo.using(run_after=at).enqueue(1)
            result.refresh()
            assert result.enqueued_at.tzinfo is None
            assert abs(task_backends["default"].get_result(result.id).task.run_after - at) < (
                timedelta(seconds=1)
            )

    def test_connections_of_coroutines(self) -> None:
        """Each attempt has its own, which is closed after it."""
        tasks.awaited.enqueue(1)
        tasks.awaited.enqueue(2)
        assert drain(app, concurrency=2) == {"succeeded": 2}
        first, second = tasks.ran
        assert first is not second

    def test_a_child_process(self) -> None:
        """It has Django set up before it imports the task."""
        handle = tasks.apart.enqueue(7)
        result = tasks.elsewhere.enqueue(8)
        assert drain(app, with_scheduled=True) == {"succeeded": 2, "retried": 1}
        assert handle.result(timeout=5) == [7, 2]
        result.refresh()
        assert result.return_value == [True, 8, 2, 1]

    def test_a_kept_result_in_a_transaction(self) -> None:
        """It is in the commit of Django's block."""
        handle = tasks.kept.enqueue("in the block")
        assert drain(app) == {"succeeded": 1}
        assert handle.result(timeout=5) == "in the block"


class Router:
    """Writes jobs to another alias."""

    def db_for_write(self, model: Any, **_: Any) -> str | None:
        """Return it for models of the app."""
        return "other" if model._meta.app_label == "mutirao" else None


class Hub:
    """In place of a hub that listens."""

    listens = True

    def __init__(self) -> None:
        self.told: list[int] = []

    def announce(self, wake: Any, jobs: int = 1, task: str | None = None) -> None:
        """Note how many jobs are due."""
        self.told.append(jobs)


class Settings(Clean):
    """What the project says of the application, and what it opens connections with."""

    def test_wrong_ones(self) -> None:
        """Each is told, with what is expected."""
        for wrong, told in (
            ({"RETIRES": 3}, "has RETIRES; expected a dictionary with some of DATABASE, HUB"),
            (3, "has 3; expected a dictionary"),
            ({"DATABASE": "nowhere"}, "'nowhere'; expected an alias of DATABASES: default, other"),
            ({"MODULES": "tasks"}, "is 'tasks'; expected names of modules"),
        ):
            with (
                override_settings(MUTIRAO=wrong),
                pytest.raises(ImproperlyConfigured, match=re.escape(told)),
            ):
                conf.read()

    def test_routers(self) -> None:
        """They say which database it is, unless the settings do."""
        with override_settings(DATABASE_ROUTERS=[Router()]):
            assert (chosen_alias(None), chosen_alias("default")) == ("other", "default")
        assert chosen_alias(None) == "default"

    def test_what_changes(self) -> None:
        """Each connection is opened with what holds then."""
        engine, now = engine_of("other"), connections.settings["other"]
        assert engine.url.password is None
        engine.raw_connection().close()
        engine.dispose()
        before = {**now}
        now["NAME"] = "/nowhere/at_all"
        try:
            with pytest.raises(Exception, match=r"nowhere|unable to open"):
                engine.raw_connection()
        finally:
            now.update(before)

    def test_a_role_and_a_schema(self) -> None:
        """Of PostgreSQL: connections of workers take the role; jobs are where the settings say."""
        if connection.vendor != "postgresql":
            with pytest.raises(ConfigurationError, match="schema"):
                DjangoMutirao(conf.Conf(schema="apart"))
            return
        with connection.cursor() as cursor:
            cursor.execute("CREATE ROLE clerk")
        now = connections.settings["other"]["OPTIONS"]
        now["assume_role"] = "clerk"
        try:
            with engine_of("other").connect() as opened:
                assert opened.exec_driver_sql("SELECT current_user").scalar() == "clerk"
        finally:
            del now["assume_role"]
            with connection.cursor() as cursor:
                cursor.execute("DROP ROLE clerk")
        second = DjangoMutirao(conf.Conf(schema="apart"))
        second.migrate()
        with mock.patch(f"{backend.__name__}.application", return_value=second):
            result = tasks.echo.enqueue(1)
            assert states() == []
            assert drain(second) == {"succeeded": 1}
            result.refresh()
        assert result.return_value == [1, 2, [], {}]
        second.close()

    def test_a_hub(self) -> None:
        """It is told when the block commits, at once without one, and never of a rollback."""
        hub = Hub()
        with mock.patch.object(app.store, "hub", hub):
            with transaction.atomic():
                tasks.native.enqueue(1)
                app.enqueue_many(tasks.native.job(n) for n in range(3))
                assert hub.told == []
            assert hub.told == [1, 3]
            with suppress(ZeroDivisionError), transaction.atomic():
                tasks.native.enqueue(1)
                raise ZeroDivisionError
            tasks.native.enqueue(2)
        assert hub.told == [1, 3, 1]

    def test_around_handlers(self) -> None:
        """What is too old is closed before and after; what is in a transaction is left."""
        connection.ensure_connection()
        connection.close_at = 0
        around = around_functions(cast(Any, None))
        next(around)
        found = [connection.connection is None]
        with transaction.atomic():
            connection.close_at = 0
            next(around, None)
            found.append(connection.connection is None)
        connection.queries_log.append({"sql": "SELECT 1"})
        list(around_functions(cast(Any, None)))
        found.append(connection.connection is None)
        assert found == [True, False, True]
        assert not connection.queries_log

    def test_transactions_that_cannot_complete_a_job(self) -> None:
        """One in another, one marked for rollback, one that there is not, one elsewhere."""
        given = {how: tasks.unfit.enqueue(how) for how in ("nested", "marked", "nowhere", "other")}
        other = connections.settings["other"]
        name, other["NAME"] = other["NAME"], "elsewhere"
        try:
            assert drain(app) == {"retried": 4, "dead": 4}
        finally:
            other["NAME"] = name
        errors = {how: app.job(each.id).error or "" for how, each in given.items()}
        assert "inside of another transaction.atomic()" in errors["nested"]
        assert "set_rollback(True) was called" in errors["marked"]
        assert "there are default, other in DATABASES" in errors["nowhere"]
        assert "names a connection to another database" in errors["other"]


class InATest(TestCase):  # type: ignore[misc]
    """Whose transaction is never committed."""

    databases = {"default"}  # noqa: RUF012

    def test_they_are_seen_and_run_here(self) -> None:
        """On the test's own connection, without capturing on_commit."""
        result = tasks.echo.enqueue(1)
        assert tasks.echo.get_result(result.id).status == READY
        kept = tasks.kept.enqueue("here")
        with CaptureQueriesContext(connection) as queries:
            connection.cursor().execute("SELECT 1")
            assert drain(app, conn=connection) == {"succeeded": 2}
        assert "SELECT 1" in [each["sql"] for each in queries]
        result.refresh()
        assert result.return_value == [1, 2, [], {}]
        assert kept.id not in [job.id for job in app.jobs(limit=None)]

    def test_the_guard_of_databases(self) -> None:
        """Is asked."""
        with pytest.raises(AssertionError, match="'other' are not allowed"):
            tasks.echo.using(backend="more").enqueue(1)


setup_test_environment()
loader = unittest.defaultTestLoader
suite = unittest.TestSuite(
    loader.loadTestsFromTestCase(each) for each in (Enqueueing, Running, Settings, InATest)
)
result = unittest.TextTestRunner(verbosity=2).run(suite)
app.close()
connections.close_all()
sys.exit(0 if result.wasSuccessful() else 1)
