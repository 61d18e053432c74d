"""Tasks of `django.tasks` as native ones: what their jobs run, with its signals and its context.

A native task of the path `shop.tasks.send` has the parameters of that function without their types:
`django.tasks` passes plain JSON. So the arguments are there by name, for people, limits and keys.
"""

import inspect
import os
import socket
from collections.abc import Callable, Mapping
from inspect import Parameter
from traceback import format_exception
from typing import Any

from django.utils import timezone

from mutirao.engine.calls.outcomes import of_error
from mutirao.errors import InvalidTask
from mutirao.integrations.django.compat import (
    TaskContext,
    TaskError,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from mutirao.integrations.django.task_result import as_django_s, result_of
from mutirao.integrations.django.task_terms import TERMS, term
from mutirao.model.jobs.job import Job, NewJob
from mutirao.model.jobs.states import OutcomeKind
from mutirao.tasks.options import TaskOptions
from mutirao.tasks.task import Task, TaskApp

POSITIONAL, BACKEND = "django.positional", "django.backend"  # in a job's metadata
_JOB = Parameter("_mutirao_job", Parameter.POSITIONAL_ONLY, annotation=Job)
_ENDED = {OutcomeKind.DEAD, OutcomeKind.CANCELLED}


class NativeTask(Task[..., Any]):
    """A native task whose jobs run a task of `django.tasks`, as it was decorated."""

    taken = "two tasks are called {0!r} ({1} and {2}); name the native one: @app.task(name=…)"

    def __init__(self, app: TaskApp, of: Any, options: Mapping[str, Any]) -> None:
        self.of = of
        found = {name: term(of, options, name) for name in TERMS}
        given: Any = {name: value for name, value in found.items() if value is not None}
        given = {"keep_result": True, "queue": of.queue_name, "priority": -of.priority} | given
        super().__init__(app, _performing(of), of.module_path, TaskOptions.of(given))
        self.places = [
            each.name
            for each in _parameters(of)
            if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        ]
        self.templates: dict[tuple[Any, ...], NewJob] = {}  # of calls that differ in arguments only
        by_kind = {each.kind: each.name for each in _parameters(of)}
        self.rest = by_kind.get(Parameter.VAR_POSITIONAL)
        self.more = by_kind.get(Parameter.VAR_KEYWORD)

    def as_called(
        self, named: Mapping[str, Any], positional: int
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments as they were given, of those by name.

        Parameters:
            positional: how many were given by position.
        """
        left = dict(named)
        args = [left.pop(name) for name in self.places[:positional] if name in left]
        args += left.pop(self.rest, []) if self.rest is not None else []
        more = left.pop(self.more, {}) if self.more is not None else {}
        return args, {**left, **more}


def _parameters(of: Any) -> list[Parameter]:
    """Return the parameters that calls give: not the context."""
    found = [*inspect.signature(of.func).parameters.values()]
    return found[1:] if of.takes_context else found


def _performing(of: Any) -> Callable[..., Any]:
    """Return the function that a job runs."""
    if inspect.iscoroutinefunction(of.func):

        async def aperform(_mutirao_job: Job, /, *args: Any, **kwargs: Any) -> Any:
            return await _aperform(of, _mutirao_job, args, kwargs)

        return _like(aperform, of)

    def perform(_mutirao_job: Job, /, *args: Any, **kwargs: Any) -> Any:
        return _perform(of, _mutirao_job, args, kwargs)

    return _like(perform, of)


def _like(function: Any, of: Any) -> Callable[..., Any]:
    """Give a function the name and the parameters of a task's, without their types."""
    plain = [each.replace(annotation=Parameter.empty) for each in _parameters(of)]
    if _JOB.name in {each.name for each in plain}:
        raise InvalidTask(f"{of.module_path} has a parameter {_JOB.name}; call it otherwise")
    function.__signature__ = inspect.Signature([_JOB, *plain])
    function.__annotations__ = {_JOB.name: Job}
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(function, name, getattr(of.func, name))
    result: Callable[..., Any] = function
    return result


def _perform(of: Any, job: Job, args: Any, kwargs: Any) -> Any:
    attempt = _Attempt(of, job)
    task_started.send(sender=attempt.sender, task_result=attempt.result)
    try:
        value = normalize_json(of.func(*attempt.context(), *args, **kwargs))
    except BaseException as error:
        if attempt.fails(error):
            task_finished.send(attempt.sender, task_result=attempt.result)
        raise
    attempt.succeeds(value)
    task_finished.send(attempt.sender, task_result=attempt.result)
    return value


async def _aperform(of: Any, job: Job, args: Any, kwargs: Any) -> Any:
    attempt = await _in_thread(_Attempt, of, job) if job.attempt > 1 else _Attempt(of, job)
    await task_started.asend(sender=attempt.sender, task_result=attempt.result)
    try:
        value = normalize_json(await of.func(*attempt.context(), *args, **kwargs))
    except BaseException as error:
        if attempt.fails(error):
            await task_finished.asend(attempt.sender, task_result=attempt.result)
        raise
    attempt.succeeds(value)
    await task_finished.asend(attempt.sender, task_result=attempt.result)
    return value


async def _in_thread(function: Callable[..., Any], *args: Any) -> Any:
    from asgiref.sync import sync_to_async

    return await sync_to_async(function, thread_sensitive=True)(*args)


class _Attempt:
    """An attempt as `django.tasks` sees it: a result that changes.

    The first one asks no database; a later one reads what there was.
    """

    def __init__(self, of: Any, job: Job) -> None:
        self._of, self._job = of, job
        metadata = job.metadata
        backend = task_backends[metadata.get(BACKEND, of.backend)]
        self.sender = type(backend)
        if job.attempt > 1:
            self.result = backend.get_result(str(job.id))
            return
        native = backend.native(of)
        self.result = result_of(
            of,
            job.id,
            backend.alias,
            native.as_called(job.args, metadata.get(POSITIONAL, 0)),
            enqueued_at=as_django_s(job.enqueued_at),
            status=TaskResultStatus.RUNNING,
            starts=[timezone.now()],
            workers=[f"{socket.gethostname()}:{os.getpid()}"],
        )

    def context(self) -> tuple[Any, ...]:
        """Return the first argument of a task that takes it, or nothing."""
        return (TaskContext(task_result=self.result),) if self._of.takes_context else ()

    def succeeds(self, value: Any) -> None:
        """Record the result of the function. The job is completed after that."""
        self._end(TaskResultStatus.SUCCESSFUL)
        self._set("_return_value", value)

    def fails(self, error: BaseException) -> bool:
        """Note an error; return whether the job ends with it."""
        policy, _ = task_terms(self._of)
        outcome = of_error(error, self._job.attempt, self._job.max_attempts, policy)
        if outcome.kind not in _ENDED:
            return False
        kind = type(error)
        self.result.errors.append(
            TaskError(
                exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
                traceback="".join(format_exception(error)),
            )
        )
        self._end(TaskResultStatus.FAILED)
        return True

    def _end(self, status: Any) -> None:
        self._set("status", status)
        self._set("finished_at", timezone.now())

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self.result, name, value)


def task_terms(of: Any) -> Any:
    """Return the retry policy and the timeout in force for a task."""
    native: Task[..., Any] = task_backends[of.backend].native(of)
    return native.terms()
