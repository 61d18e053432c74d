"""The connections that a program's framework keeps, such as Django's, as a protocol.

If an application knows them, jobs belong to the program's open transaction, also without `conn=`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from mutirao.model.jobs.job import Transaction

P = ParamSpec("P")
R = TypeVar("R")


class ProgramConnections(Protocol):
    """The connections of a program."""

    def current(self) -> object:
        """Return the connection to the database with the jobs, of the calling thread."""
        ...

    async def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function in the thread of a coroutine's synchronous database calls."""
        ...

    def transaction(self, alias: str, *, nested: bool = False) -> Transaction[Any, Any]:
        """Return a transaction on the connection of that name, which it gives.

        Parameters:
            nested: whether it may be a savepoint of a transaction that is open there: for tests.

        Raises:
            WrongState: entering it, if there is no connection of that name, or a transaction is
                open there, whose end would decide. Leaving it without an error, if it was rolled
                back all the same.
        """
        ...
