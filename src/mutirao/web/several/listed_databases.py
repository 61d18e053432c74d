"""The databases of an application, as it lists them, each with the name that URLs have for it."""

import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from mutirao.log import log

App = TypeVar("App")
AppOf = TypeVar("AppOf", covariant=True)
FRESH_FOR = 5.0  # seconds; workers ask as often


class Elsewhere(Protocol[AppOf]):
    """An application that lists its databases."""

    @property
    def lists_databases(self) -> bool:
        """Whether it lists databases, rather than to have one."""
        ...

    async def alisted_databases(self) -> Mapping[str, str] | None:
        """Return the URLs, each with what may be shown of it; raise ConfigurationError."""
        ...

    def elsewhere(self, url: str) -> AppOf:
        """Return the application with another database."""
        ...


class ListedDatabase(NamedTuple):
    """A database. `shown`: its URL without the password."""

    name: str
    shown: str
    url: str

    def __repr__(self) -> str:
        """Without the password."""
        return f"ListedDatabase({self.name!r})"


@dataclass(slots=True)
class _KeptList:
    found: Mapping[str, ListedDatabase]
    at: float


class ListedDatabases:
    """The databases, asked for at most every five seconds.

    Parameters:
        ask: returns the URLs, each with what may be shown of it.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[Mapping[str, str] | None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._clock = ask, clock
        self._kept: _KeptList | None = None
        self._failed = False

    async def get(self) -> Mapping[str, ListedDatabase]:
        """Return the databases by their names; while they cannot be listed, those known before.

        Raises:
            Exception: what the function of the application raised, and none are known.
        """
        if self._kept is not None and self._clock() - self._kept.at < FRESH_FOR:
            return self._kept.found
        try:
            listed = await self._ask()
        except Exception as error:
            if self._kept is None:
                raise
            if not self._failed:
                log.error("the list of databases stays as it is: %s", error, exc_info=error)
            self._failed = True
            self._kept.at = self._clock()
            return self._kept.found
        self._failed = False
        self._kept = _KeptList(_named(listed or {}), self._clock())
        return self._kept.found


def _named(listed: Mapping[str, str]) -> dict[str, ListedDatabase]:
    found = (ListedDatabase(name_of(shown), shown, url) for url, shown in listed.items())
    return {each.name: each for each in sorted(found, key=lambda each: each.shown)}


def name_of(shown: str) -> str:
    """Return the name of a database in URLs: the same in each process, whatever the list is.

    Parameters:
        shown: its URL without the password, which may change.
    """
    place = re.split(r"[?#]", shown, maxsplit=1)[0].rpartition("/")[2]
    plain = re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")[:40] or "database"
    return f"{plain}-{hashlib.sha256(shown.encode()).hexdigest()[:8]}"
