"""Actions on many jobs, and their audit, in the tables: `mutirao.ports.audit`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.sql.statements.finding import audit, paging
from mutirao.sql.store.part_calls import StorePart, read, read_many, write

if TYPE_CHECKING:
    from mutirao.model.audit.actions import NewAction


class SqlAudit(StorePart):
    """`store.audit`."""

    matching_ids = read_many(paging.ids)
    states = read(audit.states)
    delete = write(audit.remove)
    advance = write(audit.advance)
    end = write(audit.end)
    actions = read(audit.listed)
    prune = write(audit.prune, patient=True)

    async def begin(self, action: NewAction, *, now: datetime | None = None) -> int:
        """Write down that an action begins, once."""
        sender = self._sender
        return await sender.runner.run(audit.begin, sender.dialect, action, now)

    async def stop(self, id: int) -> bool:
        """Request that an action stops."""
        return await self._sender.insistent.run(audit.stop, id)
