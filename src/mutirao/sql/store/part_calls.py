"""The parts of a store: most calls are one function of `statements`, and how that is sent.

The functions below make such a method. It takes what the function takes, but for the connection and
the dialect; the contract is that of the port.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from datetime import datetime
from functools import update_wrapper
from inspect import Signature, signature
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Table

from mutirao.sql.connections.runner import for_people
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.statements import workers
from mutirao.sql.store.sender import StatementSender

P = ParamSpec("P")
R = TypeVar("R")
_DESCRIBED = ("__module__", "__name__", "__qualname__", "__doc__")


class StorePart:
    """A part of a store."""

    def __init__(self, sender: StatementSender) -> None:
        self._sender = sender


class DeclaredPart(StorePart):
    """A part whose rows programs may have in their code: those of `declared`."""

    declared: ClassVar[Table]

    async def confirm_declared(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Record that rows are in a worker's code."""
        sender, body = self._sender, workers.confirm_declared
        await sender.runner.alone(body, self.declared, sender.dialect, names, worker, every, now)


Reading = Callable[Concatenate[Connection, P], R]
Writing = Callable[Concatenate[Connection, Dialect, P], R]
Call = Callable[Concatenate[StorePart, P], Coroutine[Any, Any, R]]


def single(body: Reading[P, R]) -> Call[P, R]:
    """Make a call of a single statement, without a transaction."""

    async def call(self: StorePart, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._sender.runner.alone(body, *args, **kwargs)

    return _described(call, body, given=1)


def read(body: Reading[P, R]) -> Call[P, R]:
    """Make a call that reads for people."""
    reading = for_people(body)

    async def call(self: StorePart, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._sender.runner.read(reading, *args, **kwargs)

    return _described(call, body, given=1)


def read_many(body: Reading[P, R]) -> Call[P, R]:
    """Make a call that reads many rows for people, as `StatementSender.look` does."""
    reading = for_people(body)

    async def call(self: StorePart, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._sender.look(reading, *args, **kwargs)

    return _described(call, body, given=1)


def write(body: Writing[P, R], *, patient: bool = False) -> Call[P, R]:
    """Make a call that writes in one transaction, again if the database aborted it for another.

    `patient`: it may take long.
    """

    async def call(self: StorePart, /, *args: P.args, **kwargs: P.kwargs) -> R:
        runner = self._sender.patient if patient else self._sender.insistent
        return await runner.run(body, self._sender.dialect, *args, **kwargs)

    return _described(call, body, given=2)


def change_limits(body: Writing[P, R], *, patient: bool = False, frees: bool = False) -> Call[P, R]:
    """Make a call that writes and changes limits, as `RowLocking.limits` does.

    `patient`: it may take long. `frees`: if it says that it did something, jobs became ready.
    """

    async def call(self: StorePart, /, *args: P.args, **kwargs: P.kwargs) -> R:
        sender = self._sender
        runner = sender.patient if patient else sender.insistent
        done = await sender.locking.limits(runner, body, sender.dialect, *args, **kwargs)
        if frees and done:
            sender.announce(1)
        return done

    return _described(call, body, given=2)


def _described(call: Call[P, R], body: Callable[..., R], *, given: int) -> Call[P, R]:
    """Give a call the name, the docstring and the parameters of its function.

    `given`: as many first parameters are given by the sender, and in their place is `self`.
    """
    [itself, *_] = signature(call).parameters.values()
    taken = [*signature(body).parameters.values()][given:]
    described: Any = update_wrapper(call, body, assigned=_DESCRIBED, updated=())
    del described.__wrapped__
    described.__signature__ = Signature([itself, *taken])
    return call
