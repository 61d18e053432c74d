"""A task of Celery's kind: its decorator's options, its calls, and what its function finds."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime
from inspect import Parameter
from typing import Any, NoReturn, cast

from mutirao.app import Mutirao
from mutirao.integrations.celery.canvas import Canvas, CelerySignature, chain, group
from mutirao.integrations.celery.options import Priorities, Retrying, call_options
from mutirao.integrations.celery.refusing import refusal
from mutirao.integrations.celery.results import AsyncResult
from mutirao.model.jobs.job import Job, NewJob
from mutirao.model.jobs.retry import Dead, Retry as OurRetry
from mutirao.tasks.task import Task

_JOB = "mutirao_job"  # the parameter that the function does not see
_NOT_OURS = {
    "apply": ("run it in a test with mutirao.testing.inline", "testing"),
    "map": ("enqueue many: app.enqueue_many", "canvas"),
    "starmap": ("enqueue many: app.enqueue_many", "canvas"),
    "chunks": ("enqueue many: app.enqueue_many, with a part of the list each", "canvas"),
    "replace": ("enqueue what follows, as the next step of a chain", "canvas"),
    "add_to_chord": ("make the graph with all of its steps", "canvas"),
    "update_state": ("tell how far it has come: self.progress(done, of=…)", "states"),
    "backend": ("results are in the database", "results"),
    "delay_on_commit": ("give the connection: apply_async(…, conn=connection)", "calls"),
    "apply_async_on_commit": ("give the connection: apply_async(…, conn=connection)", "calls"),
    "after_return": ("use @app.around_handler, or middleware", "base-class"),
}


class MaxRetriesExceededError(Exception):
    """A task asked for one retry more than it may have."""


class Request:
    """What a task may know of its job, by the names of Celery: `self.request`."""

    called_directly = False
    is_eager = False

    def __init__(self, job: Job) -> None:
        self.job = job

    @property
    def id(self) -> str:
        """The id of the job, as text."""
        return str(self.job.id)

    task_id = correlation_id = id

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.job.task

    @property
    def retries(self) -> int:
        """How many attempts there were before this one."""
        return self.job.attempt - 1

    @property
    def args(self) -> list[Any]:
        """An empty list: arguments are stored by name."""
        return []

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name, as JSON has them."""
        return self.job.args

    @property
    def eta(self) -> datetime:
        """When this attempt was due."""
        return self.job.run_at

    @property
    def expires(self) -> datetime | None:
        """Until when the job is wanted."""
        return self.job.expires_at

    @property
    def headers(self) -> dict[str, Any]:
        """The headers of `apply_async(headers=…)`."""
        return dict(self.job.metadata.get("headers") or {})

    @property
    def delivery_info(self) -> dict[str, Any]:
        """The queue and the priority; the priority is ours, of which the smaller runs first."""
        return {"routing_key": self.job.queue, "priority": self.job.priority, "redelivered": None}

    @property
    def timelimit(self) -> tuple[float | None, None]:
        """The timeout of an attempt in seconds."""
        return self.job.timeout, None

    def __getattr__(self, name: str) -> NoReturn:
        told = refusal(f"self.request.{name}", "see self.request.job", "request")
        raise AttributeError(str(told))


class DirectRequest:
    """The request of a task that is called like a function."""

    id = task_id = correlation_id = eta = expires = None
    called_directly, is_eager, retries = True, False, 0


class CeleryTask:
    """A task: `delay`, `apply_async`, `s`, `si`, `retry` as in Celery; `native` is our task.

    Parameters:
        app: the application that enqueues its jobs.
        function: the function of the user.
        bound: whether that takes the task as its first argument.
    """

    native: Task[..., Any]

    def __init__(
        self,
        app: Callable[[], Mutirao],
        function: Callable[..., Any],
        name: str,
        retrying: Retrying,
        priorities: Priorities,
        bound: bool,
    ) -> None:
        self._app, self.run, self.name, self._bound = app, function, name, bound
        self._retrying, self._priorities = retrying, priorities
        self._request: ContextVar[Request] = ContextVar(name)
        self.__doc__, self.__module__ = function.__doc__, function.__module__
        self.__name__ = getattr(function, "__name__", name)
        self.__qualname__, self.__wrapped__ = getattr(function, "__qualname__", name), function

    def __repr__(self) -> str:
        return f"<CeleryTask {self.name!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, without a job."""
        return self.run(self, *args, **kwargs) if self._bound else self.run(*args, **kwargs)

    @property
    def app(self) -> Mutirao:
        """The application."""
        return self._app()

    @property
    def max_retries(self) -> int | None:
        """How often it may be tried again; None: as often as it takes."""
        return self._retrying.most

    @property
    def request(self) -> Request | DirectRequest:
        """The facts about the running job."""
        return self._request.get(cast("Request", DirectRequest()))

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Enqueue a call."""
        found: AsyncResult = self.apply_async(args, kwargs)
        return found

    def apply_async(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Enqueue a call with options.

        Parameters:
            args, kwargs: its arguments.
            options: countdown, eta, expires, queue, priority, time_limit, headers, link; `conn`,
                the connection or session whose transaction the job joins; retry, retry_policy and
                ignore_result change nothing.

        Raises:
            ConfigurationError: an option has no equal.
            InvalidJob: an argument or an option does not fit.
        """
        if link := options.pop("link", None):
            return self._linked(tuple(args or ()), dict(kwargs or {}), options, link)
        call = self.native.using(**call_options(options, self._priorities))
        handle = call.enqueue(*(args or ()), **(kwargs or {}))
        return AsyncResult(handle.id, self.app)

    def _linked(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any], link: Any
    ) -> Any:
        """Enqueue a call, and what follows it; return the result of the first."""
        after = link if isinstance(link, Canvas) else group(link)
        conn = {"conn": options.pop("conn")} if "conn" in options else {}
        found = chain(CelerySignature(self, args, kwargs, options), after).apply_async(**conn)
        while found.parent is not None:
            found = found.parent
        return found

    def job(
        self, args: Iterable[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
    ) -> NewJob:
        """Return a call as a value, for a graph or `app.enqueue_many`."""
        return self.native.using(**call_options(options, self._priorities)).job(*args, **kwargs)

    def s(self, *args: Any, **kwargs: Any) -> CelerySignature:
        """Return a call that is not made yet; a result that comes before is its first argument."""
        return CelerySignature(self, args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> CelerySignature:
        """Return a call that is not made yet, and takes no result of the previous one."""
        return CelerySignature(self, args, kwargs, immutable=True)

    def signature(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        immutable: bool = False,
        **options: Any,
    ) -> CelerySignature:
        """Return a call that is not made yet, with options of `apply_async`."""
        return CelerySignature(self, tuple(args or ()), dict(kwargs or {}), options, immutable)

    subtask = signature

    def retry(
        self,
        args: object = None,
        kwargs: object = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> OurRetry:
        """Try the job again later: raises the signal for the worker.

        Parameters:
            exc: the reason; raised itself where there are no retries left.
            throw: False returns it, to be raised by the caller.
            eta, countdown: when; otherwise after `default_retry_delay`.
            max_retries: fewer than the task has.

        Raises:
            Retry: always, unless there are no retries left.
            MaxRetriesExceededError: there are none left, and no `exc` was given.
            ConfigurationError: it asks for other arguments or options.
        """
        if options or args not in (None, (), []) or kwargs not in (None, {}):
            instead = "a job keeps its arguments and options; enqueue another call"
            raise refusal("retry(…) with other arguments or options", instead, "retries")
        most = self._retrying.most
        if max_retries is not None and most is not None and max_retries > most:
            instead = "give the larger number to the task"
            raise refusal(f"retry(max_retries={max_retries})", instead, "retries")
        most = most if max_retries is None else max_retries
        request = self.request
        if request.called_directly and exc is not None:
            raise exc
        if most is not None and request.retries >= most:
            reason = exc or MaxRetriesExceededError(f"{self.name} has no retries left, of {most}")
            raise Dead(f"{type(reason).__name__}: {reason}") from reason
        wait = None if eta is not None else self._retrying.delay if countdown is None else countdown
        told = f"{type(exc).__name__}: {exc}" if exc is not None else "the task asked for a retry"
        again = OurRetry(wait, at=eta, reason=told)
        if throw:
            raise again from exc
        return again

    def progress(self, done: float, *, of: float | None = None, note: str | None = None) -> None:
        """Tell how far the job has come; see `Job.progress`."""
        if isinstance(request := self.request, Request):
            request.job.progress(done, of=of, note=note)

    def on_dead(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Register what runs when a job of this task is dead; see `Task.on_dead`."""
        return self.native.on_dead(handler)

    def __getattr__(self, name: str) -> NoReturn:
        if name in _NOT_OURS:
            raise AttributeError(str(refusal(f"task.{name}", *_NOT_OURS[name])))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def named(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name; raise TypeError if they do not fit."""
        return dict(inspect.Signature(self._taken()).bind(*args, **kwargs).arguments)

    def handler(self) -> Callable[..., Any]:
        """Return what our task calls: the function, with the job where it may be asked for."""
        handler = self._coroutine() if inspect.iscoroutinefunction(self.run) else self._function()
        for each in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(handler, each, getattr(self.run, each, None))
        handler.__wrapped__ = self.run  # type: ignore[attr-defined]
        first, *rest = [Parameter(_JOB, Parameter.POSITIONAL_ONLY, annotation=Job), *self._taken()]
        handler.__signature__ = inspect.Signature([first, *rest])  # type: ignore[attr-defined]
        names = {each.name for each in rest} | {"return"}
        said = inspect.get_annotations(self.run)
        kept = {name: kind for name, kind in said.items() if name in names}
        handler.__annotations__ = {_JOB: Job, **kept}
        return handler

    def _taken(self) -> list[Parameter]:
        parameters = [*inspect.signature(self.run).parameters.values()]
        if not self._bound:
            return parameters
        if not parameters or parameters[0].kind not in (
            Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD,
        ):  # fmt: skip
            raise refusal(
                f"bind=True of {self.name!r}", "give it self as first parameter", "options"
            )
        return parameters[1:]

    def _function(self) -> Callable[..., Any]:
        def handler(job: Job, /, *args: Any, **kwargs: Any) -> Any:
            token = self._request.set(Request(job))
            try:
                return self(*args, **kwargs)
            finally:
                self._request.reset(token)

        return handler

    def _coroutine(self) -> Callable[..., Any]:
        async def handler(job: Job, /, *args: Any, **kwargs: Any) -> Any:
            token = self._request.set(Request(job))
            try:
                return await self(*args, **kwargs)
            finally:
                self._request.reset(token)

        return handler
