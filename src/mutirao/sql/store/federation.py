"""Hosts, and the last activities sent to them, in the tables: `mutirao.ports.federation`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.sql.connections.runner import for_people
from mutirao.sql.statements import federation
from mutirao.sql.store.part_calls import StorePart, change_limits, single, write

if TYPE_CHECKING:
    from mutirao.model.federation.hosts import Amend, Host, HostRecord


class SqlFederation(StorePart):
    """`store.federation`."""

    host = single(federation.host)
    forget_host = change_limits(federation.forget)
    said = single(federation.last_said)
    note_said = write(federation.note_said)
    prune_said = write(federation.prune_said, patient=True)

    async def hosts(self, *, counted: bool = True) -> Sequence[HostRecord]:
        """List the hosts; what is live and dead is read, which takes long."""
        return await self._sender.patient.read(for_people(federation.listed), counted)

    async def change_host(
        self, name: str, amend: Amend, *, queue: str, now: datetime | None = None
    ) -> Host:
        """Change a host's record, with its limit and its probe."""
        sender = self._sender
        return await sender.locking.limits(
            sender.insistent,
            federation.change,
            sender.dialect,
            sender.enqueue,
            name,
            amend,
            queue,
            now,
        )

    async def unsay(self, about: str) -> None:
        """Forget which activity about something has arrived last."""
        await self._sender.insistent.run(federation.unsay, about)
