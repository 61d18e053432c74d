"""Blueprints: tasks that are declared before there is an application, which includes them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Unpack

from mutirao.errors import ConfigurationError
from mutirao.model.jobs.job import MAX_PAYLOAD, NewJob
from mutirao.model.limits.limits import Limit
from mutirao.model.schedules.schedule import Terms
from mutirao.tasks.around.hooks import Hooks
from mutirao.tasks.defaults import Defaults
from mutirao.tasks.handle import NOT_GIVEN, Handle
from mutirao.tasks.options import several_limits
from mutirao.tasks.registration import TopicRegistry
from mutirao.tasks.schedule_declarations import Declarations, Declaring
from mutirao.tasks.task import Task, TaskApp
from mutirao.tasks.topics.topics import TopicApp


class Tasks(TopicRegistry):
    """A blueprint: tasks, schedules and limits that one application includes later.

    A module declares its tasks with `tasks = Tasks()` and `@tasks.task(…)`, and need not import the
    application. `app.include(tasks)` makes them tasks of the application: with its database, its
    application. `app.include(tasks)` makes them tasks of the application: with its database, its
    """

    def __init__(self) -> None:
        self.defaults = Defaults()
        self._surroundings = Hooks()
        self._max_payload = MAX_PAYLOAD
        self._tasks: dict[str, Task[..., Any]] = {}
        self.undecided: dict[str, Task[..., Any]] = {}
        self._schedules = Declarations(self.task)
        self._limits: list[tuple[Limit, str]] = []
        self._declare_limit: Callable[..., None] = self._note_limit
        self._app: TopicApp | None = None

    def schedule(
        self,
        cron: str | None = None,
        /,
        *,
        name: str | None = None,
        args: Mapping[str, Any] | None = None,
        **terms: Unpack[Terms],
    ) -> Declaring:
        """Schedule a task of this blueprint: `@tasks.schedule("30 3 * * *")`, above `@tasks.task`.

        Alone it registers the function as a task, too. A worker of the application that includes
        the blueprint writes the schedule to the database when it starts.

        Parameters:
            cron: five fields (or six, seconds first), in local time; or `every` instead.
            name: the schedule's name; the task's name unless given.
            args: the arguments of each call, by name.
            terms: the fields of `Terms`: every, timezone, catch_up, overlap, jitter, until, …

        Raises:
            InvalidSchedule: it has no timing, contradicts itself, or the name is taken.
        """
        return self._schedules.declare(cron, name=name, args=args, **terms)

    def limit(self, limit: Limit, *, queue: str) -> None:
        """Declare a limit of a queue; a task declares its own: `@tasks.task(limit=Limit(10))`.

        Parameters:
            limit: the limit; its name must not be taken in the application.
            queue: the queue's name.

        Raises:
            InvalidLimit: it is not a `Limit`, or the application that has included this has one
                of that name.
        """
        several_limits((limit,))
        self._declare_limit(limit, queue=queue)

    def register(self, task: Task[..., Any]) -> None:
        """Register a task here, and in the application if one has included the blueprint.

        Raises:
            InvalidTask: its name is taken.
            InvalidJob, InvalidLimit: an option is out of range, or a limit's name is taken.
            ConfigurationError: a child process could not know the application's retry policy.
        """
        if self._app is None:
            super().register(task)
        else:
            _hand_over(task, self._app)
            self._tasks[task.name] = task

    def submit(self, job: NewJob, conn: object | None = None) -> Handle[Any]:
        """Check a job and write it, as a job of the application that includes the blueprint.

        Raises:
            ConfigurationError: no application has included it.
            InvalidJob: an option does not fit; nothing was written.
            DuplicateJob: another job has its key, and its `on_conflict` is "error".
        """
        return self._included(job).submit(job, conn)

    async def asubmit(self, job: NewJob, conn: object | None = None) -> Handle[Any]:
        """Check a job and write it from a coroutine, in the application that includes this.

        Raises:
            ConfigurationError: no application has included it.
            InvalidJob: an option does not fit; nothing was written.
            DuplicateJob: another job has its key, and its `on_conflict` is "error".
        """
        return await self._included(job).asubmit(job, conn)

    def enqueue_many(self, jobs: Iterable[NewJob], conn: object = NOT_GIVEN) -> list[int]:
        """Write many jobs, as jobs of the application that includes the blueprint.

        Raises:
            ConfigurationError: no application has included it.
            InvalidJob: a job does not fit; none was written.
        """
        return self._included().enqueue_many(jobs, conn)

    async def aenqueue_many(self, jobs: Iterable[NewJob], conn: object = NOT_GIVEN) -> list[int]:
        """Write many jobs from a coroutine, in the application that includes this.

        Raises:
            ConfigurationError: no application has included it.
            InvalidJob: a job does not fit; none was written.
        """
        return await self._included().aenqueue_many(jobs, conn)

    def enter(
        self, app: TopicApp, schedules: Declarations, declare_limit: Callable[..., None]
    ) -> None:
        """Hand everything over to an application; `app.include(…)` calls it.

        Raises:
            ConfigurationError: an application has included it before, or a child process could not
                know the application's retry policy.
            InvalidTask, InvalidSchedule, InvalidLimit: a name is taken there, or a task cannot work
                with its factories. Then the tasks are as before, and the application has to remove
                what it has received.
        """
        if self._app is not None:
            raise ConfigurationError(
                f"the tasks ({', '.join(self._tasks) or 'none yet'}) are included"
                f" {'here' if self._app is app else 'in another application'} already; an"
                " application includes each Tasks() once, and no other one may. Declare them in a"
                " function that returns new Tasks(), and call it for each application"
            )
        try:
            for task in self._tasks.values():
                _hand_over(task, app)
            for limit, queue in self._limits:
                declare_limit(limit, queue=queue)
            for schedule, target, args in self._schedules:
                schedules.add(schedule, schedule.name, target, args)
        except BaseException:
            for task in self._tasks.values():
                task.join(self._surroundings)
            raise
        self.defaults, self._surroundings = app.defaults, app._surroundings
        self._app, self._schedules, self._declare_limit = app, schedules, declare_limit
        self.undecided = app.undecided

    def _check_conflicts(self, task: Task[..., Any]) -> None:
        """Leave the names of limits to the application, which knows all of them."""

    def _note_limit(self, limit: Limit, *, queue: str) -> None:
        self._limits.append((limit, queue))

    def _included(self, job: NewJob | None = None) -> TopicApp:
        if self._app is None:
            what = "these tasks" if job is None else f"task {job.task!r}"
            raise ConfigurationError(
                f"no application has included {what}, so there is no database for its"
                " jobs; call app.include(tasks), and import the module that does so before"
                " enqueueing (in a process=True handler, too: its process imports only the"
                " handler's module)"
            )
        return self._app


def _hand_over(task: Task[..., Any], app: TaskApp) -> None:
    """Make a task one of an application.

    Raises:
        ConfigurationError: its child process would not know how to retry it.
    """
    if task.options.process and task.options.retry is None and app.defaults.retry is not None:
        raise ConfigurationError(
            f"task {task.name!r} of a Tasks() is process=True, and its process imports only its"
            " module, so it cannot know the retry policy of Mutirao(retry=…); give it one of its"
            " own: @tasks.task(process=True, retry=…)"
        )
    task.join(app._surroundings)
    app.register(task)
