"""Django's own connections, for the application: what jobs are written through, and `atomic`."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.utils.connection import ConnectionDoesNotExist

from mutirao.errors import WrongState

P = ParamSpec("P")
R = TypeVar("R")


class DjangoConnections:
    """`django.db.connections`, as `mutirao.ports.program` asks for them.

    Parameters:
        alias: that of the database with the jobs.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def current(self) -> object:
        """Return the connection to the database with the jobs, of this thread."""
        return connections[self._alias]

    async def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function in the thread in which coroutines use Django's ORM."""
        result: R = await sync_to_async(function, thread_sensitive=True)(*args, **kwargs)
        return result

    def transaction(self, alias: str, *, nested: bool = False) -> "AtomicBlock":
        """Return `atomic(using=alias)`, whose end commits; or what ends with the outer block."""
        return AtomicBlock(alias, self._alias, nested=nested)


class AtomicBlock:
    """`transaction.atomic(using=…)` that commits when it is left without an error, or raises.

    A coroutine enters and leaves it in the thread of its synchronous calls, which is its own: the
    hook around each handler sees to that.

    Parameters:
        alias: of the connection.
        of_jobs: the alias of the database with the jobs.
    """

    def __init__(self, alias: str, of_jobs: str, *, nested: bool = False) -> None:
        self._alias, self._of_jobs, self._nested = alias, of_jobs, nested
        self._atomic: Any = None

    def __enter__(self) -> Any:
        """Begin, and return the connection."""
        try:
            connection = connections[self._alias]
        except ConnectionDoesNotExist as unknown:
            raise WrongState(
                f"job.transaction(using={self._alias!r}): {unknown}; there are"
                f" {', '.join(connections)} in DATABASES"
            ) from unknown
        self._check_database(connection)
        self._atomic = transaction.atomic(using=self._alias, durable=not self._nested)
        try:
            self._atomic.__enter__()
        except RuntimeError as nested:
            raise WrongState(
                f"job.transaction(using={self._alias!r}) was opened inside of another"
                " transaction.atomic(), whose end would decide about it; open it outside"
            ) from nested
        return connection

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Commit, or roll back."""
        connection = connections[self._alias]
        fit = connection.in_atomic_block and not connection.needs_rollback
        # The latter is what the job's completion raises in a block that is to be rolled back.
        undone = not fit and isinstance(error, transaction.TransactionManagementError | None)
        self._atomic.__exit__(kind, error, trace)
        if undone:
            raise WrongState(
                f"the transaction of job.transaction(using={self._alias!r}) was rolled back, as an"
                " atomic() inside of it had failed or set_rollback(True) was called; so the job"
                " cannot complete with it. Raise an error to have it retried"
            ) from error

    def _check_database(self, connection: Any) -> None:
        """Raise WrongState where a job of another database would be completed, if any.

        Another way to the same one, such as a pooler, has the same name.
        """
        there, home = (
            str(each.settings_dict["NAME"] or "")
            for each in (connection, connections[self._of_jobs])
        )
        if there and home and there != home:
            raise WrongState(
                f"job.transaction(using={self._alias!r}) names a connection to another database,"
                f" {there}; the jobs are in {home}: give using={self._of_jobs!r}"
            )

    async def __aenter__(self) -> Any:
        """Begin, and return the connection, for functions under `sync_to_async`."""
        return await sync_to_async(self.__enter__, thread_sensitive=True)()

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Commit, or roll back."""
        await sync_to_async(self.__exit__, thread_sensitive=True)(kind, error, trace)
