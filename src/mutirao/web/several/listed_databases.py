"""The databases of an application, as it lists them, each with the name that URLs have for it."""

import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from mutirao.client.other_stores.kept_list import KeptList

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


class ListedDatabases(KeptList[Mapping[str, ListedDatabase]]):
    """The databases by their names, asked for at most every five seconds.

    Parameters:
        ask: returns the URLs, each with what may be shown of it.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[Mapping[str, str] | None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        async def named() -> Mapping[str, ListedDatabase]:
            return _named(await ask() or {})

        super().__init__(named, FRESH_FOR, clock)


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
