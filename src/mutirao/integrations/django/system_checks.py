"""System checks: problems, or likely problems, before a job is lost to them.

`manage.py check` runs those that ask nothing; `manage.py check --database default` runs the others,
too. The same does `migrate`, which is about to repair what they report of tables, and gets no
report.
"""

import importlib
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.db import connections, transaction
from django.urls import get_resolver

from mutirao.errors import MutiraoError, SchemaMissing
from mutirao.integrations.django import conf
from mutirao.integrations.django.tables.vendors import is_sqlite
from mutirao.sql import migrations

_BACKEND = "mutirao.integrations.django.MutiraoBackend"
_APP = "mutirao.integrations.django"
_DASHBOARD = f"{_APP}.urls"
_OF_A_TEST = "file:memorydb_"  # begins the name that Django gives a test's database in memory


def register() -> None:
    """Make Django run the checks."""
    checks.register(check_project, "mutirao")
    checks.register(check_database, checks.Tags.database)
    checks.register(check_dashboard, checks.Tags.urls)


def of_backend(backend: Any) -> Iterator[checks.CheckMessage]:
    """Check what an entry of TASKS says; also where the app is not installed."""
    where = f"TASKS[{backend.alias!r}]"
    if not apps.is_installed(_APP):
        yield checks.Error(
            f"{where} names {_BACKEND}, but {_APP} is not in INSTALLED_APPS: its tables are not"
            " made, and workers find no tasks.",
            hint=f"Add {_APP!r} to INSTALLED_APPS, and run manage.py migrate.",
            id="mutirao.E001",
        )
        return
    alias = backend.options.get("database")
    if alias is None:
        return
    jobs = _alias()
    if alias not in settings.DATABASES:
        yield checks.Error(
            f"{where}['OPTIONS']['database'] is {alias!r}; DATABASES has"
            f" {', '.join(settings.DATABASES)}.",
            hint="Correct the alias, or leave it out.",
            id="mutirao.E002",
        )
    elif alias != jobs and not _same_place(alias, jobs):
        yield checks.Warning(
            f"{where}['OPTIONS']['database'] is {alias!r}, and workers of this project look for"
            f" jobs in {jobs!r}: they run none of those.",
            hint=f"Leave it out; or say MUTIRAO = {{'DATABASE': {alias!r}}}.",
            id="mutirao.W003",
        )


def check_project(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """Check the settings and the tasks, without asking a database."""
    return [*_of_transactions(), *_of_sqlite(), *_of_tasks()]


def check_database(
    app_configs: Any, databases: Iterable[str] | None = None, **_: Any
) -> list[checks.CheckMessage]:
    """Check the tables, and whether workers serve the queues of enqueued jobs."""
    alias = _alias()
    if alias not in (databases or ()) or sys.argv[1:2] == ["migrate"]:
        return []
    if found := [*_of_tables(alias)]:
        return found
    return [*_of_workers(), *_of_neighbours()]


def check_dashboard(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """Check that the dashboard is installed if it is in the project's URLs; Django loads them."""
    if not getattr(settings, "ROOT_URLCONF", None):
        return []
    get_resolver().url_patterns  # noqa: B018 (loads them)
    if _DASHBOARD not in sys.modules:
        return []
    try:
        importlib.import_module("mutirao.web.mounting")
    except ModuleNotFoundError as missing:
        return [
            checks.Error(
                f"The project's URLs have {_DASHBOARD}, and {missing.name}, which the dashboard"
                " needs, is not installed.",
                hint="Run pip install 'mutirao[web]'.",
                id="mutirao.E012",
            )
        ]
    return []


def _alias() -> str:
    from mutirao.integrations.django.project import application

    return application().alias


def _same_place(one: str, other: str) -> bool:
    names = ("ENGINE", "NAME", "HOST", "PORT")
    return all(
        connections[one].settings_dict[n] == connections[other].settings_dict[n] for n in names
    )


def _of_transactions() -> Iterator[checks.CheckMessage]:
    jobs = _alias()
    for alias in settings.DATABASES:
        if alias != jobs and connections[alias].settings_dict["ATOMIC_REQUESTS"]:
            yield checks.Warning(
                f"DATABASES[{alias!r}] has ATOMIC_REQUESTS, and jobs are in {jobs!r}: a job that a"
                " request has enqueued stays when the request's transaction is rolled back.",
                hint=f"Have the jobs in {alias!r}, MUTIRAO = {{'DATABASE': {alias!r}}}; or enqueue"
                f" in transaction.on_commit(…, using={alias!r}).",
                id="mutirao.W004",
            )


def _of_sqlite() -> Iterator[checks.CheckMessage]:
    alias = _alias()
    connection = connections[alias]
    if not is_sqlite(connection):
        return
    if str(connection.settings_dict["NAME"]).startswith(_OF_A_TEST):
        return
    if connection.is_in_memory_db():
        yield checks.Warning(
            f"Jobs are in DATABASES[{alias!r}], an SQLite database in memory, which is of this"
            " process alone: no worker sees them.",
            hint="Name a file.",
            id="mutirao.W006",
        )
    elif _begins(connection) not in ("IMMEDIATE", "EXCLUSIVE"):
        yield checks.Warning(
            f"DATABASES[{alias!r}] is SQLite without transaction_mode: a transaction that reads"
            " before it enqueues fails with 'database is locked' when a worker has written"
            " meanwhile, whatever the timeout.",
            hint="Add 'OPTIONS': {'transaction_mode': 'IMMEDIATE', 'timeout': 30}.",
            id="mutirao.W005",
        )


def _begins(connection: Any) -> str:
    return str(connection.settings_dict["OPTIONS"].get("transaction_mode")).upper()


def _of_tasks() -> Iterator[checks.CheckMessage]:
    from mutirao.integrations.django.project import application

    for name, task in application().tasks.items():
        if task.function.__module__ == "__main__":
            yield checks.Error(
                f"Task {name!r} is defined in __main__, the program that was started: a worker has"
                " another one, and does not know the task.",
                hint="Move it to a module of an installed app, such as tasks.py.",
                id="mutirao.E008",
            )


def _of_tables(alias: str) -> Iterator[checks.CheckMessage]:
    try:
        _look_at_tables(alias, conf.read().schema)
    except SchemaMissing as missing:
        yield checks.Warning(
            str(missing),
            hint="Run manage.py migrate; before that nothing can be enqueued.",
            id="mutirao.W007",
        )
    except MutiraoError as unfit:
        yield checks.Warning(
            str(unfit),
            hint="No worker starts, and nothing is enqueued, before this is mended.",
            id="mutirao.W007",
        )


def _look_at_tables(alias: str, schema: str | None) -> None:
    connection = connections[alias]
    with transaction.atomic(alias):
        if schema is not None:
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL search_path TO {connection.ops.quote_name(schema)}")
        migrations.check_within(connection.connection)
        transaction.set_rollback(True, alias)  # of the search_path, wherever we are


def _of_workers() -> Iterator[checks.CheckMessage]:
    from mutirao.integrations.django.models import Worker

    workers = [*Worker.objects.filter(alive=True)]
    if not workers:  # before a deployment, on a machine of development: nothing to compare
        return
    wanted = _queues()
    for queue in sorted(wanted):
        if not any(_serves(each, queue) for each in workers):
            yield checks.Warning(
                f"No worker that is alive serves the queue {queue!r}, in which this project"
                " enqueues jobs.",
                hint=f"Start one: manage.py mutirao worker --queues {queue}; or name it in"
                " --queues of one that runs.",
                id="mutirao.W009",
            )
    for each in workers:
        if each.queues and (strange := sorted({*each.queues} - wanted)):
            yield checks.Warning(
                f"The worker {each.name} serves {', '.join(map(repr, strange))}, and neither a"
                " task nor QUEUES of TASKS has that queue.",
                hint="Correct its --queues, or the name of the queue.",
                id="mutirao.W010",
            )


def _queues() -> set[str]:
    """Return the queues in which the project enqueues, as far as settings and tasks show."""
    from mutirao.integrations.django.project import application

    tasks = {task.options.queue for task in application().tasks.values()}
    named: set[str] = set()
    for each in getattr(settings, "TASKS", {}).values():
        if each.get("BACKEND") == _BACKEND:
            named |= {*each.get("QUEUES", ("default",))}
    return tasks | named


def _serves(worker: Any, queue: str) -> bool:
    return queue in worker.queues if worker.queues else queue not in (worker.exclude_queues or ())


def _of_neighbours() -> Iterator[checks.CheckMessage]:
    """Yield a warning if another program runs its jobs in the same tables."""
    from mutirao.integrations.django.models import Throughput
    from mutirao.integrations.django.project import application

    since = datetime.now(UTC) - timedelta(days=1)
    ran = {*Throughput.objects.filter(hour__gte=since).values_list("task", flat=True)}
    strange = sorted(
        each for each in ran - application().tasks.keys() if not each.startswith("mutirao.")
    )
    if strange:
        yield checks.Warning(
            f"Jobs of tasks that this project does not have ran in its database today, such as"
            f" {strange[0]!r}: another program has its jobs in the same tables. Each one's workers"
            " leave the other's jobs alone, but keys, limits and names of queues are shared.",
            hint="If that is not meant, give each a schema (MUTIRAO = {'SCHEMA': …}, on PostgreSQL)"
            " or a database. If the task was removed today, there is nothing to do.",
            id="mutirao.W011",
        )
