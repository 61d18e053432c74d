"""An application's way to its hub: where that is, and what it is told.

The address is that which the application was given, or MUTIRAO_HUB, which is read when it is first
needed.
"""

import os

from mutirao.hub.address import Address, parse_address
from mutirao.hub.protocol import Serves, WakeLine
from mutirao.model.lanes import Wake
from mutirao.notifiers.hub import HubNotifier
from mutirao.notifiers.telling import HubTeller

VARIABLE, TOKEN = "MUTIRAO_HUB", "MUTIRAO_HUB_TOKEN"


class HubAccess:
    """The hub of an application, if it has one.

    Parameters:
        hub: its URL; None: what MUTIRAO_HUB says, if anything.
        database: the name of the database, unless the hub's URL gives it another one.

    Raises:
        ConfigurationError: `hub` is no URL of a hub. From MUTIRAO_HUB, when it is first needed.
    """

    def __init__(self, hub: str | None, database: str) -> None:
        self.given = hub
        self._given = None if hub is None else parse_address(hub)
        self._named = database
        self._found: tuple[Address | None] | None = None
        self._teller: HubTeller | None = None

    @property
    def address(self) -> Address | None:
        """Where the hub is; None: there is none."""
        if self._found is None:
            url = os.environ.get(VARIABLE)
            address = self._given or (parse_address(url) if url else None)
            if address is not None:
                address = address.with_token(os.environ.get(TOKEN, ""))
                self._teller = HubTeller(address, address.name or self._named)
            self._found = (address,)
        return self._found[0]

    @property
    def database(self) -> str:
        """The name that the hub knows the database by."""
        address = self.address
        return self._named if address is None else address.name or self._named

    @property
    def listens(self) -> bool:
        """True if there is a hub to tell."""
        return self.address is not None

    def announce(self, wake: Wake, jobs: int = 1, task: str | None = None) -> None:
        """Tell the hub that jobs were committed; never waits."""
        if self.address is not None and self._teller is not None:
            self._teller.tell(WakeLine(wake.queue, wake.priority, wake.run_at, task, jobs))

    def notifier(self, serves: Serves, poll: float) -> HubNotifier | None:
        """Return the wake-ups of a worker that serves this; None without a hub."""
        if self.address is None:
            return None
        return HubNotifier(self.address, self.database, serves, poll)

    def close(self) -> None:
        """Say what has not been said, and end the thread that says it; the next hint starts one."""
        if self._teller is not None:
            self._teller.close()
