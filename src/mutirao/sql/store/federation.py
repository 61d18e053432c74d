"""The part of the SQL store about federation: hosts, and the last activities sent to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.sql import statements
from mutirao.sql.connections.runner import for_people

if TYPE_CHECKING:
    from mutirao.model.federation.activities import Said
    from mutirao.model.federation.hosts import Amend, Host, HostRecord
    from mutirao.sql.connections.runner import Runner
    from mutirao.sql.dialects.base import Dialect
    from mutirao.sql.enqueue.intake import SqlIntake
    from mutirao.sql.store.locking import RowLocking


class SqlFederation:
    """The part of `SqlStore` that implements `mutirao.ports.federation`."""

    _locking: RowLocking
    _dialect: Dialect
    _intake: SqlIntake
    _runner: Runner
    _insistent: Runner
    _patient: Runner

    async def host(self, name: str) -> Host | None:
        """Return the known state of a host."""
        return await self._runner.alone(statements.federation.host, name)

    async def hosts(self, *, counted: bool = True) -> Sequence[HostRecord]:
        """List the hosts."""
        return await self._patient.read(for_people(statements.federation.listed), counted)

    async def change_host(
        self, name: str, amend: Amend, *, queue: str, now: datetime | None = None
    ) -> Host:
        """Change a host's record, with its limit and its probe."""
        enqueue = self._intake.enqueue
        return await self._locking.limits(
            self._insistent,
            statements.federation.change,
            self._dialect,
            enqueue,
            name,
            amend,
            queue,
            now,
        )

    async def forget_host(self, name: str) -> bool:
        """Delete a host's record."""
        return await self._locking.limits(
            self._insistent, statements.federation.forget, self._dialect, name
        )

    async def said(self, about: str) -> Said | None:
        """Return the last activity about something that has arrived."""
        return await self._runner.alone(statements.federation.said, about)

    async def note_said(
        self, about: str, host: str, said: Said, *, now: datetime | None = None
    ) -> None:
        """Record which activity about something has arrived last."""
        await self._insistent.run(
            statements.federation.note_said, self._dialect, about, host, said, now
        )

    async def unsay(self, about: str) -> None:
        """Forget which activity about something has arrived last."""
        await self._insistent.run(statements.federation.unsay, about)

    async def prune_said(self, before: float, limit: int, *, now: datetime | None = None) -> int:
        """Forget some activities that have arrived long ago."""
        moment = self._dialect.moment(now, -before)
        return await self._patient.run(statements.federation.prune_said, moment, limit)
