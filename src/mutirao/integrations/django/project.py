"""The one application of a Django project, made when it is first needed."""

from functools import cache
from typing import TYPE_CHECKING, Any

from django.db import connections

from mutirao.app import Mutirao
from mutirao.integrations.django import conf
from mutirao.integrations.django.atomic import DjangoConnections
from mutirao.integrations.django.databases import chosen_alias, engine_of
from mutirao.integrations.django.handler_connections import around_coroutines, around_functions
from mutirao.sql.store.hub import AnnouncingStore
from mutirao.tasks.task import Task

if TYPE_CHECKING:
    from mutirao.integrations.django.native_tasks import NativeTask


class DjangoMutirao(Mutirao):
    """The application of a Django project.

    A job that is given no `conn=` goes through Django's connection of the thread, so it belongs to
    the transaction that is open there.

    Parameters:
        settings: what `settings.MUTIRAO` says.

    Raises:
        ImproperlyConfigured: the database is none that jobs can be in.
    """

    def __init__(self, settings: conf.Conf) -> None:
        self.conf = settings
        self.native_tasks: dict[str, NativeTask] = {}  # the tasks of django.tasks, by their paths
        self.alias = chosen_alias(settings.database)
        super().__init__(engine=engine_of(self.alias), **settings.of_application())
        self.use_connections(DjangoConnections(self.alias))
        self.around_handler(around_functions)
        self.around_handler(around_coroutines)

    def register_native(self, task: "NativeTask") -> None:
        """Register a task of `django.tasks`, in place of one whose module was loaded again.

        Raises:
            InvalidTask: a native one has that name.
        """
        if task.name in self.native_tasks:
            del self._tasks[task.name]
        self.register(task)
        self.native_tasks[task.name] = task

    def _own_task(self, task: object) -> Task[..., Any]:
        known = self.native_tasks.get(getattr(task, "module_path", ""))
        return super()._own_task(task) if known is None else known

    def follow_database(self) -> None:
        """Look for jobs where `DATABASES` has them now: a test's file has a name of its own.

        On a server each connection is opened with the name of that moment, so nothing is to do.
        """
        engine = engine_of(self.alias)
        if not self._engines.in_file or engine.url == self._engines.given:
            return
        hub, schema = self.conf.hub, self.conf.schema
        self._portal.call(self.store.close)
        self._keep_in_sql(AnnouncingStore(engine, hub=hub, schema=schema))
        self.use_connections(DjangoConnections(self.alias))
        self.url = engine.url

    @property
    def connection(self) -> Any:
        """Django's connection to the database with the jobs, of this thread."""
        return connections[self.alias]


@cache
def application() -> DjangoMutirao:
    """Return the application of the project; the first call makes it, and opens no connection.

    Raises:
        ImproperlyConfigured: `settings.MUTIRAO` or `DATABASES` do not say where the jobs are.
    """
    return DjangoMutirao(conf.read())
