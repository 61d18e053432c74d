"""Actions on many jobs, and their audit, in the tables: `mutirao.ports.audit`."""

from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.sql.statements.finding import audit, paging
from mutirao.sql.store.part import StorePart, looking, reading, writing

if TYPE_CHECKING:
    from mutirao.model.audit.actions import NewAction


class SqlAudit(StorePart):
    """`store.audit`."""

    matching_ids = looking(paging.ids)
    states = reading(audit.states)
    delete = writing(audit.remove)
    advance = writing(audit.advance)
    end = writing(audit.end)
    actions = reading(audit.listed)
    prune = writing(audit.prune, patient=True)

    async def begin(self, action: "NewAction", *, now: datetime | None = None) -> int:
        """Write down that an action begins, once."""
        sender = self._sender
        return await sender.runner.run(audit.begin, sender.dialect, action, now)

    async def stop(self, id: int) -> bool:
        """Request that an action stops."""
        return await self._sender.insistent.run(audit.stop, id)
