"""Who may do what: the application says it of each request, and there is no default.

A page asks for a role, and so does each command, when it is about to act: a button that is not
shown protects nothing.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from starlette.requests import Request

from mutirao.errors import ConfigurationError
from mutirao.model.filters.filter import parse


class Permission(IntEnum):
    """What somebody may do; each may do what those before it may."""

    NONE = 0
    READ = 1  # look
    ACT = 2  # and retry, cancel, change and redrive jobs, and run a schedule now
    ADMIN = 3  # and pause and resume queues, schedules, subscriptions and endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What whoever sends a request may see and do.

    Parameters:
        role: see `Permission`.
        user: who it is, for the record of what was done.
        only: a filter of jobs, such as `queue:mail,bulk` or `tenant:5`: no other job is shown or
            acted on, and of pages there are only those of jobs.
        contents: whether arguments, results, metadata and the texts of errors are shown. Secrets
            in them are blanked in any case.

    Raises:
        InvalidFilter: `only` is no filter.
    """

    role: Permission
    user: str = ""
    only: str = ""
    contents: bool = True

    def __post_init__(self) -> None:
        parse(self.only)

    @classmethod
    def none(cls) -> Self:
        """Return the access of nobody: every page says that it is refused."""
        return cls(role=Permission.NONE)

    @classmethod
    def read(cls, user: str = "", *, only: str = "", contents: bool = True) -> Self:
        """Return the access of somebody who looks."""
        return cls(role=Permission.READ, user=user, only=only, contents=contents)

    @classmethod
    def act(cls, user: str = "", *, only: str = "", contents: bool = True) -> Self:
        """Return the access of somebody who acts on jobs."""
        return cls(role=Permission.ACT, user=user, only=only, contents=contents)

    @classmethod
    def admin(cls, user: str = "") -> Self:
        """Return the access of somebody who may do everything."""
        return cls(role=Permission.ADMIN, user=user)

    def may(self, role: Permission) -> bool:
        """Return whether it has at least this role."""
        return self.role >= role


Decide = Callable[[Request], Access | Awaitable[Access]]


class Refused(Exception):
    """Somebody may not see or do this. `needed`: the role; None: they may see only some jobs."""

    def __init__(self, needed: Permission | None) -> None:
        super().__init__(needed)
        self.needed = needed


async def decided(access: Decide, request: Request) -> Access:
    """Return what the application says of a request.

    Raises:
        ConfigurationError: it says something else.
    """
    said = access(request)
    found = await said if inspect.isawaitable(said) else said
    if not isinstance(found, Access):
        raise ConfigurationError(
            f"access= returned {type(found).__name__}; expected an Access, such as Access.read()"
        )
    return found


def check(access: Access, needed: Permission, *, whole: bool = False) -> None:
    """Raise Refused if the role is not enough, or all jobs are needed and only some are allowed."""
    if not access.may(needed):
        raise Refused(needed)
    if whole and access.only:
        raise Refused(None)
