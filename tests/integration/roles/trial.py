"""A role on trial: it does its duties with what it may, with less, and with what it lacks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import chain

from psycopg import Connection

from mutirao.errors import StoreError
from mutirao.sql.dialects.postgresql import grant_statements, grants
from mutirao.sql.schema.tables import metadata
from mutirao.sql.store.jobs import SqlStore
from tests.integration.roles.duties import Duty, duties_of
from tests.support.company import MIGRATOR, Company, Privilege, each_privilege

_DENIED = re.compile(r"permission denied for (table|view|sequence) (\w+)")
_KINDS = {
    "sequence": ["USAGE"],
    "view": ["SELECT"],
    "table": ["SELECT", "INSERT", "UPDATE", "DELETE"],
}
# Deleting the few rows there are is faster than truncating.
_EMPTY = "; ".join(f"DELETE FROM {name}" for name in metadata.tables).encode()  # noqa: S608


class Trial:
    """A role, or several in one, whose others are the migrator, to whom everything belongs."""

    def __init__(self, company: Company, *roles: str) -> None:
        self._company, self._roles, self._login = company, roles, "company_" + "_".join(roles)
        self._urls = company.hire(self._login, *roles), company.url(MIGRATOR)
        self.printed = grant_statements.sql(roles, self._login)
        self._met: defaultdict[str, list[Duty]] = defaultdict(list)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Trial]:
        """Open the stores of the role and of the others."""
        self._mine, self._others = map(SqlStore, self._urls)
        self._owner: Connection = self._company.owner()
        try:
            yield self
        finally:
            self._owner.close()
            for store in (self._mine, self._others):
                await store.close()

    async def without(self, privilege: Privilege) -> StoreError | None:
        """Return what fails for the lack of a privilege; None if nothing does."""
        met = self._met[privilege.name]
        others = [each for each in self._duties(privilege.name) if each not in met]
        self._take(privilege)
        try:
            for duty in (*met, *others):
                if (error := await self.refused(duty)) is not None:
                    self._met[privilege.name] = [duty, *(each for each in met if each != duty)]
                    return error
            return None
        finally:
            self._give(privilege)

    async def lacks(self, duty: Duty) -> list[str]:
        """Return the privileges that are to be granted before a duty passes."""
        held, given = [*self._held()], list[Privilege]()
        while (error := await self.refused(duty)) is not None:
            more = [each for each in _suspected(error) if each not in [*held, *given]]
            assert more, f"{duty} fails, whatever is granted: {error}"
            for privilege in more:
                self._give(privilege)
            given += more
        return [str(each) for each in given if await self._needs(each, duty)]

    def empty(self) -> None:
        """Delete all rows."""
        self._owner.execute(_EMPTY)

    async def refused(self, duty: Duty) -> StoreError | None:
        """Let the role do a duty; return the error with which it is refused, if it is."""
        self.empty()
        try:
            await duty.body(self._mine, self._others)
        except StoreError as error:
            return error
        return None

    def _held(self) -> Iterator[Privilege]:
        return chain.from_iterable(map(each_privilege, self._roles))

    def _duties(self, about: str) -> Iterator[Duty]:
        return chain.from_iterable(duties_of(role, about) for role in self._roles)

    async def _needs(self, privilege: Privilege, duty: Duty) -> bool:
        self._take(privilege)
        if await self.refused(duty) is None:
            return False
        self._give(privilege)
        return True

    def _give(self, privilege: Privilege) -> None:
        self._owner.execute(f"GRANT {privilege} TO {self._login}".encode())

    def _take(self, privilege: Privilege) -> None:
        self._owner.execute(f"REVOKE {privilege} FROM {self._login}".encode())


def of_its_own(role: str) -> Iterator[Privilege]:
    """Yield every privilege of a role that those do not have which it goes beyond."""
    known = {each for other in grants.role_named(role).beyond for each in each_privilege(other)}
    yield from (each for each in each_privilege(role) if each not in known)


def _suspected(error: StoreError) -> Iterator[Privilege]:
    found = _DENIED.search(str(error))
    assert found, f"this has nothing to do with privileges: {error}"
    on = f"SEQUENCE {found[2]}" if found[1] == "sequence" else found[2]
    yield from (Privilege(kind, on) for kind in _KINDS[found[1]])
