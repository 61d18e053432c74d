"""What each role does, as duties: what the role does itself, and what others do meanwhile.

A duty passes where the role may do it all. Together the duties of a role meet every statement that
it has: a privilege without which all of them pass is one too many. `about` says which tables a duty
is the first to look at when one of their privileges is missing; it changes nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mutirao.sql.dialects.postgresql.grants import role_named
from mutirao.sql.store.jobs import SqlStore

Body = Callable[[SqlStore, SqlStore], Awaitable[None]]


@dataclass(frozen=True)
class Duty:
    """A part of what a role does: `body` is given the role's own store, and that of others."""

    body: Body
    about: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.body.__name__


DUTIES: dict[str, list[Duty]] = {}


def duty(role: str, *about: str) -> Callable[[Body], Body]:
    """Note that a role does this."""

    def noted(body: Body) -> Body:
        known = frozenset(f"mutirao_{name}" for name in about)
        DUTIES.setdefault(role, []).append(Duty(body, known))
        return body

    return noted


def duties_of(role: str, about: str = "") -> list[Duty]:
    """Return a role's duties, and those of the roles that it goes beyond, the last.

    Those that are about a table come first.
    """
    beyond = [each for other in role_named(role).beyond for each in duties_of(other)]
    return sorted([*DUTIES[role], *beyond], key=lambda duty: about not in duty.about)
