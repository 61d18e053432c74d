"""Tasks with the names and options of Celery, in one application."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, overload

from mutirao.app import Mutirao
from mutirao.errors import ConfigurationError, UnknownTask
from mutirao.integrations.celery.canvas import CelerySignature
from mutirao.integrations.celery.celery_task import CeleryTask
from mutirao.integrations.celery.options import Priorities, call_options, task_options
from mutirao.integrations.celery.refusing import refusal, refuse_options
from mutirao.integrations.celery.results import AsyncResult
from mutirao.integrations.celery.schedules import crontab
from mutirao.tasks.blueprint import Tasks

_PRIORITIES = ("bigger first", "smaller first")
_ENTRY = frozenset({"task", "schedule", "args", "kwargs", "options", "relative"})
_ENTRY_OPTIONS = frozenset({"expires", "queue", "priority", "headers", "time_limit"})


class CeleryTasks:
    """The tasks of modules that were written for Celery, as tasks of an application.

    It needs no package of Celery. `tasks` is their blueprint, which the application includes.

    Parameters:
        app: the application; None: `connect` is called with it later, before anything is enqueued.
        priorities: what a priority of these modules means. "bigger first" is what brokers such as
            RabbitMQ do, "smaller first" what Redis does.
        keep_results: whether what tasks return is kept, unless they say ignore_result: True, or for
            so many seconds.

    Raises:
        ConfigurationError: `priorities` is neither.
    """

    def __init__(
        self,
        app: Mutirao | None = None,
        *,
        priorities: Priorities = "bigger first",
        keep_results: bool | float | timedelta = False,
    ) -> None:
        if priorities not in _PRIORITIES:
            raise ConfigurationError(
                f"priorities is {priorities!r}; give one of {', '.join(map(repr, _PRIORITIES))}"
            )
        self.tasks = Tasks()
        self._app: Mutirao | None = None
        self._priorities, self._keep = priorities, keep_results
        self._by_name: dict[str, CeleryTask] = {}
        if app is not None:
            self.connect(app)

    def connect(self, app: Mutirao) -> None:
        """Make these tasks those of an application.

        Raises:
            ConfigurationError: they are an application's already.
        """
        app.include(self.tasks)
        self._app = app

    @overload
    def task(self, function: Callable[..., Any], /) -> CeleryTask: ...
    @overload
    def task(self, /, **options: Any) -> Callable[[Callable[..., Any]], CeleryTask]: ...
    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Register a function, as `@app.task` and `@shared_task` of Celery do; return its task.

        Parameters:
            options: bind, name, queue, priority, expires, rate_limit, time_limit, ignore_result,
                autoretry_for, dont_autoretry_for, retry_kwargs, retry_backoff, retry_backoff_max,
                retry_jitter, max_retries, default_retry_delay, throws; those about acknowledging
                late are taken, as that is what is done.

        Raises:
            ConfigurationError: an option has no equal; the error names the section of the page.
            InvalidTask: the name is taken, or the function cannot be a task.
        """
        if function is None:
            return lambda given: self._registered(given, options)
        return self._registered(function, options)

    shared_task = task

    def signature(
        self, task: str | CeleryTask, args: Any = None, kwargs: Any = None, **options: Any
    ) -> CelerySignature:
        """Return a call of a task, which may be given by its name.

        Raises:
            UnknownTask: there is none of that name.
        """
        found = self._named(task) if isinstance(task, str) else task
        return found.signature(args, kwargs, **options)

    def send_task(
        self, name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> AsyncResult:
        """Enqueue a call of the task of a name, which is registered here.

        Raises:
            UnknownTask: there is none of that name.
        """
        found: AsyncResult = self._named(name).apply_async(args, kwargs, **options)
        return found

    def AsyncResult(self, id: int | str) -> AsyncResult:  # noqa: N802 (as it is called there)
        """Return the known state of a job by its id."""
        return AsyncResult(id, self.application())

    def add_beat_schedule(
        self, entries: Mapping[str, Mapping[str, Any]], *, timezone: str | None = None
    ) -> None:
        """Declare schedules, as `beat_schedule` has them; their tasks are registered by now.

        Parameters:
            entries: by name: task, schedule (a `crontab`, a `timedelta`, or seconds), args,
                kwargs, and of options expires, queue, priority, headers, time_limit.
            timezone: of the times of day: UTC unless given.

        Raises:
            ConfigurationError: an entry has what we have no equal for.
            UnknownTask: the task of an entry is not registered.
        """
        for name, entry in entries.items():
            self._add_entry(name, entry, timezone)

    def application(self) -> Mutirao:
        """Return the application.

        Raises:
            ConfigurationError: there is none yet.
        """
        if self._app is None:
            raise ConfigurationError(
                "these tasks have no application yet; call connect(app), in the module that makes"
                " it, and import that before anything is enqueued"
            )
        return self._app

    def _registered(self, function: Callable[..., Any], options: Mapping[str, Any]) -> CeleryTask:
        ours, retrying = task_options(options, self._priorities)
        own = f"{function.__module__}.{getattr(function, '__name__', '')}"
        name = options.get("name") or own
        bound = bool(options.get("bind"))
        task = CeleryTask(self.application, function, name, retrying, self._priorities, bound)
        terms: dict[str, Any] = {"keep_result": self._keep, **ours, "name": name}
        task.native = self.tasks.task(**terms)(task.handler())
        self._by_name[name] = task
        return task

    def _named(self, name: str) -> CeleryTask:
        if name not in self._by_name:
            known = ", ".join(sorted(self._by_name)) or "none at all"
            raise UnknownTask(
                f"no task {name!r} is registered here; there are: {known}. Import its module first"
            )
        return self._by_name[name]

    def _add_entry(self, name: str, entry: Mapping[str, Any], timezone: str | None) -> None:
        refuse_options(f"beat_schedule[{name!r}]", entry, {}, _ENTRY)
        said = entry.get("options") or {}
        refuse_options(f"beat_schedule[{name!r}] options", said, {}, _ENTRY_OPTIONS)
        if entry.get("relative"):
            raise refusal("relative=True", "ticks of every= count from the first one", "schedules")
        task = self._named(entry["task"])
        args = task.named(entry.get("args") or (), entry.get("kwargs") or {})
        terms: dict[str, Any] = {"name": name, "args": args}
        call: Any = task.native.using(**call_options(said, self._priorities))
        when = entry["schedule"]
        if isinstance(when, crontab):
            terms |= {} if timezone is None else {"timezone": timezone}
            self.tasks.schedule(when.line, **terms)(call)
        elif isinstance(when, int | float | timedelta):
            self.tasks.schedule(every=when, **terms)(call)
        else:
            raise refusal(
                f"the schedule {when!r}", "give a crontab, a timedelta, or seconds", "schedules"
            )
