"""Captures an application's jobs in a test, instead of writing them to its database."""

import inspect
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, overload

import msgspec

from mutirao.app import Mutirao
from mutirao.model.jobs.records import JobFilter, JobRecord
from mutirao.ports import Store
from mutirao.sql.store.jobs import SqlStore
from mutirao.tasks.signatures.conversion import to_json
from mutirao.tasks.task import Task
from mutirao.testing.inlining import InlineStore
from mutirao.testing.memory import MemoryStore, at_once
from mutirao.testing.transactions import SessionFactory


class Captured(Sequence[JobRecord]):
    """The jobs enqueued since, oldest first, each in its current state.

    In a Django project a task of `django.tasks` can be used like a native one.
    """

    def __init__(self, store: MemoryStore, app: Mutirao) -> None:
        self.store, self._app = store, app

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> JobRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[JobRecord]: ...
    def __getitem__(self, index: int | slice) -> JobRecord | list[JobRecord]:
        return self._all()[index]

    def __iter__(self) -> Iterator[JobRecord]:
        return iter(self._all())

    def of(self, task: object, /, **arguments: Any) -> list[JobRecord]:
        """Return the jobs of a task, oldest first: those with these arguments, if any are given.

        Arguments are compared as the handler would get them, defaults included.

        Raises:
            TypeError: it is no task of the application, or has no parameter of that name.
        """
        own = self._app._own_task(task)
        _check_names(own, arguments)
        jobs = [job for job in self._all() if job.task == own.name]
        return [job for job in jobs if _has(_received(own, job), arguments)]

    def assert_enqueued(self, task: object, /, **arguments: Any) -> JobRecord:
        """Return the first job of a task with these arguments.

        Raises:
            AssertionError: there is none; the message lists what there is.
        """
        found = self.of(task, **arguments)
        if not found:
            name = self._app._own_task(task).name
            raise AssertionError(f"{_call(name, arguments)} was not enqueued; {self._list()}")
        return found[0]

    def assert_not_enqueued(self, task: object, /, **arguments: Any) -> None:
        """Raise AssertionError if there is a job of a task with these arguments."""
        if self.of(task, **arguments):
            name = self._app._own_task(task).name
            raise AssertionError(f"{_call(name, arguments)} was enqueued; {self._list()}")

    def _all(self) -> list[JobRecord]:
        return at_once(self.store.jobs(JobFilter(limit=None)))[::-1]

    def _list(self) -> str:
        calls = [_call(job.task, job.args) for job in self._all()]
        return "\n  ".join(["these were:", *calls]) if calls else "nothing was."


@contextmanager
def capture(app: Mutirao, *, session_factory: SessionFactory | None = None) -> Iterator[Captured]:
    """Keep an application's jobs in SQLite in memory instead of its database.

    Whatever `conn` they are enqueued with, they are there at once, not when that commits. Nothing
    runs them, but for `drain`. Everything that uses `app` meanwhile, in any thread, is captured.

    Parameters:
        app: the application.
        session_factory: what `job.transaction()` gives when they are drained; see MemoryStore.
    """
    store = MemoryStore(accept_any_connection=True, session_factory=session_factory)
    with instead(app, store):
        yield Captured(store, app)


@contextmanager
def inline(app: Mutirao, *, session_factory: SessionFactory | None = None) -> Iterator[Captured]:
    """Run an application's jobs the moment they are enqueued, wherever that happens.

    `enqueue` returns when the handler has, and raises what the handler raised, `Retry` and `Snooze`
    included: there are no retries. Delays are not waited for, nor the commit of a `conn`. A plain
    function runs in the caller's thread (with `aenqueue`: in another one), a coroutine in the
    caller's event loop or, with `enqueue`, in one of its own. No database is used.

    Parameters:
        app: the application.
        session_factory: what `job.transaction()` gives; see MemoryStore.
    """
    store = InlineStore(app.tasks, app._around_attempt, session_factory, app.home())
    with instead(app, store):
        yield Captured(store, app)


@contextmanager
def instead(app: Mutirao, store: Store) -> Iterator[None]:
    """Use another store for an application's jobs, in the block."""
    app.decide()
    own, app.store = app.store, store
    if isinstance(own, SqlStore) and isinstance(store, SqlStore):
        store.program = own.program
    brokers, app.transports = app.transports, {}
    try:
        yield
    finally:
        app.store, app.transports = own, brokers


def _check_names(task: Task[..., Any], arguments: dict[str, Any]) -> None:
    parameters = inspect.signature(task.function).parameters
    unknown = sorted(arguments.keys() - parameters.keys())
    if unknown:
        raise TypeError(
            f"task {task.name!r} has no parameter {unknown[0]!r}; it has {', '.join(parameters)}"
        )


def _received(task: Task[..., Any], job: JobRecord) -> dict[str, Any]:
    args, kwargs = task.signature.decode(json.dumps(job.args))
    before = (None,) if task.signature.wants_job else ()
    return inspect.signature(task.function).bind_partial(*before, *args, **kwargs).arguments


def _has(received: dict[str, Any], arguments: dict[str, Any]) -> bool:
    return all(_same(received.get(name), value) for name, value in arguments.items())


def _same(received: Any, expected: Any) -> bool:
    """Compare as values, or as JSON where a handler's annotation leaves it at that."""
    return bool(received == expected) or _plain(received) == _plain(expected)


def _plain(value: Any) -> Any:
    return msgspec.json.decode(to_json(value))


def _call(task: str, arguments: dict[str, Any]) -> str:
    return f"{task}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
