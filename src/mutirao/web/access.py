"""Permissions: the application says it of each request, and there is no default.

A page asks for a role, and so does each command, when it is about to act: a button that is not
shown protects nothing.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from starlette.requests import Request

from mutirao.errors import ConfigurationError, InvalidFilter
from mutirao.model.audit.actions import MAX_WHO
from mutirao.model.blanking import Blanking
from mutirao.model.display import one_line
from mutirao.model.filters.filter import Filter, SaidTerm, parse

DECIDED = "mutirao.access"  # in the environ of WSGI, where no header of a request can stand
NOBODY = "dashboard"  # the user, if none is known
OF_CONTENTS = frozenset({"arg", "key", "message"})  # qualifiers by which contents are found


class Permission(IntEnum):
    """What a user may do; each level includes those before it."""

    NONE = 0
    READ = 1  # look
    ACT = 2  # and enqueue, retry, cancel, change, redrive and delete jobs, stop such an action, and
    # run a schedule now
    ADMIN = 3  # and pause and resume queues, schedules, subscriptions and endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the sender of a request may see and do.

    Parameters:
        role: see `Permission`.
        user: the name, for the audit.
        only: a filter of jobs, such as `queue:mail,bulk` or `tenant:5`: no other job is shown or
            acted on, and of pages there are only those of jobs.
        contents: whether arguments, results, metadata, keys and the texts of errors are shown, and
            jobs are found by them. Secrets in them are blanked in any case.

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
        """Return the access of an unknown user: every page refuses it."""
        return cls(role=Permission.NONE)

    @classmethod
    def read(cls, user: str = "", *, only: str = "", contents: bool = True) -> Self:
        """Return the access of a user that only reads."""
        return cls(role=Permission.READ, user=user, only=only, contents=contents)

    @classmethod
    def act(cls, user: str = "", *, only: str = "", contents: bool = True) -> Self:
        """Return the access of a user that acts on jobs."""
        return cls(role=Permission.ACT, user=user, only=only, contents=contents)

    @classmethod
    def admin(cls, user: str = "") -> Self:
        """Return the access of a user that may do everything."""
        return cls(role=Permission.ADMIN, user=user)

    def may(self, role: Permission) -> bool:
        """Return whether it has at least this role."""
        return self.role >= role


def who(access: Access) -> str:
    """Return the name of the acting user, for the audit."""
    return one_line(access.user)[:MAX_WHO] or NOBODY


Decide = Callable[[Request], Access | Awaitable[Access]]


class Refused(Exception):
    """The caller may not see or do this. `needed`: the role; None: they may see only some jobs."""

    def __init__(self, needed: Permission | None) -> None:
        super().__init__(needed)
        self.needed = needed


async def decided(access: Decide, request: Request) -> Access:
    """Return what the application says of a request.

    Raises:
        ConfigurationError: it says something else.
    """
    before = request.scope.get("wsgi_environ", {}).get(DECIDED)
    said = access(request) if before is None else before()
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


def asked(access: Access, text: str, blanking: Blanking) -> Filter:
    """Read a filter that a caller with this access gives; it finds nothing by what is not shown.

    Raises:
        InvalidFilter: it is none, or asks for contents that are hidden, or for a secret.
    """
    wanted = parse(text)
    for each in wanted.terms:
        _refuse_hidden(access, each, blanking)
    return wanted


def _refuse_hidden(access: Access, said: SaidTerm, blanking: Blanking) -> None:
    if said.qualifier in OF_CONTENTS and not access.contents:
        raise InvalidFilter(
            f"no job is found by {said.qualifier}: here, as what jobs carry is not shown to you;"
            " leave it out"
        )
    if any(map(blanking.is_secret, (said.name, *said.name.split(".")))):
        raise InvalidFilter(
            "no job is found by an argument whose name says that it is a secret; leave it out"
        )
