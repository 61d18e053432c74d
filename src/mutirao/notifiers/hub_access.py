"""An application's access to its hub: its address, and the announcements to it.

The address is the application's option, or MUTIRAO_HUB, which is read when it is first needed.
A program without a hub imports nothing of it.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from mutirao.errors import StoreUnavailable
from mutirao.model.jobs.lanes import Wake

if TYPE_CHECKING:
    from mutirao.hub.address import Address
    from mutirao.hub.protocol import Serves
    from mutirao.model.findings import Finding
    from mutirao.notifiers.hub import HubNotifier
    from mutirao.notifiers.hub_client import HubClient

_FIRST_LOOK = 1.0  # seconds that a hub which has just started may take to look
_START = "start it (`mutirao hub module:app`), or correct its URL or its token"
_LOOK = "give it the database: `mutirao hub module:app`, or --database URL; docs/hub.md has names"

VARIABLE, TOKEN = "MUTIRAO_HUB", "MUTIRAO_HUB_TOKEN"


class HubAccess:
    """The hub of an application, if it has one.

    Parameters:
        hub: its URL; None: that of MUTIRAO_HUB, if it is set.
        database: the name of the database, unless the hub's URL gives it another one.

    Raises:
        ConfigurationError: `hub` is no URL of a hub. From MUTIRAO_HUB, when it is first needed.
    """

    def __init__(self, hub: str | None, database: str) -> None:
        self.given = hub
        self._given = None if hub is None else _parsed(hub)
        self._named = database
        self._found: tuple[Address | None] | None = None
        self._client: HubClient | None = None

    @property
    def address(self) -> Address | None:
        """Where the hub is; None: there is none."""
        if self._found is None:
            url = os.environ.get(VARIABLE)
            address = self._given or (_parsed(url) if url else None)
            if address is not None:
                from mutirao.notifiers.hub_client import HubClient

                address = address.with_token(os.environ.get(TOKEN, ""))
                self._client = HubClient(address, address.name or self._named)
            self._found = (address,)
        return self._found[0]

    @property
    def database(self) -> str:
        """The name that the hub knows the database by."""
        address = self.address
        return self._named if address is None else address.name or self._named

    @property
    def listens(self) -> bool:
        """True if there is a hub."""
        return self.address is not None

    def announce(self, wake: Wake, jobs: int = 1, task: str | None = None) -> None:
        """Announce committed jobs to the hub; never waits."""
        if self.address is not None and self._client is not None:
            self._client.announce(wake, jobs, task)

    def notifier(self, serves: Serves, poll: float) -> HubNotifier | None:
        """Return the wake-ups of a worker that serves this; None without a hub."""
        if self.address is None:
            return None
        from mutirao.notifiers.hub import HubNotifier

        return HubNotifier(self.address, self.database, serves, poll)

    async def examine(self) -> list[Finding]:
        """Greet the hub as a busy worker does; return the finding, nothing without a hub."""
        if self.address is None:
            return []
        from mutirao.hub.protocol import Serves
        from mutirao.model.findings import Finding, Level
        from mutirao.notifiers.hub import HubNotifier

        notifier = HubNotifier(self.address, self.database, Serves(idle=False))
        try:
            looks = await _looks(notifier)
        except StoreUnavailable as away:
            return [Finding(Level.WARNING, "hub", f"{away}; workers poll", _START)]
        if looks:
            found = f"the hub at {self.address} answers, and looks at this database"
            return [Finding(Level.OK, "hub", found)]
        found = (
            f"the hub at {self.address} answers, and does not look at this database, which it"
            f" knows as {self.database!r}: jobs that nobody announces wait until workers poll"
        )
        return [Finding(Level.WARNING, "hub", found, _LOOK)]

    def close(self) -> None:
        """Send the queued hints, and end the thread that sends them; the next hint starts one."""
        if self._client is not None:
            self._client.close()


def _parsed(url: str) -> Address:
    from mutirao.hub.address import parse_address

    return parse_address(url)


async def _looks(notifier: HubNotifier) -> bool:
    """Return whether the hub looks at the database; raise StoreUnavailable if it is away."""
    async with aclosing(notifier.listen()) as wakes:
        await anext(wakes)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK + min(notifier.said or 0.0, _FIRST_LOOK)):
                while not notifier.complete:
                    await anext(wakes)
        return notifier.complete
