"""The interface of the store's own connection classes that are lent to handlers past SQLAlchemy."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast


class Lendable(ABC):
    """A connection of a driver's, of a class of ours.

    While `refuse` is set, it is called with the name of a method that would end the transaction,
    instead of that method.
    """

    refuse: Callable[[str], Any] | None = None

    def commit(self) -> Any:
        """Commit, unless that is refused."""
        if self.refuse is not None:
            return self.refuse("commit")
        return cast(Any, super()).commit()

    def rollback(self) -> Any:
        """Roll back, unless that is refused."""
        if self.refuse is not None:
            return self.refuse("rollback")
        return cast(Any, super()).rollback()

    @abstractmethod
    def lend(self) -> None:
        """Begin a transaction, at once or with the first statement."""

    @abstractmethod
    def take_back(self) -> None:
        """Be lent no more: the transaction has ended."""

    @abstractmethod
    def is_open(self) -> bool:
        """Return whether a statement would be in a transaction that has not failed."""

    @abstractmethod
    def must_roll_back(self) -> bool:
        """Return whether there is something to roll back; begin nothing any more."""

    @abstractmethod
    def is_lost(self) -> bool:
        """Return whether it is closed, or connected to something else than the database."""

    @abstractmethod
    def is_idle(self) -> bool:
        """Return whether it is in no transaction and does nothing."""


def lendable(driver: object) -> Lendable | None:
    """Return the store's connection that it is, or that aiosqlite runs in a thread; or None."""
    if isinstance(driver, Lendable):
        return driver
    beneath = getattr(driver, "_conn", None)
    return beneath if isinstance(beneath, Lendable) else None
