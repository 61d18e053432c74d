"""The part of a store about federation, as a protocol: hosts, and what was sent to them last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mutirao.model.federation.activities import Said
    from mutirao.model.federation.hosts import Amend, Host, HostRecord


class FederationApi(Protocol):
    """`store.federation`: hosts that activities go to, and the last activities that arrived."""

    async def host(self, name: str) -> Host | None:
        """Return the known state of a host; None if it is unknown."""
        ...

    async def hosts(self, *, counted: bool = True) -> Sequence[HostRecord]:
        """List the hosts that are known or have deliveries, by name.

        Reads all jobs that are live or dead, but not the history. Without `counted` no job is read:
        only known hosts are listed, without numbers of deliveries.
        """
        ...

    async def change_host(
        self, name: str, amend: Amend, *, queue: str, now: datetime | None = None
    ) -> Host:
        """Change the state of a host by a function of the state and the time; return the new state.

        In one transaction with the limit of its deliveries (`limit_of`), and with the job, in
        `queue`, that lets the next one through (`probe_of`). Nothing is locked or written if the
        function returns its argument. It may be called twice.
        """
        ...

    async def forget_host(self, name: str) -> bool:
        """Delete a host, its limit, and what was sent to it; return whether it existed.

        Its held deliveries run then.
        """
        ...

    async def said(self, about: str) -> Said | None:
        """Return the last activity about an object that has arrived, if it is known."""
        ...

    async def note_said(
        self, about: str, host: str, said: Said, *, now: datetime | None = None
    ) -> None:
        """Record which activity about an object has arrived last, at a host."""
        ...

    async def unsay(self, about: str) -> None:
        """Forget which activity about an object has arrived last: another one is on its way."""
        ...

    async def prune_said(self, before: float, limit: int, *, now: datetime | None = None) -> int:
        """Forget last activities that have arrived more than `before` seconds ago.

        At most `limit`, oldest first; returns how many.
        """
        ...
