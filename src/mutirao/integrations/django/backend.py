"""The backend for `TASKS`: `django.tasks` on the jobs of the project's application.

TASKS = {"default": {"BACKEND": "mutirao.integrations.django.MutiraoBackend"}}
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connections
from django.db.models import Model
from django.utils import timezone

from mutirao.integrations.django.compat import (
    BaseTaskBackend,
    normalize_json,
    task_enqueued,
)
from mutirao.integrations.django.native_tasks import BACKEND, POSITIONAL, NativeTask
from mutirao.integrations.django.project import DjangoMutirao, application
from mutirao.integrations.django.results import TaskResults
from mutirao.integrations.django.system_checks import of_backend
from mutirao.integrations.django.task_result import result_of
from mutirao.integrations.django.task_terms import OF_CALLS, MutiraoTask, check_options, term
from mutirao.model.jobs.job import NewJob

MOST_TEMPLATES = 1_000  # of a task's calls; names of queues may be anything


class MutiraoBackend(BaseTaskBackend):  # type: ignore[misc]
    """Enqueues tasks of `django.tasks` as jobs, in the transaction that is open.

    Of a higher `priority` run first, as Django has it; that of jobs is its negative.

    `OPTIONS`, all of which may be left out:
        database: the alias of the connection that jobs are written through; that of the
            application otherwise.
        retry, timeout, limit, keep_result, … : for all tasks; see `mutirao.TaskTerms`.
        tasks: the same for single tasks, by their paths: `{"shop.tasks.send": {"timeout": 5}}`.
    """

    task_class = MutiraoTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        """Set the parts; Django makes one for each thread, so nothing is opened."""
        super().__init__(alias, params)
        self._validated: Any = None  # the task that was validated last
        check_options(self.options, f"TASKS[{alias!r}]['OPTIONS']")

    def validate_task(self, task: Any) -> None:
        """Check a task as Django does, and register it: workers find it under its path.

        Raises:
            InvalidTask: Django's; the task cannot be one.
            mutirao.errors.InvalidTask, InvalidJob, InvalidLimit: its options cannot be.
        """
        super().validate_task(task)
        self.native(task)

    def native(self, task: Any) -> NativeTask:
        """Return the native task that runs the jobs of one of `django.tasks`."""
        app = application()
        known = app.native_tasks.get(task.module_path)
        if known is None or known.of.func is not task.func:  # its module was loaded again
            known = NativeTask(app, task, self.options)
            app.register_native(known)
        return known

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue a call, in the transaction of Django's connection if it has one.

        Raises:
            InvalidTask: Django's; the task cannot be one.
            TypeError: an argument is no plain JSON, as Django has it.
            InvalidArguments: the arguments do not fit the function.
        """
        self._validate_again(task)
        plain_args, plain_kwargs = _plain(args, kwargs)
        native = self.native(task)
        encoded = native.signature.encode(tuple(plain_args), plain_kwargs)
        template = self._template(task, native, plain_args, plain_kwargs)
        alias = self.options.get("database")
        conn = None if alias is None else connections[alias]
        handle = application().submit(template.with_args(encoded), conn)
        given = plain_args, plain_kwargs
        result = result_of(task, handle.id, self.alias, given, enqueued_at=timezone.now())
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return how a job stands.

        Raises:
            TaskResultDoesNotExist: there is no such job, or it was pruned.
        """
        app: DjangoMutirao = application()
        alias = self.options.get("database") or app.alias
        return TaskResults(alias, app.conf.schema).read(str(result_id), self)

    def check(self, **kwargs: Any) -> list[Any]:
        """Return the errors in its entry of TASKS."""
        return [*super().check(**kwargs), *of_backend(self)]

    def _validate_again(self, task: Any) -> None:
        """Validate a task that was made under other settings, perhaps; not twice in a row."""
        if task is not self._validated:
            self.validate_task(task)
            self._validated = task

    def _template(
        self, task: Any, native: NativeTask, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> NewJob:
        """Return the job without its arguments. Those without a key or a moment are kept."""
        said = {name: term(task, self.options, name) for name in OF_CALLS}
        own = {name: value for name, value in said.items() if value is not None}
        if "key" in own:
            named = dict(zip(native.places, args, strict=False)) | {**kwargs}
            own["key"] = own["key"].format_map(named)
        if own or task.run_after is not None:
            return self._made(task, native, args, own)
        place = (self.alias, task.queue_name, task.priority, len(args))
        known = native.templates.get(place)
        if known is None:
            if len(native.templates) >= MOST_TEMPLATES:
                native.templates.clear()
            known = native.templates[place] = self._made(task, native, args, own)
        return known

    def _made(
        self, task: Any, native: NativeTask, args: Sequence[Any], own: Mapping[str, Any]
    ) -> NewJob:
        metadata: dict[str, Any] = {POSITIONAL: len(args)} if args else {}
        if self.alias != native.of.backend:
            metadata[BACKEND] = self.alias
        call = native.using(
            queue=task.queue_name,
            priority=-int(task.priority),
            run_at=_aware(task.run_after),
            metadata=metadata or None,
            **own,
        )
        return call.template


def _plain(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments as Django's rule makes them plain.

    Raises:
        TypeError: one is no plain JSON.
    """
    try:
        return normalize_json(list(args)), normalize_json(dict(kwargs))
    except TypeError as unfit:
        models = [each for each in (*args, *kwargs.values()) if isinstance(each, Model)]
        if not models:
            raise
        name = type(models[0]).__name__
        raise TypeError(
            f"{unfit}: an argument is a {name}, whose row may be another one when the job runs;"
            f" pass its pk, and have the task get the {name} by it"
        ) from unfit


def _aware(moment: Any) -> Any:
    if moment is None or timezone.is_aware(moment):
        return moment
    return timezone.make_aware(moment)
